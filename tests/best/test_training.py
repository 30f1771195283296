"""Training on made-up word pieces: the answer is the query's own word, in one known segment."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from espalier.best import ranker
from espalier.best.dev import Dev
from espalier.best.inputs import Input, Layout
from espalier.best.learner import Learner, Schedule, hinge
from espalier.best.selection import select
from espalier.best.training import Choice, Instance, same_numbers, train_jointly, train_on
from espalier.errors import EspalierError
from espalier.models import devices

LAYOUT = Layout([2], [3], [3], 0)
WORDS = np.arange(5, 70)
SEGMENTS = 4


def pieces(*ids: int) -> np.ndarray:
    return np.array(ids, dtype=np.int32)


def instances(size: int, seed: int) -> tuple[list[Instance], list[int]]:
    """Instances, and where in the positive the query's word stands: never in the first segment."""
    generator = np.random.default_rng(seed)
    made, answers = [], []
    for _ in range(size):
        word, *others = generator.choice(WORDS, 1 + 2 * SEGMENTS * 3, replace=False).tolist()
        parts = [pieces(*others[i : i + 3]) for i in range(0, len(others), 3)]
        answer = int(generator.integers(1, SEGMENTS))
        parts[answer] = pieces(word, *parts[answer][1:])
        made.append(Instance(pieces(word), parts[:SEGMENTS], parts[SEGMENTS:]))
        answers.append(answer)
    return made, answers


def dev_of(made: list[Instance]) -> Dev:
    table = pd.DataFrame(
        [(f"q{i}", f"{side}{i}", rank, int(side == "p"))
         for i in range(len(made)) for rank, side in enumerate("np", start=1)],
        columns=["query_id", "doc_id", "rank", "relevance"],
    )  # fmt: skip
    documents = {f"p{i}": each.positive for i, each in enumerate(made)}
    documents |= {f"n{i}": each.negative for i, each in enumerate(made)}
    queries = {f"q{i}": each.query for i, each in enumerate(made)}
    return Dev.of(queries, table, documents, LAYOUT, 4096)


def learner(checkpoint: Path, **changed: float) -> Learner:
    devices.seeded(7, 1)
    settings = {"learning_rate": 3e-3, "warmup": 5, "batch_size": 16, "epochs": 4, "patience": 4}
    schedule = Schedule(**(settings | changed))  # type: ignore[arg-type]
    dev = dev_of(instances(40, 99)[0])
    return Learner("x", ranker.new(checkpoint, mark=True), LAYOUT, dev, schedule)


def accuracy(model: ranker.Ranker) -> float:
    """How often the answer's segment of unseen positives is selected; chance is 1/4."""
    unseen, answers = instances(100, 5)
    chosen = select(model, LAYOUT, [i.query for i in unseen], [i.positive for i in unseen], 4096)
    return float((chosen == np.array(answers)).mean())


def test_hinge_by_hand() -> None:
    positive, negative = torch.tensor([2.0, 0.5, 0.0]), torch.tensor([0.0, 0.0, 3.0])
    assert hinge(positive, negative).item() == pytest.approx((0 + 0.5 + 4) / 3)


def test_joint_training_finds_the_answers(checkpoint: Path) -> None:
    made, _ = instances(320, 1)
    theta0, theta1 = learner(checkpoint), learner(checkpoint)
    train_jointly(theta0, theta1, made, 1, 4096, sampled=False)
    assert theta1.history[-1].loss < theta1.history[1].loss
    assert theta1.best.dev_rr > theta1.history[0].dev_rr + 0.1
    assert accuracy(theta0.finished()) > 0.6
    assert accuracy(theta1.finished()) > 0.6


def test_first_segments_teach_nothing_where_no_answer_stands(checkpoint: Path) -> None:
    made, _ = instances(320, 1)
    first = learner(checkpoint, epochs=1)
    train_on(first, [Choice(i, 0, 0) for i in made], 1)
    assert accuracy(first.finished()) < 0.5


def test_same_bytes_again(checkpoint: Path, tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        theta0, theta1 = learner(checkpoint, epochs=1), learner(checkpoint, epochs=1)
        train_jointly(theta0, theta1, instances(48, 1)[0], 1, 4096, sampled=True)
        for system, trained in (("0", theta0), ("1", theta1)):
            ranker.save(tmp_path / f"{name}{system}", trained.finished())
        saved = [tmp_path / f"{name}{s}" / "model.safetensors" for s in "01"]
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in saved])
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]


def test_segments_of_one_number_as_far_as_both_documents_go() -> None:
    made = Instance(pieces(1), [pieces(2)] * 3, [pieces(3)] * 2)
    assert same_numbers([made], None) == [Choice(made, 0, 0), Choice(made, 1, 1)]
    generator = np.random.default_rng(0)
    drawn = {same_numbers([made], generator)[0][1:] for _ in range(30)}
    assert drawn == {(0, 0), (1, 1)}


def test_training_stops_without_a_better_dev_measure(checkpoint: Path) -> None:
    stuck = learner(checkpoint, epochs=9, patience=2, learning_rate=1e-12)
    train_on(stuck, [Choice(i, 0, 0) for i in instances(16, 1)[0]], 1)
    assert [epoch.epoch for epoch in stuck.history] == [0, 1, 2]
    assert stuck.best.epoch == 0


def test_the_best_state_is_kept(checkpoint: Path) -> None:
    trained = learner(checkpoint, epochs=1)
    before = {k: v.clone() for k, v in trained.ranker.state_dict().items()}
    made = instances(16, 1)[0]
    trained.step(
        [Input(i.query, i.positive[0]) for i in made], [Input(i.query, i.negative[0]) for i in made]
    )
    assert not torch.equal(before["head.weight"], trained.ranker.state_dict()["head.weight"])
    restored = trained.finished().state_dict()
    assert all(torch.equal(before[name], restored[name]) for name in before)


def test_a_loss_that_is_no_number_is_an_error(checkpoint: Path) -> None:
    broken = learner(checkpoint)
    with torch.no_grad():
        broken.ranker.head.bias.fill_(float("nan"))
    with pytest.raises(EspalierError, match=r"best\.training\.learning_rate"):
        broken.step([Input(pieces(5), pieces(6))], [Input(pieces(5), pieces(7))])
