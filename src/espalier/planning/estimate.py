"""From what samples cost to what the whole will: one small linear model per job.

A job's cost is a constant (starting, loading a model) plus a factor for each of its units, none
negative: fitted to its cost in the samples by least squares, taken at the units of the whole. What
a sample is too small to show, distances to an index's centroids, is timed on its own.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from espalier.planning import units
from espalier.planning.sampling import Config, Run

HOUR = 3600

STARTING = "starting jobs"
"""The row of what no stage's record has: Python's start in every job, and Snakemake."""


class Estimate(NamedTuple):
    """What one stage will cost, or did."""

    stage: str
    jobs: int
    bytes: float
    """Its outputs on disk."""
    memory: float
    """Peak resident bytes of one job."""
    core_hours: float
    """All of it on cores."""
    gpu_hours: float = 0.0
    """Of what can run on a GPU instead: 0 for a stage that has no model."""
    left_hours: float = 0.0
    """Core-hours that remain then."""


@dataclass(frozen=True)
class Speed:
    """How fast this machine is, and a GPU."""

    core: float
    """Floating-point operations of one CPU second in models, measured."""
    gpu: float
    """What a GPU sustains on models of this size: assumed."""
    distances: float
    """Distances to centroids in one CPU second, measured."""


def written(record: Mapping[str, Any]) -> int:
    """Bytes on disk of one job's outputs."""
    return sum(int(file["bytes"]) for group in record["outputs"].values() for file in group)


def fitted(rows: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Constant and factors float64[1 + units] of the linear model with none negative.

    `rows` float64[samples, units], `costs` float64[samples]. Squared are the errors' shares of the
    costs, so that a small sample fixes the constant.
    """
    weights = 1 / np.maximum(costs, 1e-9)
    design = np.column_stack([np.ones(len(rows)), rows]) * weights[:, None]
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    factors: NDArray[np.float64] = nnls(design / scale, costs * weights)[0] / scale
    return factors


class Job:
    """One job of the samples: what it cost in each that has it, and what it will cost."""

    def __init__(self, name: str, config: Config, samples: Sequence[Run], speed: Speed) -> None:
        self.samples = [sample for sample in samples if name in sample.records]
        self.seen = [units.extent_of(sample) for sample in self.samples]
        self.records = [sample.records[name] for sample in self.samples]
        self.config, self.speed = config, speed
        self.record = self.records[-1]

    def parts(self, cost: str, whole: units.Extent, costs: Sequence[float]) -> NDArray[np.float64]:
        """A cost of the whole: its constant, then what grows, float64[1 + units].

        Without units the constant is the most that it cost in any sample.
        """
        at = units.units_of(self.config, whole, self.record, cost)
        if not at:
            return np.array([max(costs)])
        rows = [
            units.units_of(sample.config, extent, self.record, cost)
            for sample, extent in zip(self.samples, self.seen, strict=True)
        ]
        found = fitted(np.array(rows, dtype=np.float64), np.array(costs, dtype=np.float64))
        grown: NDArray[np.float64] = found * np.array([1.0, *at])
        return grown

    def seconds(self, whole: units.Extent) -> tuple[float, float]:
        """CPU seconds of the whole: all, and those that grow with it."""
        known = [
            units.distances(sample.config, extent, self.record) / self.speed.distances
            for sample, extent in zip(self.samples, self.seen, strict=True)
        ]
        spent = [float(record["cost"]["cpu_seconds"]) for record in self.records]
        rest = [max(s - k, 0.0) for s, k in zip(spent, known, strict=True)]
        constant, *growing = self.parts("seconds", whole, rest)
        distances = units.distances(self.config, whole, self.record) / self.speed.distances
        grown = float(sum(growing)) + distances
        return float(constant) + grown, grown

    def bytes(self, whole: units.Extent) -> float:
        """Bytes of the outputs."""
        return float(self.parts("bytes", whole, list(map(written, self.records))).sum())

    def memory(self, whole: units.Extent, held: float) -> float:
        """Peak bytes, for `held` more bytes of segments than in the last sample."""
        peaks = [float(record["cost"]["peak_memory_bytes"]) for record in self.records]
        share = units.HELD.get(self.record["stage"], 0)
        return float(self.parts("memory", whole, peaks).sum()) + share * held


def estimates(config: Config, samples: Sequence[Run], speed: Speed) -> list[Estimate]:
    """What every stage of `config` will cost, in the order in which the stages first ran.

    The last sample has every job, and the whole's counts are foretold from it.
    """
    whole = units.extent_of_whole(config, samples[-1])
    found: dict[str, Estimate] = {}
    held = 0.0
    last = samples[-1].records
    for name in sorted(last, key=lambda name: float(last[name]["cost"]["started"])):
        job = Job(name, config, samples, speed)
        stage = job.record["stage"]
        if stage == "best segment":
            held = max(job.bytes(whole) - written(job.record), 0.0)
        like = units.jobs_like(config, job.record)
        seconds, growing = job.seconds(whole)
        on_gpu = growing if stage.startswith(units.MODELS) else 0.0
        before = found.get(stage, Estimate(stage, 0, 0, 0, 0))
        found[stage] = Estimate(
            stage,
            before.jobs + like,
            before.bytes + like * job.bytes(whole),
            max(before.memory, job.memory(whole, held)),
            before.core_hours + like * seconds / HOUR,
            before.gpu_hours + like * on_gpu * (speed.core / speed.gpu) / HOUR,
            before.left_hours + like * (seconds - on_gpu) / HOUR,
        )
    rows = list(found.values())
    hours = samples[-1].beside / len(last) * sum(row.jobs for row in rows) / HOUR
    return [*rows, Estimate(STARTING, 0, 0, 0, hours, 0.0, hours)]


def taken(run: Run) -> list[Estimate]:
    """What every stage of a finished experiment cost, by its records."""
    found: dict[str, Estimate] = {}
    for record in run.records.values():
        stage, cost = record["stage"], record["cost"]
        before = found.get(stage, Estimate(stage, 0, 0, 0, 0))
        found[stage] = Estimate(
            stage,
            before.jobs + 1,
            before.bytes + written(record),
            max(before.memory, float(cost["peak_memory_bytes"])),
            before.core_hours + float(cost["cpu_seconds"]) / HOUR,
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
        sum(row.left_hours for row in rows),
    )


def core_speed(size: int = 1024, products: int = 8) -> float:
    """Floating-point operations of one CPU second, in products of float32[size, size]."""
    matrix = np.random.default_rng(0).random((size, size), dtype=np.float32)

    def multiply() -> None:
        for _ in range(products):
            matrix @ matrix

    return 2.0 * size**3 * products / seconds_of(multiply)


def distance_speed(dimensions: int, centroids: int = 1024, points: int = 1 << 15) -> float:
    """Distances of float32[points, dimensions] to centroids that FAISS computes in a CPU second."""
    import faiss

    from espalier.colbert.quantizer import one_thread

    vectors = np.random.default_rng(0).random((centroids + points, dimensions), dtype=np.float32)
    flat: Any = faiss.IndexFlatL2(dimensions)
    flat.add(vectors[:centroids])
    with one_thread():
        return centroids * points / seconds_of(lambda: flat.search(vectors[centroids:], 1))


def seconds_of(work: Callable[[], Any], repeats: int = 9) -> float:
    """CPU seconds of some work: the median, after it was done once to warm up."""
    taken = []
    for _ in range(repeats + 1):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return float(np.median(taken[1:]))
