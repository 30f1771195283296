"""Documents weighed by segments, worked out by hand: the best segment is the document's score.

The learned weights' largest is 255 and a query's term weighs 1, so that quantised weights are the
weights themselves, and a segment scores 64 times what its query term weighs in it.
"""

import json
from collections import Counter
from math import log
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.cli import main
from espalier.collections import access
from espalier.errors import EspalierError
from espalier.evaluation import runs
from espalier.sparse import ciff, index, inverted, retrieval, segments, shards
from espalier.sparse.names import Names

DOC_IDS = ["D3", "D1", "D2", "empty", "a#b"]
"""In the collection's order, not that of the names: D2 and D3 tie, and D2 is to come first."""

RED = {
    # D1 is found by four segments before any other document is.
    "D1#0": 70, "D1#1": 100, "D1#2": 80, "D1#3": 90,
    "D2#0": 60,
    # The sum would be more than D1's best, the first less than D2's.
    "D3#0": 30, "D3#1": 60, "D3#2": 30,
}  # fmt: skip
BLUE = {"a#b#0": 255, "D2#0": 5}
TEXTS = {
    "D1#0": "red fox", "D1#1": "fox", "D1#2": "red red fox dog", "D1#3": "dog",
    "D2#0": "a red dog", "D3#0": "", "D3#1": "red", "D3#2": "dog dog", "a#b#0": "blue",
}  # fmt: skip
K1, B = 0.9, 0.4
LEARNED = {"name": "learned", "algorithm": "maxscore", "beta": 0.0}
GUIDED = {
    "name": "guided", "algorithm": "dths", "alpha": 0.2, "beta": 0.2, "f_s": 1.0, "f_f": 1.0,
    "threshold": "dual", "view": "independent",
}  # fmt: skip
BM25 = {"name": "bm25", "algorithm": "daat", "beta": 1.0}


@pytest.fixture
def spec(tmp_path):
    """A weighting of files; segments of other documents, and in another order, are among them."""
    mixed = ["D3#1", "D1#0", "D3#0", "other#0", "D2#0", "D1#1", "D3#2", "D1#2", "D1#3", "a#b#0"]
    texts, vectors = (tmp_path / f"{name}.jsonl" for name in ("texts", "vectors"))
    lines = [json.dumps({"id": i, "contents": TEXTS.get(i, "red")}) for i in mixed]
    texts.write_text("\n".join(lines))
    sides = {"red": RED | {"other#0": 255}, "blue": BLUE}
    lines = [
        json.dumps({"id": i, "vector": {t: side[i] for t, side in sides.items() if i in side}})
        for i in sorted(mixed)
    ]
    vectors.write_text("\n".join(lines))
    queries = tmp_path / "queries.tsv"
    queries.write_text("q\tred\nr\tblue\n")
    return {
        "kind": "vectors", "documents": str(vectors), "queries": str(queries), "tokens": "words",
        "segments": {"delimiter": "#", "texts": str(texts)},
    }  # fmt: skip


@pytest.fixture
def view(tmp_path, monkeypatch):
    """The collection of documents, whose own texts count for nothing, and two queries."""
    folder = tmp_path / "view"
    folder.mkdir()
    docs = [access.Doc(doc_id, "", "red red red red") for doc_id in DOC_IDS]
    (folder / "docs.jsonl").write_text("".join(json.dumps(list(doc)) + "\n" for doc in docs))
    (folder / "manifest.json").write_text(json.dumps({"docs_count": len(docs)}))
    (folder / "test.queries.tsv").write_text("q\tred\nr\tblue\n")
    return folder


@pytest.fixture
def chain(tmp_path, view):
    """Encode and index a weighting; a function from settings, depth and hits to run and metrics."""

    def call(verb, settings, **paths):
        options = [w for option, path in paths.items() for w in (f"--{option}", str(path))]
        record = tmp_path / f"{verb}.json"
        options += ["--record", str(record), "--settings", json.dumps({"seed": 1, **settings})]
        assert main(["sparse", verb, *options]) == 0
        return json.loads(record.read_text())["metrics"]

    def chain(spec, reordered=False):
        metrics = call(
            "encode", {"weighting": spec, "shard": 0, "shards": 1}, view=view, shard=tmp_path / "s"
        )
        assert metrics["documents"] == 5 and metrics["segments"] == 9
        assert metrics["documents_without_segments"] == 1
        assert metrics["without_learned_weights"] == 0
        built = {
            "block_size": 2, "partition_by": "learned", "bits": 8, "k1": K1, "b": B,
            "own_terms": False, "reordered": reordered, "delimiter": spec["segments"]["delimiter"],
        }  # fmt: skip
        indexes = tmp_path / "mine"
        call("invert", {}, shard=tmp_path / "s", inverted=tmp_path / "t")
        written = {"indexes": indexes, "weights": tmp_path / "w.parquet"}
        call("index", built, inverted=tmp_path / "t", **written)
        asked = {"weighting": spec, "bm25_scale": 1.0, "own_terms": False}
        queries = tmp_path / "q.parquet"
        call("encode-queries", asked, view=view, queries=queries)

        def retrieve(setting, depth, segment_hits):
            settings = {"settings": [setting], "depth": depth, "segment_hits": segment_hits}
            out = {"runs": tmp_path / "runs", "counts": tmp_path / "counts.parquet"}
            metrics = call("retrieve", settings, indexes=indexes, queries=queries, **out)
            path = tmp_path / "runs" / f"mine-{setting['name']}{runs.SUFFIX}"
            found = runs.read(path)
            asked = found[found["query_id"] == "q"]
            ranking = list(zip(asked["doc_id"], asked["score"].tolist(), strict=True))
            return ranking, metrics, pd.read_parquet(out["counts"]).set_index("query_id").loc["q"]

        return SimpleNamespace(folder=tmp_path, indexes=indexes, queries=queries, run=retrieve)

    return chain


