"""The verbs one after another on a small collection, against scores by brute force; then again."""

import json
import random
import re
from collections import Counter
from math import log
from typing import NamedTuple

import ir_datasets
import numpy as np
import pandas as pd
import pytest
import torch
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericQuery, TrecQrel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from espalier import files
from espalier.cli import main
from espalier.collections.snapshot import take
from espalier.evaluation import runs
from espalier.sparse import ciff, index, shards
from espalier.sparse.names import Names
from espalier.text import batching

WORDS = [f"w{i}" for i in range(14)]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
K1, B, SCALE, DEPTH, SLICES, SAMPLES, MAX_LENGTH = 0.9, 0.4, 0.75, 4, 2, 3, 8
INDEX = {
    "block_size": 3, "partition_by": "learned", "bits": 8, "k1": K1, "b": B, "reordered": False,
    "delimiter": None,
}  # fmt: skip

DTHS = {"algorithm": "dths", "f_s": 1.0, "f_f": 1.0, "view": "independent"}
SETTINGS = [
    {"name": "bm25", "algorithm": "vbmw", "beta": 1.0},
    {"name": "original", "algorithm": "bmw", "beta": 0.0},
    {"name": "union", "algorithm": "wand", "beta": 0.0, "index": "union"},
    {"name": "bm25-union", "algorithm": "taat", "beta": 1.0, "index": "union"},
    {"name": "exhaustive", "algorithm": "daat", "beta": 0.2},
    {"name": "hybrid", **DTHS, "alpha": 0.2, "beta": 0.2, "threshold": "single"},
    {"name": "hybrid-k9", "algorithm": "maxscore", "beta": 0.2, "k": 9},
    {"name": "rash", "algorithm": "vbmw", "beta": 0.0, "f": 4.0, "index": "union"},
    {"name": "dths", **DTHS, "alpha": 1.0, "beta": 0.0, "threshold": "dual"},
]
UNSAFE = {"rash", "dths"}


class Doc(NamedTuple):
    doc_id: str
    title: str
    text: str


class Fixed(BaseDocs, BaseQueries, BaseQrels):
    """A collection of 40 documents and 8 queries of few words, some of which occur often."""

    def __init__(self):
        draw = random.Random(5)
        shares = [1 / (i + 1) for i in range(len(WORDS))]

        def text(most):
            return " ".join(draw.choices(WORDS, shares, k=draw.randint(1, most)))

        # Not in the order of their ids; some have no title, one has no text.
        names = [f"d{i * 7 % 40}" for i in range(40)]
        self.rows = [Doc(name, text(2) if i % 3 else "", text(12)) for i, name in enumerate(names)]
        self.rows[4] = Doc(names[4], "", "")
        self.asked = [GenericQuery(f"q{9 - i}", text(4)) for i in range(7)]
        # Of unknown words, and of none.
        self.asked += [GenericQuery("q0", "zebra"), GenericQuery("q10", "?!")]

    def docs_iter(self):
        return iter(self.rows)

    def queries_iter(self):
        return iter(self.asked)

    def qrels_iter(self):
        return (TrecQrel(query.query_id, self.rows[0].doc_id, 1, "0") for query in self.asked)


COLLECTION = Fixed()
TEXTS = {doc.doc_id: f"{doc.title} {doc.text}".strip() for doc in COLLECTION.rows}
DOC_IDS = list(TEXTS)
QUERIES = {query.query_id: query.text for query in COLLECTION.asked}


