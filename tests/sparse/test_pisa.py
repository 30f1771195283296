"""PISA as an oracle: over the postings that we export, it retrieves what we do."""

import shutil
import subprocess
from collections import Counter
from functools import partial
from itertools import islice

import numpy as np
import pytest

from benchmarks import pisa
from espalier.collections import access
from espalier.sparse import ciff, exchange, index, inverted, shards
from espalier.sparse.postings import Query, bm25_side, learned_side
from espalier.sparse.retrieval import search
from espalier.sparse.shards import Text
from espalier.sparse.words import words
from tests.sparse.made import make_index
from tests.sparse.test_ciff import by_protobuf
from tests.sparse.test_traversal import SAFE

try:
    pisa.extension()
except ImportError as reason:
    pytest.skip(
        f"PISA cannot be imported ({reason}); install pyterrier-pisa", allow_module_level=True
    )

DEPTHS = (10, 100)
PASSAGES = 30_005
"""Documents of a large collection that are indexed."""

QUERIES = 20
"""Queries of a real collection that are asked."""


def side_of(opened, name):
    return {"bm25": bm25_side, "learned": learned_side}[name](
        opened.postings, opened.partitions["variable"]
    )


OLD_ENOUGH = ("python3.10", "python3.9", "python3.8", "python3.7")
"""Pythons that pyciff, PISA's own reader and writer of the format, has wheels for."""


@pytest.fixture(scope="session")
def pyciff(tmp_path_factory):
    """A call of pyciff's functions, in an environment of its own."""

    def ran(*command):
        return subprocess.run(command, capture_output=True, text=True, check=False)

    # A name on PATH may be a version manager's, which runs nothing.
    found = (
        path for path in map(shutil.which, OLD_ENOUGH) if path and not ran(path, "-V").returncode
    )
    python = next(found, None)
    if python is None:
        pytest.skip(f"pyciff has wheels for {', '.join(OLD_ENOUGH)}; put one of them on PATH")
    own = tmp_path_factory.mktemp("pyciff") / "bin/python"
    installed = ran(
        "sh", "-ec", '"$0" -m venv "$1"; "$1/bin/python" -m pip install --only-binary=:all: "$2"',
        python, own.parents[1], "pyciff==0.2.0",
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"pyciff cannot be installed: {installed.stderr.strip().splitlines()[-1]}")

    def call(function, *arguments):
        said = ", ".join(repr(a if isinstance(a, bool) else str(a)) for a in arguments)
        done = ran(own, "-c", f"import pyciff; pyciff.{function}({said})")
        assert done.returncode == 0, done.stderr

    return call


def by_pisas_own(call, path, folder):
    """What PISA's own reader makes of a CIFF file, named as PISA opens it."""
    call("ciff_to_pisa", path, folder / "inv", False)
    for name in ("terms", "documents"):
        (folder / f"inv.{name}").rename(folder / f"fwd.{name}")


