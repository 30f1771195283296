"""What the papers publish beyond the claims ledger: points of their figures, rivals' rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True)
class Rival:
    """Another system in a paper's table, and where its value comes from."""

    system: str
    measure: str
    value: float | None
    """None where the paper's text does not give it."""
    where: str
    source: str


@cache
def document() -> Mapping[str, Any]:
    """The whole file."""
    found: Mapping[str, Any] = yaml.safe_load(
        files("espalier.report").joinpath("published.yaml").read_text()
    )
    return found


def rivals(paper: str) -> list[Rival]:
    """The other systems that a paper's tables compare with."""
    return [
        Rival(row["system"], row["measure"], row["value"], row["where"], row["source"])
        for row in document()["rivals"]
        if row["paper"] == paper
    ]


def points(paper: str) -> list[Mapping[str, Any]]:
    """Published points of a paper's figures."""
    return [row for row in document()["points"] if row["paper"] == paper]