@pytest.fixture(scope="module", autouse=True)
def blocks():
    """Few documents to a block, so that the collection has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "BLOCK", 10)
        yield


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    """The collection as espalier sees it."""
    folder = tmp_path_factory.mktemp("view") / "view"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ir_datasets.registry._registered, "tiny", Dataset(COLLECTION))
        take(folder, {"docs": "tiny", "splits": {"test": "tiny"}}, 1)
        yield folder


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Weights of documents and queries as others publish them: spec, documents', queries'."""
    draw = random.Random(6)
    folder = tmp_path_factory.mktemp("given")
    # Every third word that stands in a text weighs nothing, some that do not stand there do.
    documents = {
        name: {
            word: round(draw.uniform(0.01, 3), 4)
            for word in WORDS
            if draw.random() < (0.7 if word in TEXTS[name].split() else 0.1)
        }
        for name in DOC_IDS[:-3]
    }
    queries = {
        name: {w: round(draw.uniform(0.1, 2), 3) for w in {*text.split(), draw.choice(WORDS)}}
        for name, text in QUERIES.items()
    }
    queries |= {"q0": {"quagga": 1.5}, "q10": {}, "other": {"w0": 1.0}}
    spec = {"kind": "vectors", "tokens": "words"}
    # The files' order is not the collection's.
    for kind, weights in (("documents", documents), ("queries", queries)):
        path = folder / f"{kind}.jsonl"
        lines = [json.dumps({"id": name, "vector": weights[name]}) for name in sorted(weights)]
        path.write_text("\n".join(lines))
        spec[kind] = str(path)
    return spec, documents, queries


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    """A tiny SPLADE model with random weights."""
    folder = tmp_path_factory.mktemp("splade")
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, *WORDS, "?"]) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(SPECIALS) + len(WORDS) + 1, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(3)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A tiny T5 with random weights that reads and writes the collection's words."""
    folder = tmp_path_factory.mktemp("t5")
    lexicon = ["<pad>", "</s>", "<unk>", *WORDS]
    numbers = {word: i for i, word in enumerate(lexicon)}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = T5Config(
        vocab_size=len(lexicon), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def call(verb, out, settings, **paths):
    """Run a verb; its record beside the outputs `out`."""
    options = []
    for option, value in {**paths, **out}.items():
        options += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    first = next(iter(out.values()))
    record = first.with_name(f"{first.name}.{verb}.json")
    options += ["--record", str(record), "--settings", json.dumps({"seed": 7, **settings})]
    assert main(["sparse", verb, *options]) == 0
    return json.loads(record.read_text())["metrics"]


def encoded(folder, name, spec, view):
    """A weighting's inverted shards, of documents expanded where its spec says so."""
    parts = []
    for number in range(SLICES):
        settings = {"weighting": spec, "shard": number, "shards": SLICES}
        expansions = {}
        if "expansion" in spec:
            questions = folder / name / "questions" / f"{number}.jsonl"
            metrics = call("expand", {"questions": questions}, settings, view=view)
            assert metrics == {"documents": 20, "questions": 20 * SAMPLES}
            expansions["expansions"] = [questions]
        shard = folder / name / "shards" / str(number)
        metrics = call("encode", {"shard": shard}, settings, view=view, **expansions)
        assert metrics["documents"] == 20
        parts.append(inverted(shard, folder / name / "inverted" / str(number)))
    return parts


def inverted(shard, folder):
    """The folder with a shard's postings term by term, after it was made."""
    call("invert", {"inverted": folder}, {}, shard=shard)
    return folder


def chain(folder, specs, view):
    """All verbs for all weightings; own-terms weightings use what those that they are of have."""
    parts = {n: encoded(folder, n, s, view) for n, s in specs.items() if s["kind"] != "own-terms"}
    indexes, queries = [], []
    for name, spec in specs.items():
        source = spec.get("of", name)
        own = {"own_terms": source != name}
        indexes.append(folder / name / "indexes" / name)
        out = {"indexes": indexes[-1], "weights": folder / name / "weights.parquet"}
        call("index", out, {**INDEX, **own}, inverted=parts[source])
        queries.append(folder / name / "queries.parquet")
        settings = {"weighting": specs[source], "bm25_scale": SCALE, **own}
        call("encode-queries", {"queries": queries[-1]}, settings, view=view)
        for side in ("bm25", "learned"):
            out = {"ciff": folder / name / f"{side}.ciff.gz"}
            call("export", out, {"side": side}, index=indexes[-1] / "union")
    settings = {"settings": SETTINGS, "depth": DEPTH, "segment_hits": 10}
    searched = {"indexes": indexes, "queries": queries}
    out = {"runs": folder / "runs", "counts": folder / "counts.parquet"}
    metrics = call("retrieve", out, settings, **searched)
    assert metrics["k_over_documents"] == DEPTH / 40
    settings |= {"latency_queries": 5, "latency_repeats": 2}
    out = {"latency": folder / "latency.parquet"}
    assert call("latency", out, settings, **searched) == {"queries": 5}


@pytest.fixture(scope="module")
def specs(given, splade, t5):
    expansion = {"model": f"folder:{t5}", "samples": SAMPLES, "max_new_tokens": 4}
    return {
        "given": given[0],
        "given-own": {"kind": "own-terms", "of": "given"},
        "asked": {**given[0], "tokens": f"folder:{splade}", "expansion": expansion},
        "splade": {"kind": "splade", "model": f"folder:{splade}", "max_length": MAX_LENGTH},
    }


@pytest.fixture(scope="module")
def done(view, specs, tmp_path_factory):
    """The folder that the chain was run in."""
    folder = tmp_path_factory.mktemp("chain")
    chain(folder, specs, view)
    return folder


def pieces(text):
    """Word pieces, or with the punctuation left out words, of the collection's texts."""
    known = {*WORDS, "?"}
    return [token if token in known else "[UNK]" for token in re.findall(r"\w+|[^\w\s]", text)]


def counted(text, name):
    """Frequencies that a weighting gives a text."""
    return Counter(pieces(text) if name in ("asked", "splade") else re.findall(r"\w+", text))


def questions(done):
    """What docT5query asks of each document."""
    found = {}
    for number in range(SLICES):
        path = done / "asked" / "questions" / f"{number}.jsonl"
        for record in map(json.loads, path.read_text().splitlines()):
            found[record["id"]] = record["predicted_queries"]
    return found


def documents_of(done, given, name):
    """Frequencies and learned weights of every document: [({term: frequency}, {term: weight})]."""
    if name == "splade":
        read = [shards.read(done / name / "shards" / str(number)) for number in range(SLICES)]
        learned = [weights for shard in read for weights in learned_of(shard)]
    else:
        learned = [given[1].get(doc_id, {}) for doc_id in DOC_IDS]
    texts = list(TEXTS.values())
    if name == "asked":
        asked = questions(done)
        texts = [f"{TEXTS[doc_id]} {' '.join(asked[doc_id])}" for doc_id in DOC_IDS]
    frequency = [counted(text, name) for text in texts]
    if name == "given-own":
        pairs = zip(learned, frequency, strict=True)
        learned = [{t: w for t, w in weights.items() if t in tf} for weights, tf in pairs]
    # Kept as float32, so that nothing near a half is rounded the other way here.
    return frequency, [{t: np.float32(w) for t, w in weights.items()} for weights in learned]


def learned_of(shard):
    """{term: weight} of each of a shard's documents."""
    names = list(shard.lexicon)
    for first, last in zip(shard.doc_begin[:-1], shard.doc_begin[1:], strict=True):
        terms = [names[i] for i in shard.terms[first:last]]
        pairs = zip(terms, shard.learned[first:last].tolist(), strict=True)
        yield {term: weight for term, weight in pairs if weight > 0}


def quantised(weights):
    """[{term: weight}] as whole numbers up to 255, 1 at least."""
    largest = max(w for document in weights for w in document.values())
    return [
        {term: max(1, round(w / largest * 255)) for term, w in document.items()}
        for document in weights
    ]


def postings_of(done, given, name):
    """[{term: weight}] of both sides: BM25's and the learned, quantised."""
    frequency, learned = documents_of(done, given, name)
    containing = Counter(term for tf in frequency for term in tf)
    lengths = [tf.total() for tf in frequency]
    norms = [1 - B + B * length / (sum(lengths) / len(lengths)) for length in lengths]
    idf = {t: log(1 + (len(DOC_IDS) - n + 0.5) / (n + 0.5)) for t, n in containing.items()}
    bm25 = [
        {t: idf[t] * (K1 + 1) * n / (n + K1 * norm) for t, n in tf.items()}
        for tf, norm in zip(frequency, norms, strict=True)
    ]
    return quantised(bm25), quantised(learned)


def query_of(done, given, name, query_id):
    """{term: weight} of both sides, as whole numbers."""
    frequency = counted(QUERIES[query_id], name)
    if name == "splade":
        table = pd.read_parquet(done / name / "queries.parquet")
        rows = table[(table["query_id"] == query_id) & (table["learned"] > 0)]
        # In 64ths already; `test_splades_weights` compares them with the model's.
        learned = dict(zip(rows["term"], rows["learned"] / 64, strict=True))
    else:
        learned = given[2][query_id]
        if name == "given-own":
            learned = {term: weight for term, weight in learned.items() if term in frequency}
    stretch = SCALE * max(learned.values(), default=1) / max(frequency.values(), default=1)
    return (
        {term: round(64 * n * stretch) for term, n in frequency.items()},
        {term: round(64 * weight) for term, weight in learned.items()},
    )


def ranking_of(postings, query, beta, k):
    """The k best documents (number, score) by brute force, score 0 left out."""
    bm25, learned = (
        [sum(weights.get(t, 0) * w for t, w in side.items()) for weights in sides]
        for sides, side in zip(postings, query, strict=True)
    )
    part = round(1000 * beta)
    scores = [(part * b + (1000 - part) * w) / 1000 for b, w in zip(bm25, learned, strict=True)]
    best = sorted(range(len(scores)), key=lambda doc: (-scores[doc], doc))
    return [(doc, scores[doc]) for doc in best[:k] if scores[doc] > 0]


def as_written(ranking):
    """doc_id and score as a run has them: ties by doc_id, scores lowered until they decrease."""
    ordered = sorted((-np.float32(score), DOC_IDS[doc]) for doc, score in ranking)
    rows, last = [], np.float32(np.inf)
    for score, doc_id in ordered:
        last = min(-score, np.nextafter(last, np.float32(-np.inf)))
        rows.append((doc_id, float(last)))
    return rows


WEIGHTINGS = ["given", "given-own", "asked", "splade"]


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_runs_and_overlaps_are_those_of_brute_force(done, given, name):
    postings = postings_of(done, given, name)
    counts = pd.read_parquet(done / "counts.parquet").set_index(["system", "query_id"])
    known = [query_id for query_id in QUERIES if any(query_of(done, given, name, query_id))]
    # By words, a query of punctuation marks has no terms, and no row anywhere.
    assert set(QUERIES) - set(known) == ({"q10"} if name in ("given", "given-own") else set())
    overlaps, ties, cut_ties = [], 0, 0
    for setting in SETTINGS:
        system = f"{name}-{setting['name']}"
        found = runs.read(done / "runs" / f"{system}{runs.SUFFIX}")
        assert set(counts.loc[system].index) == set(known)
        for query_id in known:
            rows = found[found["query_id"] == query_id]
            query = query_of(done, given, name, query_id)
            ranking = ranking_of(postings, query, setting["beta"], setting.get("k", DEPTH))
            counter = counts.loc[system, query_id]
            if setting["name"] in UNSAFE:
                safe = {DOC_IDS[doc] for doc, _ in ranking}
                share = len(safe & set(rows["doc_id"])) / len(safe) if safe else 1
                assert counter["overlap"] == pytest.approx(share)
                overlaps.append(share)
                continue
            assert counter["overlap"] == 1
            written = as_written(ranking)
            assert list(zip(rows["doc_id"], rows["score"].tolist(), strict=True)) == written
            scores = [score for _, score in ranking]
            ties += len(set(scores)) < len(scores)
            after = ranking_of(postings, query, setting["beta"], len(DOC_IDS))[len(ranking) :]
            cut_ties += bool(after) and after[0][1] == scores[-1]
            if setting["name"] == "exhaustive":
                terms = query[0].keys() | query[1].keys()
                union = [b.keys() | w.keys() for b, w in zip(*postings, strict=True)]
                # Those that score 0 too: a term may weigh on one side here, on the other there.
                assert counter["documents_scored"] == sum(bool(terms & s) for s in union)
                assert counter["postings"] == sum(len(terms & s) for s in union)
    # The queries do show what they are to show.
    assert min(overlaps) < 1 and ties and cut_ties


def test_systems_are_weightings_with_settings(done):
    systems = sorted(f"{name}-{setting['name']}" for name in WEIGHTINGS for setting in SETTINGS)
    assert sorted(runs.in_folder(done / "runs")) == systems
    counts = pd.read_parquet(done / "counts.parquet")
    assert counts.columns.tolist() == [
        "system", "query_id", "documents_scored", "postings", "blocks_loaded", "blocks", "overlap",
    ]  # fmt: skip
    assert not counts.duplicated(["system", "query_id"]).any()
    assert sorted(set(counts["system"])) == systems
    assert (counts["blocks_loaded"] <= counts["blocks"]).all()

    latency = pd.read_parquet(done / "latency.parquet")
    assert latency.columns.tolist() == ["system", "query_id", "total_ns"]
    assert sorted(set(latency["system"])) == systems
    first = list(QUERIES)[:5]
    assert all(part["query_id"].tolist() == first for _, part in latency.groupby("system"))
    assert (latency["total_ns"] > 0).all()


def test_k_of_a_setting_stands_in_place_of_the_depth(done):
    for name in WEIGHTINGS:
        sizes = {}
        for setting in ("hybrid", "hybrid-k9"):
            run = runs.read(done / "runs" / f"{name}-{setting}{runs.SUFFIX}")
            sizes[setting] = run.groupby("query_id").size().max()
        assert sizes == {"hybrid": DEPTH, "hybrid-k9": 9}


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_exported_weights_are_the_indexs_by_brute_force(done, given, name):
    for side, expected in zip(("bm25", "learned"), postings_of(done, given, name), strict=True):
        lists = ciff.read(done / name / f"{side}.ciff.gz")
        assert lists.doc_ids == DOC_IDS
        assert lists.doc_lengths.tolist() == [sum(weights.values()) for weights in expected]
        found = [{} for _ in DOC_IDS]
        for i, term in enumerate(lists.terms):
            span = slice(lists.term_begin[i], lists.term_begin[i + 1])
            for doc, w in zip(lists.docs[span].tolist(), lists.weights[span].tolist(), strict=True):
                found[doc][term] = w
        assert found == expected
        table = pd.read_parquet(done / name / "weights.parquet")
        total = table.loc[table["side"] == side, "count"].sum()
        assert total == len(lists.docs) == sum(map(len, expected))


def test_splades_weights(done, splade):
    """Of documents in shards and of queries, against the plain model on whole texts."""
    model = BertForMaskedLM.from_pretrained(splade).eval()
    lexicon = [*SPECIALS, *WORDS, "?"]

    def weights(text):
        ids = [lexicon.index(piece) for piece in pieces(text)[: MAX_LENGTH - 2]]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[2, *ids, 3]])).logits[0].double()
        return dict(zip(lexicon, logits.clamp(min=0).log1p().amax(dim=0).tolist(), strict=True))

    read = [shards.read(done / "splade" / "shards" / str(number)) for number in range(SLICES)]
    assert [name for shard in read for name in shard.doc_ids] == DOC_IDS
    assert [len(shard.doc_ids) for shard in read] == [20, 20]
    found = [learned for shard in read for learned in learned_of(shard)]
    cut, absent = 0, 0
    for learned, text in zip(found, TEXTS.values(), strict=True):
        expected = {term: weight for term, weight in weights(text).items() if weight > 0}
        assert learned == pytest.approx(expected, rel=1e-4)
        cut += len(pieces(text)) > MAX_LENGTH - 2
        absent += bool(set(pieces(text)) - learned.keys())
    # Some texts are longer than the model reads, and some words of theirs weigh nothing.
    assert cut and absent

    table = pd.read_parquet(done / "splade" / "queries.parquet")
    assert table["query_id"].unique().tolist() == list(QUERIES)
    for query_id, rows in table.groupby("query_id"):
        expected = weights(QUERIES[query_id])
        asked = dict(zip(rows["term"], rows["learned"].tolist(), strict=True))
        for term, weight in expected.items():
            assert asked.get(term, 0) == pytest.approx(64 * weight, abs=0.5001)


