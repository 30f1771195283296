"""The sweep against the pipeline, and the pipeline against a search by brute force."""

import numpy as np
import pandas as pd
import pytest
import torch

from espalier.colbert import encoder, index, latency, pruning, store
from espalier.colbert.pipeline import Pipeline
from espalier.colbert.retrieval import Dedupe
from espalier.colbert.sweep import name, parsed, run, sweep
from tests.colbert.conftest import WORDS

LENGTH = 8
QUERIES = ["sparse graph", "a pruned tree of the node", "norm " * 200, "", "edge , vector ."]


def texts(count):
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, count)  # some are empty
    return [" ".join(rng.choice(WORDS[:17], n)) for n in lengths]


@pytest.fixture(scope="module")
def pipelines(bert, tmp_path_factory):
    """A function of k' and depth that gives a pipeline over 40 documents in two shards."""
    torch.manual_seed(2)
    shape = {"layers": 1, "dimensions": 16, "query_length": LENGTH, "doc_maxlen": 10}
    model = encoder.new(bert, **shape, drop_punctuation=True)
    folder = tmp_path_factory.mktemp("shards")
    docs = model.layout.docs(texts(40))
    for number, (start, stop) in enumerate([(0, 13), (13, 40)]):
        own = docs[start:stop]
        store.write(
            folder / str(number),
            [f"d{i}" for i in range(start, stop)],
            [ids[model.layout.kept(ids)] for ids in own],
            model.encode_docs(own),
            model.dimensions,
            "tiny",
        )
    opened = store.open_store([folder / "0", folder / "1"])
    built, plan = index.build(opened.shards, sample=0.05, subquantizers=4, bits=8, seed=1)
    assert plan.partitions == 0
    vocabulary = len(model.layout.tokenizer)
    frequencies = (
        f(opened.shards, vocabulary) for f in (store.frequency, store.document_frequency)
    )
    orders = pruning.orders(model.layout, *frequencies, seed=1)

    def make(k_prime, depth):
        return Pipeline(model, built, opened, orders, Dedupe(opened), k_prime, depth)

    return make


@pytest.mark.parametrize("k_prime", [1, 7, 10_000])
@pytest.mark.parametrize("depth", [3, 100])
def test_the_sweep_gives_what_the_pipeline_gives(pipelines, k_prime, depth):
    pipeline = pipelines(k_prime, depth)
    ids = pipeline.encoder.layout.queries(QUERIES)
    results = sweep(
        pipeline.index,
        pipeline.store,
        pipeline.encoder.encode(ids),
        {order: pipeline.orders[order](ids) for order in ("first", "icf")},
        k_prime=k_prime,
        depth=depth,
    )
    assert sorted(results) == sorted(
        f"{order}-p0{p}" for order in ("first", "icf") for p in range(1, LENGTH + 1)
    )
    for system, result in results.items():
        for i, text in enumerate(QUERIES):
            answer = pipeline.answer(text, system)
            assert result.documents[i].tolist() == answer.documents.tolist()
            np.testing.assert_allclose(result.scores[i], answer.scores, atol=1e-4)
    for i in range(len(QUERIES)):
        full = [results[f"{order}-p08"].documents_retrieved[i] for order in ("first", "icf")]
        assert full[0] == full[1]
        for order in ("first", "icf"):
            counts = [results[name(order, p)].documents_retrieved[i] for p in range(1, LENGTH + 1)]
            assert counts == sorted(counts)


@pytest.mark.parametrize("system", ["first-p02", "icf-p01", "first-p08"])
def test_the_pipeline_gives_what_brute_force_gives(pipelines, system):
    """k' nearest by distance for each chosen embedding; sums of maxima over their owners."""
    pipeline = pipelines(5, 100)
    order, p = parsed(system)
    embeddings = np.concatenate([s.embeddings for s in pipeline.store.shards]).astype(np.float32)
    owner = pipeline.store.document_of
    for text in QUERIES[:2]:
        ids = pipeline.encoder.layout.queries([text])
        query = pipeline.encoder.encode(ids)[0]
        owners = set()
        for position in pipeline.orders[order](ids)[0, :p]:
            distance = ((embeddings - query[position]) ** 2).sum(axis=1)
            owners |= set(owner[np.argsort(distance)[:5]].tolist())
        expected = {d: float((query @ embeddings[owner == d].T).max(axis=1).sum()) for d in owners}
        answer = pipeline.answer(text, system)
        assert set(answer.documents.tolist()) == owners
        for document, score in zip(answer.documents.tolist(), answer.scores, strict=True):
            assert score == pytest.approx(expected[document], abs=1e-4)
        assert (np.diff(answer.scores) <= 0).all()


def test_a_run_names_queries_and_documents(pipelines):
    pipeline = pipelines(3, 2)
    ids = pipeline.encoder.layout.queries(QUERIES)
    positions = {"first": pruning.first(ids)}
    results = sweep(
        pipeline.index, pipeline.store, pipeline.encoder.encode(ids), positions, k_prime=3, depth=2
    )
    table = run(results["first-p03"], list("abcde"), pipeline.store.doc_ids)
    assert table.groupby("query_id").size().max() == 2
    best = pipeline.answer(QUERIES[1], "first-p03").documents[0]
    assert table[table["query_id"] == "b"]["doc_id"].iloc[0] == f"d{best}"


def test_times_are_of_each_query_under_each_system(pipelines):
    systems = ["first-p08", "icf-p03"]
    queries = {f"q{i}": text for i, text in enumerate(QUERIES)}
    table = latency.measure(pipelines(5, 10), queries, systems)
    stages = ["encode_ns", "ann_ns", "dedupe_ns", "score_ns"]
    assert list(table.columns) == ["system", "query_id", *stages, "total_ns"]
    assert sorted(zip(table["system"], table["query_id"], strict=True)) == [
        (system, query_id) for system in systems for query_id in queries
    ]
    assert (table[stages] > 0).all(axis=None)
    pd.testing.assert_series_equal(table[stages].sum(axis=1), table["total_ns"], check_names=False)