def by_protobufs(path, folder):
    """The same by protobuf's parser, list by list."""
    _, postings, records, _ = by_protobuf(path.read_bytes())
    ascending = sorted(postings.items(), key=lambda item: item[0].encode())
    documents = len(records)
    docs, weights = [1, documents], []
    for _, posting in ascending:
        docs += [len(posting), *posting]
        weights += [len(posting), *posting.values()]
    sizes = [documents, *(length for _, length in records)]
    for name, numbers in (("docs", docs), ("freqs", weights), ("sizes", sizes)):
        np.array(numbers, np.uint32).tofile(folder / f"inv.{name}")
    doc_ids = [doc_id for doc_id, _ in records]
    for name, lines in (("terms", [term for term, _ in ascending]), ("documents", doc_ids)):
        (folder / f"fwd.{name}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(params=["PISA's own", "protobuf's"])
def reader(request):
    """Makes a folder that PISA opens of a CIFF file."""
    if request.param == "protobuf's":
        return by_protobufs
    return partial(by_pisas_own, request.getfixturevalue("pyciff"))


def through_ciff(folder, opened, name, reader):
    """One side in PISA as a reader takes it from the CIFF file that we write."""
    path = folder / f"{name}.ciff"
    ciff.write(path, exchange.as_ciff(opened, name))
    own = folder / name
    own.mkdir()
    reader(path, own)
    held = set((own / "fwd.terms").read_text().split("\n")[:-1])
    terms = {number: term for term, number in opened.lexicon.items() if term in held}
    assert len(terms) == len(held)
    engine = pisa.Pisa(own, terms)
    assert list(engine.documents) == list(opened.doc_ids)
    return engine


def check(engine, opened, name, asked):
    """Every algorithm of PISA's and ours retrieves the same; how many rankings were compared."""
    compared = 0
    for query in asked:
        weights = getattr(query, name)
        known = np.array([t in engine.terms for t in query.terms.tolist()], bool)
        if not (known & (weights > 0)).any():
            continue  # PISA takes no empty query
        for k in DEPTHS:
            found = {}
            for algorithm in pisa.ALGORITHMS:
                docs, scores, _ = engine.search(query, weights, k, algorithm)
                found[f"PISA {algorithm}"] = (docs.tolist(), scores.tolist())
            for algorithm in SAFE:
                setting = {"algorithm": algorithm, "beta": float(name == "bm25")}
                docs, scores, _ = search(opened, query, setting, k)
                found[algorithm] = (docs.tolist(), scores.tolist())
            docs, scores = found["daat"]
            assert scores
            # Which of the documents tied with the k-th are kept is each engine's own choice.
            last = scores[-1] if len(scores) == k else -1
            above = {(d, s) for d, s in zip(docs, scores, strict=True) if s > last}
            for algorithm, (docs, scores) in found.items():
                assert scores == found["daat"][1], algorithm
                pairs = {(d, s) for d, s in zip(docs, scores, strict=True) if s > last}
                assert pairs == above, algorithm
                compared += 1
    return compared


def random_index(seed, documents=1500):
    rng = np.random.default_rng(seed)
    lists = [
        {
            int(doc): (int(rng.integers(256)), int(rng.integers(256)))
            for doc in rng.choice(documents, int(documents * share), replace=False)
        }
        for share in (0.002, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9)
    ]
    opened = make_index([*lists, {}, {0: (0, 0)}], 16, documents)
    asked = []
    for _ in range(8):
        terms = np.sort(rng.choice(9, int(rng.integers(1, 8)), replace=False))
        asked.append(Query(terms, *rng.integers(0, 6, (2, len(terms)))))
    return opened, asked


@pytest.mark.parametrize("name", ["bm25", "learned"])
@pytest.mark.parametrize("seed", [1, 2])
def test_random_indexes(tmp_path, name, seed):
    opened, asked = random_index(seed)
    folder, side = tmp_path / "pisa", side_of(opened, name)
    engine = pisa.Pisa(folder, pisa.write(folder, opened, side))
    assert check(engine, opened, name, asked) >= 80


@pytest.mark.parametrize("name", ["bm25", "learned"])
@pytest.mark.parametrize("seed", [1, 2])
def test_random_indexes_that_we_export(tmp_path, name, seed, reader):
    opened, asked = random_index(seed)
    engine = through_ciff(tmp_path, opened, name, reader)
    assert len(engine.terms) == 7
    assert check(engine, opened, name, asked) >= 80


def test_what_pisa_exports_is_what_we_exported(tmp_path, pyciff):
    opened, _ = random_index(3)
    sent, back = tmp_path / "sent.ciff", tmp_path / "back.ciff"
    ciff.write(sent, exchange.as_ciff(opened, "learned"))
    pyciff("ciff_to_pisa", sent, tmp_path / "inv", False)
    lexicons = (tmp_path / f"inv.{name}" for name in ("terms", "documents"))
    pyciff("pisa_to_ciff", tmp_path / "inv", *lexicons, back, "from PISA")
    ours, theirs = ciff.read(sent), ciff.read(back)
    assert theirs.description == "from PISA"
    assert (theirs.terms, theirs.doc_ids) == (ours.terms, ours.doc_ids)
    for field in ("term_begin", "docs", "weights", "doc_lengths"):
        np.testing.assert_array_equal(getattr(theirs, field), getattr(ours, field))


def indexed(folder, docs):
    """An index of the words of documents; learned weights are their lengths, to have some."""
    parts, docs = [], list(docs)
    for start in range(0, len(docs), 5000):
        some = docs[start : start + 5000]
        texts = [Counter(words(f"{doc.title} {doc.text}")) for doc in some]
        weighed = [Text(text, {word: float(len(word)) for word in text}) for text in texts]
        parts.append(inverted.invert(shards.build([doc.doc_id for doc in some], weighed)))
    index.seal(folder, index.build(folder, parts, block_size=40, k1=0.9, b=0.4))
    return index.read(folder)


def check_collection(folder, docs, texts, reader):
    opened = indexed(folder / "index", docs)
    asked = []
    for text in texts:
        counts = {
            opened.lexicon[w]: n for w, n in Counter(words(text)).items() if w in opened.lexicon
        }
        terms = np.array(sorted(counts), np.int64)
        weights = np.array([counts[t] for t in terms.tolist()], np.int64)
        asked.append(Query(terms, weights, weights))
    engine = through_ciff(folder, opened, "bm25", reader)
    # Of nearly all queries, the index has a word.
    every = len(DEPTHS) * (len(pisa.ALGORITHMS) + len(SAFE))
    assert check(engine, opened, "bm25", asked) >= 0.9 * every * len(asked)


def test_the_built_in_mini_collection(tmp_path, pydocs_mini, reader):
    asked = islice(access.queries(f"{pydocs_mini}/passages/test"), QUERIES)
    docs = access.docs(f"{pydocs_mini}/passages")
    check_collection(tmp_path, docs, [query.text for query in asked], reader)


@pytest.mark.parametrize(
    ("dataset_id", "place"),
    [
        ("vaswani", "vaswani/npl.tar.gz"),
        ("beir/nfcorpus/test", "beir/nfcorpus/source.zip"),
        ("msmarco-passage/trec-dl-2019/judged", "msmarco-passage/collection.tsv"),
    ],
)
def test_a_real_collection(tmp_path, real_collection_home, dataset_id, place, reader):
    if not (real_collection_home / place).exists():
        pytest.skip(f"{real_collection_home / place} is absent; set IR_DATASETS_HOME to have it")
    texts = [query.text for query in islice(access.queries(dataset_id), QUERIES)]
    check_collection(tmp_path, access.docs(dataset_id, 0, PASSAGES), texts, reader)
