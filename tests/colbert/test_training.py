import numpy as np
import pandas as pd
import pytest
import torch

from espalier.colbert import encoder, training
from espalier.colbert.training import Triple
from espalier.errors import EspalierError

QRELS = pd.DataFrame(
    [("q1", "a", 1), ("q1", "b", 0), ("q2", "c", 2), ("q3", "d", 1), ("q4", "b", 0)],
    columns=["query_id", "doc_id", "relevance"],
)
RUN = pd.DataFrame(
    [
        ("q1", "a", 1),
        ("q1", "x", 2),
        ("q1", "b", 3),
        ("q1", "y", 4),
        ("q2", "c", 1),
        ("q2", "z", 2),
    ],
    columns=["query_id", "doc_id", "rank"],
)
WORDS = ["sparse", "dense", "graph", "tree", "prune", "matrix", "norm", "vector", "edge", "node"]


def test_triples_pair_relevant_documents_with_the_best_others():
    drawn = training.triples(QRELS, RUN, count=40, negatives=2, seed=1)
    assert len(drawn) == 40
    # q3 has no result and q4 nothing relevant; b is third for q1 and second of its negatives.
    assert set(drawn) == {Triple("q1", "a", "x"), Triple("q1", "a", "b"), Triple("q2", "c", "z")}
    for start in range(0, 40, 2):
        assert {triple.query_id for triple in drawn[start : start + 2]} == {"q1", "q2"}


def test_triples_follow_the_seed():
    assert training.triples(QRELS, RUN, count=20, negatives=3, seed=5) == training.triples(
        QRELS, RUN, count=20, negatives=3, seed=5
    )


def test_without_any_triple_the_config_is_named():
    with pytest.raises(EspalierError, match=r"collections\.training"):
        training.triples(QRELS, RUN[RUN["doc_id"] == "a"], count=4, negatives=2, seed=1)


def test_relevant_documents_of_a_batch_are_no_negatives():
    batch = [Triple("q1", "a", "x"), Triple("q2", "c", "a"), Triple("q1", "e", "y")]
    relevant = {("q1", "a"), ("q1", "e"), ("q2", "c")}
    found = training.also_relevant(batch, ["a", "c", "e", "x", "a", "y"], relevant)
    assert np.argwhere(found).tolist() == [[0, 2], [0, 4], [2, 0], [2, 4]]


@pytest.fixture
def model(bert):
    torch.manual_seed(3)
    shape = {"layers": 2, "dimensions": 16, "query_length": 8, "doc_maxlen": 12}
    return encoder.new(bert, **shape, drop_punctuation=True)


def test_scores_of_a_batch_are_sums_of_maxima_over_kept_tokens(model):
    queries = model.layout.queries(["sparse graph", "tree"])
    docs = model.layout.docs(["graph, of the tree.", "node", "dense (vector) norm"])
    scores = training.all_pairs(model, queries, docs).detach().numpy()
    embedded = dict(model.encode_docs(docs))
    for i, query in enumerate(model.encode(queries)):
        for j, doc in embedded.items():
            expected = (query @ doc.astype(np.float32).T).max(axis=1).sum()
            assert scores[i, j] == pytest.approx(expected, abs=2e-2)


def test_documents_are_cut_before_their_last_token(model):
    ids = training.shortened(model, {"a": "graph tree node edge", "b": "graph", "c": ""}, 5)
    layout = model.layout
    assert ids["a"].tolist() == [*layout.docs(["graph tree"])[0]]
    assert ids["b"].tolist() == [*layout.docs(["graph"])[0]]
    assert len(ids["c"]) == 0


def toy():
    """A query is a word; its document has that word among others, the negative lacks it."""
    rng = np.random.default_rng(0)
    queries = {f"q{i}": word for i, word in enumerate(WORDS)}
    docs = {}
    for i, word in enumerate(WORDS):
        others = [other for other in WORDS if other != word]
        docs[f"p{i}"] = " ".join([*rng.choice(others, 3), word])
        docs[f"n{i}"] = " ".join(rng.choice(others, 4))
    data = [Triple(f"q{i % 10}", f"p{i % 10}", f"n{i % 10}") for i in range(400)]
    qrels = pd.DataFrame({"query_id": list(queries), "relevance": 1}).assign(
        doc_id=[f"p{i}" for i in range(10)]
    )
    return data, queries, docs, qrels


def fitted(model):
    return training.train(
        model, *toy(), doc_maxlen=12, batch_size=10, learning_rate=5e-3, warmup=0.1
    )


def test_training_learns(model):
    metrics = fitted(model)
    assert metrics["steps"] == 40
    assert metrics["loss_end"] < 0.5 * metrics["loss_start"]
    assert metrics["accuracy_end"] > max(0.9, metrics["accuracy_start"])


def test_training_twice_gives_the_same_weights(bert):
    shape = {"layers": 1, "dimensions": 8, "query_length": 8, "doc_maxlen": 12}
    weights = []
    for _ in range(2):
        torch.manual_seed(4)
        model = encoder.new(bert, **shape, drop_punctuation=True)
        fitted(model)
        weights.append(model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_empty_documents_are_left_out(model):
    data = [Triple("q", "p", "empty"), Triple("q", "p", "n")]
    docs = {"p": "graph", "n": "tree", "empty": ""}
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["p"], "relevance": [1]})
    options = {"doc_maxlen": 12, "batch_size": 1, "learning_rate": 1e-3, "warmup": 0.0}
    metrics = training.train(model, data, {"q": "graph"}, docs, qrels, **options)
    assert metrics["steps"] == 1
    assert np.isfinite(metrics["loss_end"])
    with pytest.raises(EspalierError, match="empty"):
        training.train(model, data[:1], {"q": "graph"}, docs, qrels, **options)
