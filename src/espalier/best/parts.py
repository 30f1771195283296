"""The parts of an experiment, and what runs in each: read off the config alone.

A part is one replicate (a seed), or one fold of a replicate. Its name is that of its folder: s1,
s2 … or s1-f1 … s2-f5.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

ROLES = ("train", "dev", "test")
"""What queries are for."""

BASELINES = ("maxp", "random", "goldp")
"""Arms of one ranker each; the arm `best` has a ranker for every iteration."""


class Part(NamedTuple):
    """A seed with the queries that it is used on."""

    replicate: str
    seed: int
    splits: dict[str, list[str]]
    """Names of the view's splits by role."""


def seeds(config: Mapping[str, Any]) -> list[int]:
    """One seed for each replicate: those listed, or as many as asked from the experiment's on."""
    asked = config["best"]["seeds"]
    return list(asked) if isinstance(asked, list) else [config["seed"] + i for i in range(asked)]


def parts(config: Mapping[str, Any]) -> dict[str, Part]:
    """The parts by name.

    Of the folds, each is the test once; the next one is the dev, all others are trained on.
    """
    folds = config["best"]["folds"]
    found: dict[str, Part] = {}
    for number, seed in enumerate(seeds(config), start=1):
        replicate = f"s{number}"
        if not folds:
            found[replicate] = Part(replicate, seed, {role: [role] for role in ROLES})
            continue
        for i, test in enumerate(folds):
            dev = folds[(i + 1) % len(folds)]
            train = [fold for fold in folds if fold not in (dev, test)]
            splits = {"train": train, "dev": [dev], "test": [test]}
            found[f"{replicate}-f{i + 1}"] = Part(replicate, seed, splits)
    return found


def replicates(config: Mapping[str, Any]) -> list[str]:
    """Names of the replicates: s1, s2 …"""
    return list(dict.fromkeys(part.replicate for part in parts(config).values()))


def iterations(config: Mapping[str, Any]) -> list[str]:
    """The rankers of BeST's iterations: theta1, theta2 …; none where `best` is no arm."""
    best = config["best"]
    return [f"theta{n + 1}" for n in range(best["iterations"])] if "best" in best["arms"] else []


def rankers(config: Mapping[str, Any]) -> list[str]:
    """The rankers that each part trains."""
    baselines = [arm for arm in BASELINES if arm in config["best"]["arms"]]
    thetas = iterations(config)
    return [*baselines, *(["theta0", *thetas] if thetas else [])]


def ranked(config: Mapping[str, Any]) -> list[str]:
    """What each part re-ranks by: its rankers, and `best`, the iteration that the dev picks."""
    return [*rankers(config), *(["best"] if iterations(config) else [])]


def systems(ranker: str) -> dict[str, str]:
    """Runs of a ranker by name, with their aggregation; the paper scores BeST by the maximum."""
    if ranker == "maxp":
        return {"firstp": "first", "maxp": "max", "meanp": "mean"}
    return {f"{ranker}-first": "first", ranker: "max", f"{ranker}-mean": "mean"}
