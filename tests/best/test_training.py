"""What the paper's training learns, on made-up word pieces, and its losses by hand."""

import json
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.best import ranker
from espalier.best.inputs import Input
from espalier.best.learner import Example, Learner, cross_entropy, hinge
from espalier.best.learner import parts as split
from espalier.best.selection import select
from espalier.best.training import (
    Instance,
    chosen,
    paired,
    selected,
    train_jointly,
    train_on,
    unpaired,
)  # fmt: skip
from espalier.errors import EspalierError
from tests.processes import together

from .made import LAYOUT, digest, instances, learner, pieces, unkept


def first(made: list[Instance]) -> list[Example]:
    return [chosen(each, [0] * (1 + len(each.negatives))) for each in made]


def accuracy(model: ranker.Ranker) -> float:
    """How often the answer's segment of unseen positives is selected; chance is 1/4."""
    unseen, answers = instances(100, 5)
    found = select(model, LAYOUT, [i.query for i in unseen], [i.positive for i in unseen], 4096)
    return float((found == np.array(answers)).mean())


def test_losses_by_hand() -> None:
    positive, negative = torch.tensor([2.0, 0.5, 0.0]), torch.tensor([0.0, 0.0, 3.0])
    assert hinge(positive, negative).item() == pytest.approx((0 + 0.5 + 4) / 3)
    expected = (log(1 + exp(-2.0)) + log(1 + exp(0.5)) + log(1 + exp(-1.0))) / 3
    found = cross_entropy(torch.tensor([2.0]), torch.tensor([0.5, -1.0]))
    assert found.item() == pytest.approx(expected)


def test_joint_training_finds_the_answers(checkpoint: Path, tmp_path: Path) -> None:
    made, _ = instances(320, 1)
    theta0, theta1 = learner(checkpoint), learner(checkpoint)
    train_jointly(theta0, theta1, made, 1, 4096, unkept(tmp_path), sampled=False)
    assert theta1.history[-1].loss < theta1.history[0].loss
    assert theta1.best.dev_rr > 0.85  # .75 by chance
    assert accuracy(theta0.finished()) > 0.6
    assert accuracy(theta1.finished()) > 0.6


# Where there is nothing to tell positives by, a hinge is 1 on average, an entropy ln 2 = .69.
@pytest.mark.parametrize(
    ("loss", "nothing", "something"), [("hinge", 0.95, 0.5), ("cross-entropy", 0.66, 0.4)]
)
def test_first_segments_teach_nothing_where_no_answer_stands(
    checkpoint: Path, tmp_path: Path, loss: str, nothing: float, something: float
) -> None:
    made, answers = instances(320, 1)
    right = [chosen(each, [answer, 0]) for each, answer in zip(made, answers, strict=True)]
    losses = []
    for examples in (first(made), right):
        trained = learner(checkpoint, dev_queries=5, epochs=2, loss=loss)
        train_on(trained, examples, 1, unkept(tmp_path))
        losses.append(trained.history[-1].loss)
    assert losses[0] > nothing
    assert losses[1] < something


def test_same_bytes_again(checkpoint: Path, tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        thetas = learner(checkpoint, epochs=1), learner(checkpoint, epochs=1)
        train_jointly(*thetas, instances(48, 1)[0], 1, 4096, unkept(tmp_path), sampled=True)
        digests.append([digest(theta, tmp_path / f"{name}{i}") for i, theta in enumerate(thetas)])
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]


def test_segments_of_one_number_as_far_as_both_documents_go() -> None:
    one, two, three = pieces(1), pieces(2), pieces(3)
    made = Instance(one, [two, three, one], [[three, two]])
    whole = paired(made, None)
    assert [(int(p.segment[0]), int(n.segment[0])) for p, n in zip(*whole, strict=True)] == [
        (2, 3),
        (3, 2),
    ]
    generator = np.random.default_rng(0)
    drawn = {int(paired(made, generator).positives[0].segment[0]) for _ in range(30)}
    assert drawn == {2, 3}


def test_all_segments_of_each_document_where_they_are_not_paired() -> None:
    made = Instance(pieces(1), [pieces(2), pieces(3)], [[pieces(4)], [pieces(5), pieces(6)]])
    whole = unpaired(made, None)
    assert [int(pair.segment[0]) for pair in whole.positives] == [2, 3]
    assert [int(pair.segment[0]) for pair in whole.negatives] == [4, 5, 6]
    draws = [unpaired(made, np.random.default_rng(seed)) for seed in range(30)]
    assert {(len(d.positives), len(d.negatives)) for d in draws} == {(1, 2)}
    assert {int(d.negatives[1].segment[0]) for d in draws} == {5, 6}


