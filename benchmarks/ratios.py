"""Rows of a benchmark's result: cost here over cost of a rival, paired by query, with intervals.

A row is {name, work, ours, rival, unit, ratio, ci_low, ci_high, goal, note}; ratio = ours / rival,
so lower is better. The interval is a 95% bootstrap interval over queries, both sides resampled
together; without pairs it is the ratio itself.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SAMPLES = 2000
RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]
Values = npt.NDArray[np.float64]


def paired(
    name: str, work: str, ours: Values, rival: Values, *, statistic: str = "mean",
    unit: str = "ms", goal: float | None = None, note: str = "",
) -> Row:  # fmt: skip
    """A row from two costs of the same queries; `statistic` is mean or p95."""
    both = np.stack([ours, rival], axis=1)
    drawn = np.random.default_rng(1).integers(len(both), size=(SAMPLES, len(both)))
    ratios = np.divide(*reduced(both[drawn], statistic, axis=1).T)
    low, high = np.quantile(ratios, [0.025, 0.975])
    here, there = reduced(both, statistic, axis=0)
    return row(name, f"{work}, {statistic}", here, there, unit, (low, high), goal, note)


def reduced(values: Values, statistic: str, axis: int) -> Values:
    """Mean or 95th percentile over the queries."""
    if statistic == "mean":
        return values.mean(axis=axis)
    return np.quantile(values, 0.95, axis=axis)


def row(
    name: str, work: str, ours: float, rival: float, unit: str,
    interval: tuple[float, float] | None = None, goal: float | None = None, note: str = "",
) -> Row:  # fmt: skip
    """A row from two numbers."""
    ratio = float(ours / rival)
    low, high = interval or (ratio, ratio)
    return {
        "name": name, "work": work, "ours": float(ours), "rival": float(rival), "unit": unit,
        "ratio": ratio, "ci_low": float(low), "ci_high": float(high), "goal": goal, "note": note,
    }  # fmt: skip


def write(name: str, rows: Sequence[Row]) -> Path:
    """Write `results/<name>.json`, rows in order."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(list(rows), indent=1) + "\n")
    return path


def table(rows: Sequence[Row]) -> str:
    """The rows as text; a goal is met when the interval's upper end is within it."""
    lines = [f"{'':48} {'work':34} {'ours':>9} {'rival':>9}      {'ratio':>6}  interval       goal"]
    for r in rows:
        goal = ""
        if r["goal"] is not None:
            goal = f"≤ {r['goal']:.3g} {'met' if r['ci_high'] <= r['goal'] else 'MISSED'}"
        lines.append(
            f"{r['name']:48} {r['work']:34} {r['ours']:9.4g} {r['rival']:9.4g} {r['unit']:4} "
            f"{r['ratio']:6.3f}  [{r['ci_low']:.3f}, {r['ci_high']:.3f}] {goal:14} {r['note']}"
        )
    return "\n".join(lines)
