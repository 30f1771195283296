from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from espalier.colbert import encoder, training
from espalier.colbert.training import Triple
from espalier.errors import EspalierError
from espalier.models.checkpoints import Checkpoint
from tests.processes import together

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
    found = training.also_relevant(batch, relevant)
    assert np.argwhere(found).tolist() == [[0, 2], [0, 4], [2, 0], [2, 4]]


@pytest.fixture
def model(bert):
    torch.manual_seed(3)
    shape = {"layers": 2, "dimensions": 16, "query_length": 8, "doc_maxlen": 12}
    return encoder.new(bert, **shape, drop_punctuation=True)


def test_scores_of_a_part_are_sums_of_maxima_over_kept_tokens(model):
    queries = {"q1": "sparse graph", "q2": "tree"}
    docs = {"a": "graph, of the tree.", "b": "node", "c": "dense (vector) norm", "d": "edge"}
    tokens = training.shortened(model, docs, 12)
    part = [Triple("q1", "a", "b"), Triple("q2", "c", "d")]
    own, scores = training.scored(model, part, queries, tokens, bf16=False)
    assert own == range(2)
    embedded = dict(model.encode_docs([tokens[name] for name in "acbd"]))
    for i, query in enumerate(model.encode(model.layout.queries(list(queries.values())))):
        for j, doc in embedded.items():
            expected = (query @ doc.astype(np.float32).T).max(axis=1).sum()
            assert scores[i, j].item() == pytest.approx(expected, abs=2e-2)


def test_a_batch_is_split_evenly():
    whole = list("abcdefg")
    assert [list(p) for p in training.split(whole, 3)] == [list("abc"), list("def"), ["g"]]
    assert [list(p) for p in training.split(whole[:2], 3)] == [["a"], ["b"]]


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


FIT = {
    "doc_maxlen": 12, "batch_size": 10, "accumulate": 1, "learning_rate": 5e-3, "warmup": 0.1,
    "bf16": False, "gradient_checkpointing": False,
}  # fmt: skip


class Never(Checkpoint):
    """Nothing saved, nothing to save."""

    due = False

    def __init__(self):
        super().__init__(Path("none"), "", 0)


def fitted(model, checkpoint=None, **changed):
    return training.train(model, *toy(), checkpoint or Never(), **{**FIT, **changed})


def small(bert):
    torch.manual_seed(4)
    shape = {"layers": 1, "dimensions": 8, "query_length": 8, "doc_maxlen": 12}
    return encoder.new(bert, **shape, drop_punctuation=True)


def same_weights(one, other):
    weights = other.state_dict()
    return all(torch.equal(value, weights[name]) for name, value in one.state_dict().items())


def test_training_learns(model):
    metrics = fitted(model)
    assert metrics["steps"] == 40
    assert metrics["loss_end"] < 0.5 * metrics["loss_start"]
    assert metrics["accuracy_end"] > max(0.9, metrics["accuracy_start"])


def test_training_twice_gives_the_same_weights(bert):
    models = [small(bert), small(bert)]
    for model in models:
        fitted(model)
    assert same_weights(*models)


class Killed(Exception):  # noqa: N818 - no error
    """Stands for the end of a process."""


class UntilKilled(Checkpoint):
    """Saves after each step, until so many are saved."""

    due, left = True, 7

    def save(self, state):
        super().save(state)
        self.left -= 1
        if not self.left:
            raise Killed


def test_a_training_cut_off_goes_on_as_if_it_had_not_been(bert, tmp_path):
    whole = small(bert)
    metrics = fitted(whole)
    with pytest.raises(Killed):
        fitted(small(bert), UntilKilled(tmp_path / "c", "key", 0))
    torch.manual_seed(9)  # where it stood does not depend on the generator
    resumed = small(bert)
    steps = len(Checkpoint(tmp_path / "c", "key", 0).load()["losses"])
    assert steps == 7
    assert fitted(resumed, Checkpoint(tmp_path / "c", "key", 1e9)) == metrics
    assert same_weights(whole, resumed)


def test_the_parts_of_a_batch_add_up(bert, monkeypatch):
    """Loss and gradients of one step are the means of those of its two halves."""
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)
    data, *rest = toy()

    def step(triples, **changed):
        model = small(bert)
        metrics = training.train(model, triples, *rest, Never(), **{**FIT, **changed})
        assert metrics["steps"] == 1
        return metrics["loss_start"], {n: p.grad for n, p in model.named_parameters()}

    loss, gradients = step(data[:10], accumulate=2)
    (loss_a, gradients_a), (loss_b, gradients_b) = step(data[:5]), step(data[5:10])
    assert loss == pytest.approx((loss_a + loss_b) / 2)
    assert loss_a != pytest.approx(loss_b)
    for name, gradient in gradients.items():
        expected = (gradients_a[name] + gradients_b[name]) / 2
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_recomputed_layers_give_the_same_weights(bert, monkeypatch):
    models = [small(bert), small(bert)]
    calls = []
    layer = models[1].trunk.encoder.layer[0].attention
    layer.register_forward_hook(lambda *_: calls.append(1))
    fitted(models[0])
    fitted(models[1], gradient_checkpointing=True)
    # Twice for queries and for documents, in each of 40 steps.
    assert len(calls) == 160
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(models[1].state_dict()[name], value, rtol=1e-4, atol=1e-6)


def test_bfloat16_trains_nearly_as_well(bert):
    full, half = small(bert), small(bert)
    losses = [fitted(full)["loss_end"], fitted(half, bf16=True)["loss_end"]]
    assert not same_weights(full, half)
    assert losses[1] == pytest.approx(losses[0], rel=0.1)
    assert all(p.dtype == torch.float32 for p in half.parameters())


PROGRAM = """
import sys, torch
from pathlib import Path
from espalier.colbert import encoder
from espalier.models import parallel
from espalier.models.checkpoints import Checkpoint
from tests.colbert.test_training import fitted, small

torch.set_num_threads(1)
parallel.start(torch.device("cpu"))
fitted(small(Path(sys.argv[1])), Checkpoint(Path(sys.argv[2]), "key", 0), batch_size=7)
"""


def test_two_processes_give_the_losses_of_one(bert, tmp_path):
    """Seven triples a batch: four and three; one in the last: one and none."""
    curves = []
    for world in (1, 2):
        together(world, PROGRAM, str(bert), str(tmp_path / str(world)))
        state = Checkpoint(tmp_path / str(world), "key", 0).load()
        curves.append([state["losses"], state["accuracies"]])
    assert len(curves[0][0]) == 58
    np.testing.assert_allclose(curves[1], curves[0], rtol=2e-3, atol=1e-4)


def test_empty_documents_are_left_out(model):
    data = [Triple("q", "p", "empty"), Triple("q", "p", "n")]
    docs = {"p": "graph", "n": "tree", "empty": ""}
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["p"], "relevance": [1]})
    options = {**FIT, "batch_size": 1, "warmup": 0.0}
    metrics = training.train(model, data, {"q": "graph"}, docs, qrels, Never(), **options)
    assert metrics["steps"] == 1
    assert np.isfinite(metrics["loss_end"])
    with pytest.raises(EspalierError, match="empty"):
        training.train(model, data[:1], {"q": "graph"}, docs, qrels, Never(), **options)