def test_theta0_selects_a_segment_of_every_document(checkpoint: Path) -> None:
    made, _ = instances(5, 3, negatives=3)
    theta0 = learner(checkpoint)
    for each, example in zip(made, selected(theta0, made, 4096), strict=True):
        picked = [*example.positives, *example.negatives]
        for pair, document in zip(picked, [each.positive, *each.negatives], strict=True):
            (best,) = select(theta0.ranker, LAYOUT, [each.query], [document], 4096)
            assert pair.segment.tolist() == document[best].tolist()
    assert selected(theta0, [], 4096) == []


def test_training_stops_without_a_better_dev_measure(checkpoint: Path, tmp_path: Path) -> None:
    stuck = learner(checkpoint, epochs=9, patience=2, learning_rate=1e-12)
    train_on(stuck, first(instances(16, 1)[0]), 1, unkept(tmp_path))
    assert [epoch.epoch for epoch in stuck.history] == [1, 2, 3]
    assert stuck.best.epoch == 1


def test_the_best_state_is_kept(checkpoint: Path) -> None:
    trained = learner(checkpoint)
    trained.step(first(instances(16, 2)[0]))
    trained.end_epoch()
    before = {k: v.clone() for k, v in trained.ranker.state_dict().items()}
    trained.step(first(instances(16, 1)[0]))
    assert not torch.equal(before["head.weight"], trained.ranker.state_dict()["head.weight"])
    restored = trained.finished().state_dict()
    assert all(torch.equal(before[name], restored[name]) for name in before)


def test_a_loss_that_is_no_number_is_an_error(checkpoint: Path) -> None:
    broken = learner(checkpoint)
    with torch.no_grad():
        broken.ranker.head.bias.fill_(float("nan"))
    example = Example([Input(pieces(5), pieces(6))], [Input(pieces(5), pieces(7))])
    with pytest.raises(EspalierError, match=r"best\.training\.learning_rate"):
        broken.step([example])


def without_dropout(checkpoint: Path, **changed: object) -> Learner:
    made = learner(checkpoint, dev_queries=5, **changed)
    for module in made.ranker.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made


@pytest.mark.parametrize(
    "changed", [{"accumulate": 3}, {"accumulate": 99}, {"gradient_checkpointing": True}]
)
@pytest.mark.parametrize("loss", ["hinge", "cross-entropy"])
def test_what_saves_memory_changes_no_step(
    checkpoint: Path, loss: str, changed: dict[str, object]
) -> None:
    made, _ = instances(7, 1, negatives=1 if loss == "hinge" else 4)
    plain, saving = (without_dropout(checkpoint, loss=loss, **c) for c in ({}, changed))
    for trained in (plain, saving):
        trained.step(first(made))
    assert saving.losses == pytest.approx(plain.losses, rel=1e-5)
    for one, other in zip(plain.parameters, saving.parameters, strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-6)


def test_gradient_checkpointing_keeps_fewer_activations(checkpoint: Path) -> None:
    kept = []
    for changed in (False, True):
        trained = learner(checkpoint, dev_queries=5, gradient_checkpointing=changed)
        trained.ranker.train()
        sizes: list[int] = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            trained.loss(first(instances(16, 1)[0]))
        kept.append(sum(sizes))
    assert kept[1] < 0.8 * kept[0]


def test_bf16_is_close(checkpoint: Path) -> None:
    made, _ = instances(16, 1)
    plain, half = (without_dropout(checkpoint, bf16=bf16) for bf16 in (False, True))
    losses = [trained.loss(first(made)).item() for trained in (plain, half)]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_parts_are_consecutive_and_never_empty() -> None:
    examples = first(instances(5, 1)[0])
    assert [len(part) for part in split(examples, 3)] == [1, 2, 2]
    assert [len(part) for part in split(examples, 9)] == [1] * 5
    assert split([], 2) == []


PROCESS = """
import json, sys
from pathlib import Path
import torch
from espalier.models import parallel
from tests.best.test_training import curves

parallel.start(torch.device("cpu"))
print(json.dumps(curves(Path(sys.argv[1]))))
"""


def curves(checkpoint: Path) -> tuple[list[float], list[float]]:
    """Losses and dev measures of a joint training, and the size of each weight at its end."""
    options = {"epochs": 2, "batch_size": 9, "accumulate": 2}
    thetas = [without_dropout(checkpoint, **options) for _ in range(2)]
    made, _ = instances(30, 1)
    train_jointly(*thetas, made, 1, 4096, unkept(checkpoint), sampled=False)
    history = [value for theta in thetas for epoch in theta.history for value in epoch[2:]]
    return history, [p.detach().abs().sum().item() for theta in thetas for p in theta.parameters]


def test_two_processes_train_as_one(checkpoint: Path) -> None:
    alone = curves(checkpoint)
    for printed in together(2, PROCESS, str(checkpoint)):
        history, weights = json.loads(printed)
        np.testing.assert_allclose(history, alone[0], rtol=1e-3)
        # Adam makes steps of rounding errors where a gradient is zero, as that of keys' biases is.
        np.testing.assert_allclose(weights, alone[1], rtol=1e-3, atol=0.05)