def below(score):
    """The next smaller float32: where the run puts what ties."""
    return float(np.nextafter(np.float32(score), np.float32(0)))


@pytest.mark.parametrize("reordered", [False, True])
def test_a_document_scores_what_its_best_segment_does(spec, chain, reordered):
    done = chain(spec, reordered)
    expected = [("D1", 6400.0), ("D2", 3840.0), ("D3", below(3840))]
    ranking, metrics, counts = done.run(LEARNED, 3, 3)
    assert ranking == expected
    assert metrics["queries_cut_short mine-learned"] == 0
    assert metrics["k_over_documents"] == 3 / 4
    # Counted are segments, and nothing was lost.
    assert counts["documents_scored"] == 8 and counts["overlap"] == 1
    # The tie is cut by doc_id as well, though D3 has the smaller numbers in the collection.
    ranking, metrics, _ = done.run(LEARNED, 2, 4)
    assert ranking == expected[:2]
    assert metrics["queries_cut_short mine-learned"] == 0


def test_a_document_that_fills_the_hits_is_owned_up_to(spec, chain, caplog):
    done = chain(spec)
    ranking, metrics, counts = done.run(LEARNED, 2, 2)
    assert ranking == [("D1", 6400.0)]
    # Of the other query all segments were retrieved: it has no more documents.
    assert metrics["queries_cut_short mine-learned"] == 1
    assert "mine-learned: 1 queries have fewer than 2 documents in 4 segments" in caplog.text
    assert counts["overlap"] == 1
    # As many segments as there are, and all of them: no document is missing.
    _, metrics, _ = done.run(LEARNED, 9, 1)
    assert metrics["queries_cut_short mine-learned"] == 0


def test_bm25_is_of_segments(spec, chain):
    done = chain(spec)
    tokens = {name: Counter(text.split()) for name, text in TEXTS.items()}
    mean = sum(tf.total() for tf in tokens.values()) / len(tokens)
    containing = Counter(term for tf in tokens.values() for term in tf)

    def weight(name, term):
        tf, n = tokens[name], containing[term]
        idf = log(1 + (len(tokens) - n + 0.5) / (n + 0.5))
        norm = K1 * (1 - B + B * tf.total() / mean)
        return idf * (K1 + 1) * tf[term] / (tf[term] + norm)

    largest = max(weight(name, term) for name, tf in tokens.items() for term in tf)
    scores = {n: 64 * round(255 * weight(n, "red") / largest) for n in tokens if tokens[n]["red"]}
    best = {"D1": max(scores["D1#0"], scores["D1#2"]), "D2": scores["D2#0"], "D3": scores["D3#1"]}
    assert len(set(best.values())) == 3
    ranking, _, _ = done.run(BM25, 3, 3)
    assert ranking == sorted(best.items(), key=lambda item: -item[1])


def test_both_sides_at_once(spec, chain):
    """Guidance that is safe finds what scoring every segment finds."""
    done = chain(spec)
    exhaustive = {"name": "all", "algorithm": "daat", "beta": 0.2}
    expected = done.run(exhaustive, 3, 9)[0]
    assert len(expected) == 3
    ranking, _, counts = done.run(GUIDED, 3, 3)
    assert ranking == expected and counts["overlap"] == 1


def test_a_ciff_file_gives_the_same(spec, chain, tmp_path):
    names = [*TEXTS, "other#0"]
    sides = {"blue": BLUE, "red": RED}
    docs = [[i for i, name in enumerate(names) if name in side] for side in sides.values()]
    weights = [[side[names[i]] for i in d] for d, side in zip(docs, sides.values(), strict=True)]
    lists = ciff.Lists(
        list(sides), np.array([0, len(docs[0]), len(docs[0]) + len(docs[1])]),
        np.concatenate(docs).astype(np.uint32), np.concatenate(weights).astype(np.uint32), names,
        np.ones(len(names), np.int64), "",
    )  # fmt: skip
    ciff.write(tmp_path / "vectors.ciff.gz", lists)
    expected = chain(spec).run(LEARNED, 3, 3)
    (tmp_path / "learned").mkdir()
    given = {**spec, "kind": "ciff", "documents": str(tmp_path / "vectors.ciff.gz")}
    assert chain(given).run(LEARNED, 3, 3)[0] == expected[0]


