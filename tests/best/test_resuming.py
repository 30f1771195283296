"""What was killed goes on where it stood, and ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from espalier.best import selection
from espalier.best.commands import room
from espalier.best.learner import Learner
from espalier.best.training import chosen, train_jointly, train_on
from espalier.errors import EspalierError
from espalier.files import sha256_of
from espalier.models.checkpoints import Checkpoint

from . import made


class Killed(Exception):  # noqa: N818 - stands for a signal
    """In place of a kill, where it need not be a real one."""


def killed_at(number: int, method: Callable[..., Any], monkeypatch: Any, owner: Any) -> None:
    """Let the call of that number of a method, counted from 1, raise."""
    calls = iter(range(1, 10**6))

    def counted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == number:
            raise Killed
        return method(*arguments, **named)

    monkeypatch.setattr(owner, method.__name__, counted)


# 20 instances in batches of 8 are 3 steps an epoch, of each of two learners. After 6 steps the
# first epoch's end has saved; the 7th begins the second.
@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("moment", [1, 2, 4, 7, 10, 12])
def test_joint_training(
    checkpoint: Path, tmp_path: Path, monkeypatch: Any, moment: int, sampled: bool
) -> None:
    instances, _ = made.instances(20, 1)

    def train(kept: Checkpoint) -> tuple[list[str], list[Any]]:
        thetas = [made.learner(checkpoint, 5, epochs=2, batch_size=8) for _ in range(2)]
        train_jointly(*thetas, instances, 1, 4096, kept, sampled=sampled)
        digests = [made.digest(theta, tmp_path / f"model{i}") for i, theta in enumerate(thetas)]
        return digests, [[list(epoch)[2:] for epoch in theta.history] for theta in thetas]

    unbroken = train(made.unkept(tmp_path))
    kept = Checkpoint(tmp_path / "kept", "key", 0)
    with monkeypatch.context() as patched:
        killed_at(moment, Learner.step, patched, Learner)
        with pytest.raises(Killed):
            train(kept)
    np.testing.assert_equal(train(kept), unbroken)


def test_an_arm_killed_at_every_step_in_turn(
    checkpoint: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    examples = [chosen(each, [1, 0, 2]) for each in made.instances(10, 1, negatives=2)[0]]

    def train(kept: Checkpoint) -> str:
        options = {"epochs": 2, "batch_size": 4, "loss": "cross-entropy", "accumulate": 2}
        trained = made.learner(checkpoint, 5, **options)
        train_on(trained, examples, 1, kept)
        return made.digest(trained, tmp_path / "model")

    unbroken = train(made.unkept(tmp_path))
    kept, kills = Checkpoint(tmp_path / "kept", "key", 0), 0
    while True:
        with monkeypatch.context() as patched:
            killed_at(2, Learner.step, patched, Learner)
            try:
                assert train(kept) == unbroken
                break
            except Killed:
                kills += 1
    assert kills == 5  # of six steps


@pytest.fixture(scope="module")
def scored(checkpoint: Path) -> tuple[Any, list[Any], list[Any]]:
    instances, _ = made.instances(23, 4)
    generator = np.random.default_rng(5)
    documents = [each.positive[: generator.integers(1, 5)] for each in instances]
    return made.learner(checkpoint, 5).ranker, [each.query for each in instances], documents


@pytest.mark.parametrize("moment", [1, 2, 5, 6])
def test_a_pass_over_all_segments(
    scored: Any, tmp_path: Path, monkeypatch: Any, moment: int
) -> None:
    monkeypatch.setattr(selection, "BLOCK", 4)
    ranker, queries, documents = scored

    def scores(kept: Checkpoint) -> np.ndarray:
        return selection.score_blocks(ranker, made.LAYOUT, queries, documents, 60, kept, "pass")

    unbroken = scores(made.unkept(tmp_path))
    assert len(unbroken) == sum(map(len, documents))
    kept = Checkpoint(tmp_path / "kept", "key", 0)
    with monkeypatch.context() as patched:
        killed_at(moment, selection.score, patched, selection)
        with pytest.raises(Killed):
            scores(kept)
    found = kept.load()
    assert (0 if found is None else found["pairs"]) == 4 * (moment - 1)
    np.testing.assert_array_equal(scores(kept), unbroken)


def test_a_score_that_is_no_number_is_an_error(checkpoint: Path, tmp_path: Path) -> None:
    ranker = made.learner(checkpoint, 5).ranker
    with torch.no_grad():
        ranker.head.bias.fill_(float("nan"))
    (one,), _ = made.instances(1, 1)
    with pytest.raises(EspalierError, match="selection: the ranker gives a score that is not a"):
        selection.score_blocks(
            ranker, made.LAYOUT, [one.query], [one.positive], 99, made.unkept(tmp_path), "selection"
        )


def run(verb: str, record: Path, settings: dict[str, Any], **paths: Path) -> list[str]:
    """Arguments of a verb on the command line."""
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    return [verb, *options, "--record", str(record), "--settings", json.dumps(settings)]


def in_process(arguments: list[str]) -> None:
    verb = room.verbs[arguments[0]]
    parser = ArgumentParser()
    verb.add_arguments(parser)
    verb.run(parser.parse_args(arguments[1:]))


def test_a_killed_process(checkpoint: Path, tmp_path: Path) -> None:
    segments = made.write_store(tmp_path / "segments", 60)
    settings = made.settings(checkpoint, batch_size=4, epochs=3)

    def arguments(name: str) -> list[str]:
        folder = tmp_path / name
        outputs = {n: folder / n for n in ("theta0", "theta1")}
        return run("train-joint", folder / "record.json", settings, segments=segments,
                   history=folder / "history.parquet", **outputs)  # fmt: skip

    in_process(arguments("unbroken"))
    kept = tmp_path / "killed" / ".record.checkpoint"
    process = subprocess.Popen(
        [sys.executable, "-m", "espalier", "best", *arguments("killed")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (kept.exists() and mid_epoch(kept)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert mid_epoch(kept)
    assert not (tmp_path / "killed" / "theta1").exists()

    in_process(arguments("killed"))
    for name in ("theta0", "theta1"):
        folders = tmp_path / "killed" / name, tmp_path / "unbroken" / name
        assert sha256_of(folders[0]) == sha256_of(folders[1])
    histories = [pd.read_parquet(tmp_path / n / "history.parquet") for n in ("killed", "unbroken")]
    pd.testing.assert_frame_equal(*histories)
    assert not kept.exists()


def mid_epoch(kept: Path) -> bool:
    """Whether a checkpoint was saved within the second epoch."""
    state = torch.load(kept, weights_only=True)["state"]
    return len(state["learners"][0]["history"]) == 1 and 0 < state["done"] < 60
