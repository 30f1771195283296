from typing import Any

import pytest

from espalier.best import parts


def config(**best: Any) -> dict[str, Any]:
    own = {"seeds": 1, "folds": None, "arms": ["best", "maxp"], "iterations": 2}
    return {"seed": 50, "best": own | best}


@pytest.mark.parametrize(("asked", "expected"), [(1, [50]), (3, [50, 51, 52]), ([7, 5], [7, 5])])
def test_seeds_are_counted_up_or_listed(asked: Any, expected: list[int]) -> None:
    assert parts.seeds(config(seeds=asked)) == expected
    made = parts.parts(config(seeds=asked))
    assert list(made) == [f"s{n}" for n in range(1, 1 + len(expected))]
    assert [part.seed for part in made.values()] == expected
    assert all(part.splits == {r: [r] for r in parts.ROLES} for part in made.values())


def test_every_fold_is_the_test_once_and_trained_on_otherwise() -> None:
    folds = ["f1", "f2", "f3", "f4", "f5"]
    made = parts.parts(config(seeds=2, folds=folds))
    assert len(made) == 10
    assert parts.replicates(config(seeds=2, folds=folds)) == ["s1", "s2"]
    assert made["s2-f5"] == parts.Part(
        "s2", 51, {"train": ["f2", "f3", "f4"], "dev": ["f1"], "test": ["f5"]}
    )
    assert [made[f"s1-f{n}"].splits["test"] for n in range(1, 6)] == [[f] for f in folds]
    for part in made.values():
        roles = [name for names in part.splits.values() for name in names]
        assert sorted(roles) == folds


def test_rankers_of_arms() -> None:
    assert parts.rankers(config()) == ["maxp", "theta0", "theta1", "theta2"]
    assert parts.ranked(config()) == ["maxp", "theta0", "theta1", "theta2", "best"]
    baselines = config(arms=["goldp", "random"])
    assert parts.rankers(baselines) == parts.ranked(baselines) == ["random", "goldp"]
    assert parts.iterations(baselines) == []


def test_no_two_rankers_share_a_system() -> None:
    names = [s for ranker in parts.ranked(config(arms=["maxp", "random", "goldp", "best"]))
             for s in parts.systems(ranker)]  # fmt: skip
    assert len(set(names)) == len(names) == 3 + 3 * 6