def test_predicted_queries_are_of_segments(spec, chain, tmp_path, view):
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"id": "D2#0", "predicted_queries": ["what dog", "dog"]}))
    settings = {"seed": 1, "weighting": spec, "shard": 0, "shards": 1}
    arguments = ["sparse", "encode", "--view", view, "--expansions", questions]
    arguments += ["--shard", tmp_path / "shard", "--record", tmp_path / "r.json"]
    assert main([*map(str, arguments), "--settings", json.dumps(settings)]) == 0
    shard = shards.read(tmp_path / "shard")
    assert list(shard.doc_ids)[:3] == ["D3#1", "D3#0", "D3#2"]
    at = list(shard.doc_ids).index("D2#0")
    span = slice(shard.doc_begin[at], shard.doc_begin[at + 1])
    words = [list(shard.lexicon)[term] for term in shard.terms[span]]
    found = dict(zip(words, shard.frequency[span].tolist(), strict=True))
    # Learned alone: blue.
    assert found == {"a": 1, "red": 1, "dog": 3, "what": 1, "blue": 0}


def test_times_are_of_the_same_search(spec, chain, monkeypatch):
    """Every system is timed with as many segments as its run is made of, whole documents or not."""
    done = chain(spec)
    settings = [LEARNED, {**LEARNED, "name": "few", "k": 1}]
    asked = []
    search = retrieval.search

    def watched(opened, query, setting, k):
        asked.append((setting["name"], k))
        return search(opened, query, setting, k)

    monkeypatch.setattr(retrieval, "search", watched)
    opened = retrieval.Opened(done.indexes, pd.read_parquet(done.queries))
    table = retrieval.latencies(opened, settings, 2, 3, 9, 1, "mine")
    assert set(asked) == {("learned", 6), ("few", 3)}
    assert sorted(zip(table["system"], table["query_id"], strict=True)) == [
        ("mine-few", "q"), ("mine-few", "r"), ("mine-learned", "q"), ("mine-learned", "r"),
    ]  # fmt: skip
    assert (table["total_ns"] > 0).all()


def test_an_index_of_documents_knows_of_no_segments(tmp_path):
    shard = shards.build(["D#1", "D#2"], [shards.Text({"red": 1}, {"red": 2.0})] * 2)
    turned = [inverted.invert(shard)]
    index.seal(tmp_path / "i", index.build(tmp_path / "i", turned, block_size=2, k1=K1, b=B))
    read = index.read(tmp_path / "i")
    assert read.segments is None and list(read.ranked_ids) == ["D#1", "D#2"]
    assert retrieval.hits(read, 5, 10) == 5


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=20),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_best_is_the_largest_of_each_document(found, k, draw):
    """Against a dictionary of maxima: ties by doc_id, whatever the order of tied segments."""
    doc_ids = [f"D{i}" for i in range(6)]
    ids = [f"D{document}#{i}" for i, (document, _) in enumerate(found)]
    of = segments.grouped(ids, "#")
    largest = {}
    for document, score in found:
        largest[doc_ids[document]] = max(score, largest.get(doc_ids[document], 0))
    expected = sorted(largest.items(), key=lambda item: (-item[1], item[0]))[:k]
    order = sorted(range(len(found)), key=lambda i: (-found[i][1], draw.random()))
    scores = np.array([found[i][1] for i in order], np.float64)
    documents, best = segments.best(of, np.array(order, np.int64), scores, k)
    named = [of.documents[i] for i in documents.tolist()]
    assert list(zip(named, best.tolist(), strict=True)) == expected


def test_documents_are_numbered_by_their_doc_ids():
    of = segments.grouped(["b#0", "a#1", "b#1", "a#b#0"], "#")
    assert list(of.documents) == ["a", "a#b", "b"]
    assert of.document.tolist() == [2, 0, 2, 1]
    assert not len(segments.grouped([], "#").documents)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"id": "D1#0"}'], r"t\.jsonl:1: contents is missing; it must be a string"),
        (['{"id": "D1", "contents": ""}'], r"segment 'D1': no doc_id before '#'; correct"),
        (['{"id": "#1", "contents": ""}'], r"segment '#1': no doc_id before '#'; correct"),
        (['{"id": "D1#0", "contents": ""}'] * 2, r"t\.jsonl: segment 'D1#0' occurs twice; keep"),
        (['{"id": "D7#0", "contents": ""}'], r"t\.jsonl: has no segments of this .*'D1'\); name"),
    ],
)
def test_bad_segments_are_refused_by_name(tmp_path, lines, message):
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(EspalierError, match=message) as caught:
        segments.texts_of(path, "#", ["D1", "D2"])
    assert "\n" not in str(caught.value)


def test_a_slice_without_documents_has_no_segments(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "D1#0", "contents": "red"}')
    assert segments.texts_of(path, "#", []) == ([], [], [])


def test_arrays_are_read_as_they_were_written(tmp_path):
    of = segments.grouped(["b#0", "a#1", "b#1"], "#")
    segments.write(tmp_path, of)
    read = segments.read(tmp_path)
    assert isinstance(read.documents, Names)
    assert list(read.documents) == ["a", "b"] and read.document.tolist() == [1, 0, 1]
