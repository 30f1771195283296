"""From what samples cost to what the whole will: one small linear model per job.

A job's cost is a constant (starting, loading a model) plus a factor for each of its units, none
negative: fitted to its cost in the samples by least squares, taken at the units of the whole.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from espalier.planning import units
from espalier.planning.sampling import Config, Run

HOUR = 3600
COSTS = ("cpu_seconds", "bytes", "memory")


class Estimate(NamedTuple):
    """What one stage will cost."""

    stage: str
    jobs: int
    bytes: float
    """Its outputs on disk."""
    memory: float
    """Peak resident bytes of one job."""
    core_hours: float
    gpu_hours: float
    """Where its model runs on a GPU instead: 0 for a stage that has none."""


@dataclass(frozen=True)
class Speed:
    """How fast models are computed, in floating-point operations a second."""

    core: float
    """Measured on one core."""
    gpu: float
    """What a GPU sustains on models of this size: assumed."""


def cost_of(record: Mapping[str, Any]) -> tuple[float, float, float]:
    """CPU seconds, bytes on disk and peak memory of one job."""
    written = sum(file["bytes"] for group in record["outputs"].values() for file in group)
    cost = record["cost"]
    return cost["cpu_seconds"], written, cost["peak_memory_bytes"]


def fitted(rows: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Constant and factors float64[1 + units] of the linear model with none negative.

    `rows` float64[samples, units], `costs` float64[samples].
    """
    design = np.column_stack([np.ones(len(rows)), rows])
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    factors: NDArray[np.float64] = nnls(design / scale, costs)[0] / scale
    return factors


def estimates(config: Config, samples: Sequence[Run], speed: Speed) -> list[Estimate]:
    """What every stage of `config` will cost, in the order in which the stages first ran.

    The last sample is the one that the whole's counts are foretold from.
    """
    seen = [units.extent_of(sample) for sample in samples]
    whole = units.extent_of_whole(config, samples[-1])
    found: dict[str, Estimate] = {}
    last = samples[-1].records
    for name in sorted(last, key=lambda name: float(last[name]["cost"]["started"])):
        record = last[name]
        at = np.array([1.0, *units.units_of(config, whole, record)])
        rows = np.array(
            [units.units_of(s.config, e, record) for s, e in zip(samples, seen, strict=True)]
        )
        costs = np.array([cost_of(sample.records[name]) for sample in samples], dtype=np.float64)
        seconds, written, memory = (
            fitted(rows, costs[:, column]) * at for column in range(len(COSTS))
        )
        jobs = units.jobs_like(config, samples[-1], record)
        on_gpu = record["stage"].startswith(units.MODELS)
        stage = record["stage"]
        before = found.get(stage, Estimate(stage, 0, 0, 0, 0, 0))
        found[stage] = Estimate(
            stage,
            before.jobs + round(jobs),
            before.bytes + jobs * written.sum(),
            max(before.memory, memory.sum()),
            before.core_hours + jobs * seconds.sum() / HOUR,
            before.gpu_hours + on_gpu * jobs * seconds[1:].sum() * (speed.core / speed.gpu) / HOUR,
        )
    return list(found.values())


def total(rows: Sequence[Estimate]) -> Estimate:
    """All stages together; memory is that of the largest job."""
    return Estimate(
        "all",
        sum(row.jobs for row in rows),
        sum(row.bytes for row in rows),
        max(row.memory for row in rows),
        sum(row.core_hours for row in rows),
        sum(row.gpu_hours for row in rows),
    )


def core_speed(size: int = 1024, repeats: int = 4) -> float:
    """Floating-point operations of one CPU second, in products of float32[size, size]."""
    matrix = np.random.default_rng(0).random((size, size), dtype=np.float32)
    matrix @ matrix
    started = time.process_time()
    for _ in range(repeats):
        matrix @ matrix
    return 2.0 * size**3 * repeats / (time.process_time() - started)
