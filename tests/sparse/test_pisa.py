"""PISA as an oracle: over the postings that we export, it retrieves what we do."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from benchmarks import pisa
from espalier.collections import access
from espalier.sparse import ciff, exchange, index, inverted, shards
from espalier.sparse.postings import Query, Side, bm25_side, learned_side
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


def through_ciff(folder, opened, name):
    """One side in PISA as a CIFF file holds it, and PISA's number of each of our terms.

    The file is read by protobuf and taken over list by list, as PISA's own converter does it.
    """
    path = folder / f"{name}.ciff"
    ciff.write(path, exchange.as_ciff(opened, name))
    _, postings, records, _ = by_protobuf(path.read_bytes())
    assert [doc_id for doc_id, _ in records] == list(opened.doc_ids)
    docs, weights, begin = [], [], [0]
    for posting in postings.values():
        docs += [*posting, len(records)]
        weights += [*posting.values(), 0]
        begin.append(len(docs))
    exported = opened._replace(
        postings=opened.postings._replace(
            docs=np.array(docs, np.uint32), term_begin=np.array(begin, np.int64)
        )
    )
    side = Side(np.array(weights, np.uint32), *side_of(opened, name)[1:])
    numbers = {term: i for i, term in enumerate(postings)}
    return pisa.Pisa(folder / name, exported, side), {
        t: numbers[term] for term, t in opened.lexicon.items() if term in numbers
    }


def check(engine, numbers, opened, name, asked):
    """Every algorithm of PISA's and ours retrieves the same; how many rankings were compared."""
    compared = 0
    for query in asked:
        weights = getattr(query, name)
        known = np.array([t in numbers for t in query.terms.tolist()], bool) & (weights > 0)
        if not known.any():
            continue  # PISA takes no empty query
        theirs = Query(
            np.array([numbers[t] for t in query.terms[known].tolist()]),
            *(column[known] for column in query[1:]),
        )
        for k in DEPTHS:
            found = {}
            for algorithm in pisa.ALGORITHMS:
                docs, scores, _ = engine.search(theirs, weights[known], k, algorithm)
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
@pytest.mark.parametrize("exported", [False, True])
def test_random_indexes(tmp_path, name, seed, exported):
    opened, asked = random_index(seed)
    if exported:
        engine, numbers = through_ciff(tmp_path, opened, name)
        assert len(numbers) == 7
    else:
        engine = pisa.Pisa(tmp_path / "pisa", opened, side_of(opened, name))
        numbers = {t: t for t in engine.terms}
    assert check(engine, numbers, opened, name, asked) >= 80


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


def check_collection(folder, docs, texts):
    opened = indexed(folder / "index", docs)
    asked = []
    for text in texts:
        counts = {
            opened.lexicon[w]: n for w, n in Counter(words(text)).items() if w in opened.lexicon
        }
        terms = np.array(sorted(counts), np.int64)
        weights = np.array([counts[t] for t in terms.tolist()], np.int64)
        asked.append(Query(terms, weights, weights))
    engine, numbers = through_ciff(folder, opened, "bm25")
    # Of nearly all queries, the index has a word.
    every = len(DEPTHS) * (len(pisa.ALGORITHMS) + len(SAFE))
    assert check(engine, numbers, opened, "bm25", asked) >= 0.9 * every * len(asked)


def test_the_built_in_mini_collection(tmp_path, pydocs_mini):
    asked = islice(access.queries(f"{pydocs_mini}/passages/test"), QUERIES)
    docs = access.docs(f"{pydocs_mini}/passages")
    check_collection(tmp_path, docs, [query.text for query in asked])


@pytest.mark.parametrize(
    ("dataset_id", "place"),
    [
        ("vaswani", "vaswani/npl.tar.gz"),
        ("beir/nfcorpus/test", "beir/nfcorpus/source.zip"),
        ("msmarco-passage/trec-dl-2019/judged", "msmarco-passage/collection.tsv"),
    ],
)
def test_a_real_collection(tmp_path, real_collection_home, dataset_id, place):
    if not (real_collection_home / place).exists():
        pytest.skip(f"{real_collection_home / place} is absent; set IR_DATASETS_HOME to have it")
    texts = [query.text for query in islice(access.queries(dataset_id), QUERIES)]
    check_collection(tmp_path, access.docs(dataset_id, 0, PASSAGES), texts)