def test_questions_depend_on_no_slice(done, view, specs, tmp_path):
    settings = {"weighting": specs["asked"], "shard": 0, "shards": 1}
    call("expand", {"questions": tmp_path / "all.jsonl"}, settings, view=view)
    parts = [done / "asked" / "questions" / f"{number}.jsonl" for number in range(SLICES)]
    whole = (tmp_path / "all.jsonl").read_bytes()
    assert whole == b"".join(path.read_bytes() for path in parts)
    asked = questions(done)
    assert list(asked) == DOC_IDS
    assert {len(queries) for queries in asked.values()} == {SAMPLES}
    assert any(set(" ".join(queries).split()) & set(WORDS) for queries in asked.values())


def test_a_slice_without_documents_changes_nothing(done, view, specs, tmp_path):
    """More slices than documents: the first of 41 is empty."""
    for name in ("asked", "splade"):
        settings = {"weighting": specs[name], "shard": 0, "shards": 41}
        expansions = {}
        if name == "asked":
            expansions = {"expansions": tmp_path / "none.jsonl"}
            call("expand", {"questions": expansions["expansions"]}, settings, view=view)
        empty = tmp_path / name
        call("encode", {"shard": empty}, settings, view=view, **expansions)
        assert len(shards.read(empty).doc_ids) == 0
        first, last = (done / name / "inverted" / str(number) for number in range(SLICES))
        parts = [first, inverted(empty, tmp_path / f"{name}-inverted"), last]
        out = {"indexes": tmp_path / "indexes" / name, "weights": tmp_path / f"{name}.parquet"}
        call("index", out, {**INDEX, "own_terms": False}, inverted=parts)
        assert files.sha256_of(out["indexes"]) == files.sha256_of(done / name / "indexes" / name)


