"""The sweep against the pipeline, and the pipeline against a search by brute force."""

import faiss
import numpy as np
import pandas as pd
import pytest
import torch

from espalier.colbert import encoder, latency, pruning, static, store
from espalier.colbert.pipeline import Pipeline
from espalier.colbert.retrieval import Dedupe
from espalier.colbert.sweep import relevant_documents, run, sweep
from espalier.colbert.systems import System, parsed, wanted
from tests.colbert import made
from tests.colbert.conftest import WORDS

LENGTH = 8
QUERIES = ["sparse graph", "a pruned tree of the node", "norm " * 200, "", "edge , vector ."]


RELEVANT = {QUERIES[0]: [1, 17, 30, 39], QUERIES[4]: [3, 8]}


def texts(count):
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, count)  # some are empty
    made = [" ".join(rng.choice(WORDS[:17], n)) for n in lengths]
    made[3], made[20] = "( . , )", ""
    return made


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
    vocabulary = len(model.layout.tokenizer)
    frequencies = [
        f(opened.shards, vocabulary) for f in (store.frequency, store.document_frequency)
    ]
    indexes = {}
    for share in (1.0, 0.5):
        kept = [static.kept(s.tokens, s.offsets, frequencies[0], share) for s in opened.shards]
        indexes[share], _ = made.built(folder / str(share), opened, kept)
        assert isinstance(indexes[share], faiss.IndexIDMap2)
    orders = pruning.orders(model.layout, *frequencies, seed=1)

    def make(k_prime, depth, masks=True):
        ready = (model, indexes, opened, frequencies[0], orders, Dedupe(opened))
        return Pipeline(*ready, k_prime, depth, masks)

    return make


SYSTEMS = wanted(["first", "icf"], LENGTH, [0.5, 0.9], ["icf-p02", "icf-p08", "icf-s0.9"], [0.5])


def swept(pipeline, texts, systems, k_prime, depth):
    ids = pipeline.encoder.layout.queries(texts)
    return sweep(
        pipeline.indexes,
        pipeline.store,
        pipeline.encoder.encode(ids),
        pipeline.scoring(ids),
        {order: pipeline.orders[order](ids) for order in ("first", "icf")},
        {system: pipeline.searched(system, ids) for system in systems},
        [np.array(RELEVANT.get(text, []), dtype=np.int64) for text in texts],
        k_prime=k_prime,
        depth=depth,
    )


@pytest.mark.parametrize("k_prime", [1, 7, 10_000])
@pytest.mark.parametrize("depth", [3, 100])
def test_the_sweep_gives_what_the_pipeline_gives(pipelines, k_prime, depth):
    pipeline = pipelines(k_prime, depth)
    results = swept(pipeline, QUERIES, SYSTEMS, k_prime, depth)
    assert list(results) == SYSTEMS
    for system, result in results.items():
        for i, text in enumerate(QUERIES):
            answer = pipeline.answer(text, system.name)
            assert result.documents[i].tolist() == answer.documents.tolist()
            np.testing.assert_allclose(result.scores[i], answer.scores, atol=1e-4)
        for i, text in enumerate(QUERIES):
            found = set(pipelines(k_prime, 40).answer(text, system.name).documents.tolist())
            assert result.relevant_retrieved[i] == len(found & set(RELEVANT.get(text, [])))
    for i in range(len(QUERIES)):
        retrieved = {s.name: result.documents_retrieved[i] for s, result in results.items()}
        assert retrieved["first-p08"] == retrieved["icf-p08"]
        for order in ("first", "icf"):
            counts = [retrieved[f"{order}-p0{p}"] for p in range(1, LENGTH + 1)]
            assert counts == sorted(counts)


def test_documents_without_words_are_never_retrieved(pipelines):
    """k' beyond the index: all other documents are retrieved, whichever embedding is searched."""
    empty = {i for i, text in enumerate(texts(40)) if not set(text.split()) - set("(.,)")}
    assert {3, 20} < empty
    pipeline = pipelines(10_000, 100)
    for name in ("first-p01", "icf-p08", "icf-p01-d0.5"):
        for text in QUERIES:
            answer = pipeline.answer(text, name)
            assert set(answer.documents.tolist()) == set(range(40)) - empty
            assert np.isfinite(answer.scores).all()


def test_p_by_query_is_that_many_of_icf_order(pipelines):
    pipeline = pipelines(5, 100)
    ids = pipeline.encoder.layout.queries(QUERIES)
    system = System("icf", share=0.9)
    searched = pipeline.searched(system, ids).tolist()
    assert len(set(searched)) > 1
    for text, p in zip(QUERIES, searched, strict=True):
        chosen = pipeline.answer(text, system.name)
        fixed = pipeline.answer(text, f"icf-p{p:02d}")
        assert chosen.documents.tolist() == fixed.documents.tolist()


