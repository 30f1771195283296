import json

import ir_datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import (
    BaseDocs,
    BaseQrels,
    BaseQueries,
    GenericDoc,
    GenericQuery,
    TrecQrel,
)

from espalier import cli, files
from espalier.collections import snapshot
from espalier.collections.access import Query
from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import runs


class Fixed(BaseDocs, BaseQueries, BaseQrels):
    def __init__(self, docs, queries, qrels):
        self.rows = docs, queries, qrels

    def docs_iter(self):
        return iter(self.rows[0])

    def queries_iter(self):
        return iter(self.rows[1])

    def qrels_iter(self):
        return iter(self.rows[2])


DOCS = [GenericDoc("d1", "one"), GenericDoc("d2", "two")]
QUERIES = [GenericQuery("q2", "second"), GenericQuery("q1", "first\tof\n all")]
QRELS = [TrecQrel("q1", "d1", 1, "0"), TrecQrel("q2", "d1", 0, "0"), TrecQrel("q1", "d2", 2, "0")]


@pytest.fixture
def take(monkeypatch, tmp_path):
    def run(docs=DOCS, queries=QUERIES, qrels=QRELS, **view):
        dataset = Dataset(Fixed(docs, queries, qrels))
        monkeypatch.setitem(ir_datasets.registry._registered, "tiny", dataset)
        config = {"docs": "tiny", "splits": {"test": "tiny"}, **view}
        return View(tmp_path / "view"), snapshot.take(tmp_path / "view", config, 7)

    return run


def test_queries_without_a_relevant_document_are_left_out_and_counted(take):
    view, counts = take()
    assert view.queries("test") == {"q1": "first of all"}
    assert view.qrels("test").to_numpy().tolist() == [["q1", "d1", 1], ["q1", "d2", 2]]
    assert not view.has_spans("test")
    assert counts == {
        "documents": 2,
        "documents_not_sampled": 0,
        "test_queries": 1,
        "test_queries_unanswerable": 1,
        "test_queries_not_sampled": 0,
        "test_qrels": 2,
    }
    counts = {"queries": 1, "unanswerable": 1, "not_sampled": 0, "qrels": 2}
    assert view.manifest["splits"] == {"test": {"id": "tiny", **counts}}


def test_a_sample_of_the_documents_holds_the_relevant_ones(take):
    docs = [GenericDoc(f"d{i}", f"text\t{i}") for i in range(9)]
    qrels = [TrecQrel("q1", f"d{i}", int(i == 7), "0") for i in range(9)]
    view, counts = take(docs=docs, qrels=qrels, max_docs=4)
    ids = [doc.doc_id for doc in view.docs()]
    assert len(ids) == view.docs_count == 4
    assert "d7" in ids
    assert ids == sorted(ids)
    assert [doc.text for doc in view.docs(1, 3)] == [f"text\t{name[1]}" for name in ids[1:3]]
    assert view.qrels("test")["doc_id"].tolist() == ids
    assert counts["documents_not_sampled"] == 5


def test_digest_is_over_the_documents_alone(take):
    view, _ = take()
    # printf 'd1\t\tone\nd2\t\ttwo\n' | sha256sum
    assert view.manifest["docs_sha256"].startswith("24b3637189bae815")
    assert view.docs_count == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"docs": [*DOCS, GenericDoc("d1", "other")]}, "doc_id 'd1' twice"),
        ({"docs": [GenericDoc("d 1", "one")]}, "doc_id 'd 1' is empty or holds space"),
        ({"queries": [*QUERIES, GenericQuery("q1", "more")]}, "query_id 'q1' twice"),
        ({"queries": [GenericQuery("q1", " \n")]}, "query 'q1' has no text"),
        ({"qrels": QRELS[1:2]}, "no query has a document judged relevant"),
    ],
)
def test_bad_input_is_one_error(take, rows, message):
    with pytest.raises(EspalierError, match=f"collection 'tiny': {message}"):
        take(**rows)


@given(
    st.lists(st.text("abc", min_size=1), unique=True, max_size=20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 3),
)
def test_samples_are_nested_and_keep_the_order(ids, one, other, seed):
    queries = [Query(name, "text") for name in ids]
    small, large = sorted((one, other))
    smaller, larger = (snapshot.sample(queries, size, seed) for size in (small, large))
    assert len(larger) == min(large, len(queries))
    assert set(smaller) <= set(larger)
    assert larger == [query for query in queries if query in larger]


def test_the_seed_decides_the_sample():
    queries = [Query(f"q{i}", "text") for i in range(50)]
    assert snapshot.sample(queries, 10, 1) != snapshot.sample(queries, 10, 2)


def test_the_verbs_on_the_built_in_collection(pydocs_mini, tmp_path):
    ids = f"{pydocs_mini}/documents"
    config = {
        "docs": ids,
        "splits": {split: f"{ids}/{split}" for split in ("dev", "test")},
        "max_queries": {"test": 20},
    }
    for name in ("a", "b"):
        view, candidates = tmp_path / name / "view", tmp_path / name / "bm25"
        assert not call("snapshot", view=view, settings={"seed": 3, "view": config})
        bm25 = {"k1": 0.9, "b": 0.4, "depth": 30}
        settings = {"seed": 3, "bm25": bm25, "candidates": "bm25"}
        assert not call("bm25", view=view, runs=candidates, settings=settings)
    assert files.sha256_of(tmp_path / "a/view") == files.sha256_of(tmp_path / "b/view")
    assert files.sha256_of(tmp_path / "a/bm25") == files.sha256_of(tmp_path / "b/bm25")
    view = View(tmp_path / "a/view")
    assert view.manifest["built_in"]["name"] == pydocs_mini
    assert view.has_spans("test")
    assert len(view.queries("test")) == 20
    texts = {doc.doc_id: doc.text for doc in view.docs()}
    spans = view.spans("test")
    assert all(0 <= s.start < s.end <= len(texts[s.doc_id]) for s in spans.itertuples())
    run = runs.read(tmp_path / "a/bm25/test/bm25.run.gz")
    assert set(run["query_id"]) <= set(view.queries("test"))
    assert run.groupby("query_id").size().max() == 30
    found = run.merge(view.qrels("test"), on=["query_id", "doc_id"])
    assert found["query_id"].nunique() >= 15


def call(verb, *, settings, **paths):
    options = [part for name, path in paths.items() for part in (f"--{name}", str(path))]
    record = next(iter(paths.values())).parent / f"{verb}.json"
    common = ["--settings", json.dumps(settings), "--record", str(record)]
    return cli.main(["collections", verb, *options, *common])