def test_reordering_moves_documents_and_no_score(done, tmp_path):
    parts = [done / "given" / "inverted" / str(number) for number in range(SLICES)]
    out = {"indexes": tmp_path / "given", "weights": tmp_path / "weights.parquet"}
    call("index", out, {**INDEX, "own_terms": False, "reordered": True}, inverted=parts)
    moved = list(Names.read(tmp_path / "given" / "union", "doc_ids"))
    assert sorted(moved) == sorted(DOC_IDS) and moved != DOC_IDS
    assert list(index.read(tmp_path / "given" / "union").doc_ids) == moved
    setting = {"name": "all", "algorithm": "maxscore", "beta": 0.2, "k": len(DOC_IDS)}
    queries = done / "given" / "queries.parquet"
    found = []
    for name, indexes in (("moved", tmp_path / "given"), ("still", done / "given/indexes/given")):
        out = {"runs": tmp_path / name, "counts": tmp_path / f"{name}.parquet"}
        settings = {"settings": [setting], "depth": DEPTH, "segment_hits": 10}
        call("retrieve", out, settings, indexes=[indexes], queries=[queries])
        found.append(runs.read(tmp_path / name / f"given-all{runs.SUFFIX}"))
    pd.testing.assert_frame_equal(*found)


def test_again_gives_the_same_bytes(done, specs, view, tmp_path):
    chain(tmp_path, specs, view)
    names = ["runs", "counts.parquet"]
    parts = ["weights.parquet", "queries.parquet", "bm25.ciff.gz", "learned.ciff.gz"]
    for name, spec in specs.items():
        names += [f"{name}/{part}" for part in parts] + [f"{name}/indexes/{name}"]
        if spec["kind"] != "own-terms":
            made = ("shards", "inverted")
            names += [f"{name}/{kind}/{number}" for kind in made for number in range(SLICES)]
        if "expansion" in spec:
            names += [f"{name}/questions/{number}.jsonl" for number in range(SLICES)]
    for name in names:
        assert files.sha256_of(done / name) == files.sha256_of(tmp_path / name), name
