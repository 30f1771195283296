"""The arms of one store: what each is trained on; selection in shards; the stages that use them."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from espalier.best import scoring
from espalier.best.arms import Arms
from espalier.best.commands import room
from espalier.errors import EspalierError
from espalier.evaluation import runs
from espalier.stage import Job

from . import made

SIZE = 40


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_store(tmp_path_factory.mktemp("store") / "segments", SIZE, negatives=2)


@pytest.fixture(scope="module")
def instances() -> tuple[list[Any], list[int]]:
    return made.instances(SIZE, 1, 2)


def arms(segments: Path, checkpoint: Path, **training: Any) -> Arms:
    return Arms(segments, made.settings(checkpoint, **training), 1)


def numbers(pairs: list[Any], document: list[Any]) -> list[int]:
    """Which of a document's segments pairs have; segments of three pieces are all different."""
    return [[s.tolist() for s in document].index(pair.segment.tolist()) for pair in pairs]


def test_a_pairwise_loss_has_an_instance_for_each_negative(
    segments: Path, checkpoint: Path, instances: Any
) -> None:
    found = arms(segments, checkpoint).first()
    assert len(found) == 2 * SIZE
    for i, example in enumerate(found):
        one = instances[0][i // 2]
        assert numbers(example.positives, one.positive) == [0]
        assert numbers(example.negatives, one.negatives[i % 2]) == [0]


def test_a_pointwise_loss_has_one_with_all_negatives(
    segments: Path, checkpoint: Path, instances: Any
) -> None:
    found = arms(segments, checkpoint, loss="cross-entropy").first()
    assert len(found) == SIZE
    for example, one in zip(found, instances[0], strict=True):
        assert example.positives[0].query.tolist() == one.query.tolist()
        assert numbers(example.positives, one.positive) == [0]
        segment = [pair.segment.tolist() for pair in example.negatives]
        assert segment == [negative[0].tolist() for negative in one.negatives]


def test_random_segments_are_any_and_the_same_again(
    segments: Path, checkpoint: Path, instances: Any
) -> None:
    drawn = [
        [numbers(e.positives, one.positive) + numbers(e.negatives[:1], one.negatives[0])
         for e, one in zip(arms(segments, checkpoint, loss="cross-entropy").random(),
                           instances[0], strict=True)]
        for _ in range(2)
    ]  # fmt: skip
    assert drawn[0] == drawn[1]
    counts = np.bincount(np.ravel(drawn[0]), minlength=made.SEGMENTS)
    assert (counts > 2 * SIZE / made.SEGMENTS / 3).all()
    assert any(positive != negative for positive, negative in drawn[0])


def test_goldp_has_the_known_answers_and_the_negatives_of_random(
    segments: Path, checkpoint: Path, instances: Any
) -> None:
    shared = arms(segments, checkpoint, loss="cross-entropy")
    found, random = shared.gold(), shared.random()
    assert len(found) == SIZE // 2
    for i, example in enumerate(found):
        assert numbers(example.positives, instances[0][i].positive) == [instances[1][i]]
        for one, other in zip(example.negatives, random[i].negatives, strict=True):
            assert one.segment.tolist() == other.segment.tolist()


def test_goldp_without_known_answers_is_the_users_error(checkpoint: Path, tmp_path: Path) -> None:
    folder = made.write_store(tmp_path / "segments", 5, answered=0)
    with pytest.raises(EspalierError, match=r"take 'goldp' out of config key 'best\.arms'"):
        arms(folder, checkpoint).gold()


def job(tmp_path: Path, settings: dict[str, Any], inputs: Any, *outputs: str) -> Job:
    return Job(
        settings,
        1,
        {name: [path] if isinstance(path, Path) else path for name, path in inputs.items()},
        {name: tmp_path / name for name in outputs},
        tmp_path / "record.json",
        "key",
    )


@pytest.fixture(scope="module")
def trained(segments: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    settings = {**made.settings(checkpoint, epochs=1), "model": "random"}
    inputs = {"segments": segments, "selections": []}
    metrics = room.verbs["train"].function(job(folder, settings, inputs, "model", "history"))
    assert metrics is not None and metrics["examples"] == 2 * SIZE
    return folder / "model"


@pytest.mark.parametrize(("shards", "int8"), [(2, False), (7, False), (7, True)])
def test_shards_select_alike(
    segments: Path, checkpoint: Path, trained: Path, tmp_path: Path, monkeypatch: Any, shards: int,
    int8: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr("espalier.best.selection.BLOCK", 16)
    quantized = Mock(wraps=scoring.quantized)
    monkeypatch.setattr("espalier.best.arms.quantized", quantized)

    def selected(shards: int) -> pd.DataFrame:
        tables = []
        for number in range(shards):
            settings = made.settings(checkpoint)
            settings["best"] |= {"shards": shards, "selection": {"int8": int8}}
            own = job(tmp_path, {**settings, "shard": number},
                      {"segments": segments, "model": trained}, "selection")  # fmt: skip
            room.verbs["select"].function(own)
            own.checkpoint(0).file.unlink(missing_ok=True)
            tables.append(pd.read_parquet(tmp_path / "selection"))
        return pd.concat(tables, ignore_index=True)

    alone = selected(1)
    assert len(alone) == 3 * SIZE
    assert alone["segment"].nunique() == made.SEGMENTS
    pd.testing.assert_frame_equal(selected(shards), alone)
    assert quantized.call_count == (1 + shards if int8 else 0)


def test_selection_is_what_the_next_iteration_is_trained_on(
    segments: Path, checkpoint: Path, instances: Any
) -> None:
    shared = arms(segments, checkpoint, loss="cross-entropy")
    pairs = shared.training_pairs()
    # Selections come in shards and in any order.
    selection = pairs.assign(segment=np.arange(len(pairs)) % made.SEGMENTS)[::-1]
    wanted = selection.set_index(["query_id", "doc_id"])["segment"]
    for i, example in enumerate(shared.selected(selection)):
        one = instances[0][i]
        assert numbers(example.positives, one.positive) == [wanted[f"q{i}", f"p{i}"]]
        for k, pair in enumerate(example.negatives):
            assert numbers([pair], one.negatives[k]) == [wanted[f"q{i}", f"n{i}-{k}"]]


def test_reranking_and_the_pick(
    segments: Path, checkpoint: Path, trained: Path, tmp_path: Path
) -> None:
    scores = []
    for model in ("theta1", "theta2"):
        own = job(tmp_path / model, {**made.settings(checkpoint), "model": model},
                  {"segments": segments, "model": trained}, "runs", "scores")  # fmt: skip
        (tmp_path / model).mkdir()
        assert room.verbs["rerank"].function(own) == {"segments": 10 * 2 * made.SEGMENTS}
        assert set(runs.in_folder(own.out("runs"))) == {model, f"{model}-first", f"{model}-mean"}
        scores.append(own.out("scores").rename(tmp_path / f"{model}.parquet"))
    tables = [pd.read_parquet(path) for path in scores]
    assert tables[0]["segment"].tolist() == list(range(made.SEGMENTS)) * 20
    tables[1].assign(score=-tables[1]["score"]).to_parquet(scores[1])
    histories = []
    for model, dev in (("theta1", 0.5), ("theta2", 0.6)):
        histories.append(tmp_path / f"history-{model}.parquet")
        pd.DataFrame({"system": [model], "dev_rr": [dev]}).to_parquet(histories[-1])
    own = job(tmp_path, made.settings(checkpoint), {"histories": histories, "scores": scores},
              "runs", "picked_scores")  # fmt: skip
    assert room.verbs["pick"].function(own) == {"iteration": 2, "dev_rr": 0.6}
    pd.testing.assert_frame_equal(pd.read_parquet(own.out("picked_scores")),
                                  pd.read_parquet(scores[1]))  # fmt: skip
    assert set(runs.in_folder(own.out("runs"))) == {"best", "best-first", "best-mean"}