@pytest.mark.parametrize("system", ["first-p02", "icf-p01", "first-p08", "icf-p02-d0.5"])
def test_the_pipeline_gives_what_brute_force_gives(pipelines, system):
    """k' nearest by distance for each chosen embedding; sums of maxima over their owners."""
    pipeline = pipelines(5, 100)
    order, p, _, kept = parsed(system)
    embeddings = np.concatenate([s.embeddings for s in pipeline.store.shards]).astype(np.float32)
    owner = pipeline.store.document_of
    indexed = np.concatenate(
        [static.kept(s.tokens, s.offsets, pipeline.frequency, kept) for s in pipeline.store.shards]
    )
    assert indexed.all() == (kept == 1)
    for text in QUERIES[:2]:
        ids = pipeline.encoder.layout.queries([text])
        query = pipeline.encoder.encode(ids)[0]
        owners = set()
        for position in pipeline.orders[order](ids)[0, :p]:
            distance = ((embeddings - query[position]) ** 2).sum(axis=1)
            distance[~indexed] = np.inf
            owners |= set(owner[np.argsort(distance)[:5]].tolist())
        expected = {d: float((query @ embeddings[owner == d].T).max(axis=1).sum()) for d in owners}
        answer = pipeline.answer(text, system)
        assert set(answer.documents.tolist()) == owners
        for document, score in zip(answer.documents.tolist(), answer.scores, strict=True):
            assert score == pytest.approx(expected[document], abs=1e-4)
        assert (np.diff(answer.scores) <= 0).all()


def test_without_masks_the_other_embeddings_score(pipelines):
    pipeline = pipelines(10_000, 100, masks=False)
    systems = [System("first", p=8), System("icf", p=2)]
    results = swept(pipeline, QUERIES, systems, 10_000, 100)
    embeddings = np.concatenate([s.embeddings for s in pipeline.store.shards]).astype(np.float32)
    for i, (text, tokens) in enumerate(zip(QUERIES, (5, 8, 8, 3, 7), strict=True)):
        ids = pipeline.encoder.layout.queries([text])
        query = pipeline.encoder.encode(ids)[0, :tokens]
        assert (ids[0, tokens:] == pipeline.encoder.layout.mask).all()
        for system in systems:
            answer = pipeline.answer(text, system.name)
            assert results[system].documents[i].tolist() == answer.documents.tolist()
            for document, score in zip(answer.documents, answer.scores, strict=True):
                own = embeddings[pipeline.store.document_of == document]
                assert score == pytest.approx((query @ own.T).max(axis=1).sum(), abs=1e-4)


def test_a_run_names_queries_and_documents(pipelines):
    pipeline = pipelines(3, 2)
    system = System("first", p=3)
    results = swept(pipeline, QUERIES, [system], 3, 2)
    table = run(results[system], list("abcde"), pipeline.store.doc_ids)
    assert table.groupby("query_id").size().max() == 2
    best = pipeline.answer(QUERIES[1], "first-p03").documents[0]
    assert table[table["query_id"] == "b"]["doc_id"].iloc[0] == f"d{best}"


def test_times_are_of_each_query_under_each_system(pipelines):
    systems = ["first-p08", "icf-p03", "icf-s0.5", "icf-p03-d0.5"]
    queries = {f"q{i}": text for i, text in enumerate(QUERIES)}
    table = latency.measure(pipelines(5, 10), queries, systems)
    stages = ["encode_ns", "ann_ns", "dedupe_ns", "score_ns", "top_ns"]
    assert list(table.columns) == ["system", "query_id", *stages, "total_ns"]
    assert sorted(zip(table["system"], table["query_id"], strict=True)) == [
        (system, query_id) for system in sorted(systems) for query_id in queries
    ]
    assert (table[stages] > 0).all(axis=None)
    pd.testing.assert_series_equal(table[stages].sum(axis=1), table["total_ns"], check_names=False)


def test_relevant_documents_are_those_of_the_level_in_the_collection():
    qrels = pd.DataFrame(
        [("q", "b", 1), ("q", "c", 2), ("q", "elsewhere", 2), ("r", "a", 1), ("s", "a", 0)],
        columns=["query_id", "doc_id", "relevance"],
    )
    doc_ids = np.array(["a", "b", "c"])
    for level, expected in ((1, [[1, 2], [], [0]]), (2, [[2], [], []])):
        found = relevant_documents(qrels, level, ["q", "s", "r"], doc_ids)
        assert [own.tolist() for own in found] == expected
