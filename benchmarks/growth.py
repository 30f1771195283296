"""How time and memory of each stage grow with the collection (`make bench-growth`).

The demo's chain runs on 2,500, 5,000 and 10,000 of its passages (1,000, 2,000 and 4,000 of its long
documents), and on 250, where nearly all is start-up; all else is the same: few queries, short
training, so few embeddings taken (k') that a query retrieves a part of a collection. The two
smaller sizes run twice: what two runs differ by is the noise.

The cost of a stage is a + b n^e. For each e the best a and b, none negative, follow by least
squares of relative errors; the e that fits best is the exponent, and those that fit about as well
are its 95% interval (chi-square below its minimum + 3.84, at the noise measured). A stage is flat
when a constant fits about as well: what it does is set by queries and training, or too short to
show. Jobs run one at a time: two on the threads of one core slow each other.

Distances to an index's centroids, few in a collection this small, are counted and timed on their
own (as `espalier plan` does): they grow as n^1.5 in a large one.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import ratios
from espalier import config as configuration
from espalier.planning import estimate, plan, sampling, units
from espalier.planning.sampling import Config, Run, Size

ROOT = Path(__file__).resolve().parents[1]
SIZES = (250, 2500, 5000, 10_000)
PAGES = (100, 1000, 2000, 4000)
REPEATED = (250, 2500)
QUERIES = {"train": 10, "dev": 2, "test": 4}
K_PRIME = 24
MS_MARCO = 8_841_823
EXPONENTS = np.arange(0, 201) / 100
CLOSE = 3.84
"""What chi-square may rise by within a 95% interval of one parameter."""
LEAST_NOISE = 0.01

LARGE_ENCODER = (12, 768)
"""Layers and width of the encoder that config/msmarco-passage.yaml names."""
ENCODER_WIDTH = 384
"""Of the demo's."""

Values = NDArray[np.float64]


class Growth(NamedTuple):
    """How one cost of one stage grows."""

    stage: str
    costs: Values
    """float64[sizes]: CPU seconds of all jobs, or peak bytes of the largest; a mean of rounds."""
    exponent: float
    low: float
    high: float
    """The exponent's 95% interval."""
    flat: bool
    at_scale: tuple[float, float, float] | None
    """For MS MARCO's passages: at the exponent, and at the ends of its interval; None if flat."""


def growth(
    stage: str, sizes: Sequence[int], costs: Values, noise: float, known: Values | None = None
) -> Growth:
    """The exponent of the growing part, its interval, and where they lead.

    `costs` float64[sizes] have errors of `noise` times themselves. `known` float64[sizes + 1] is a
    part of them, and of the cost for MS MARCO, that is known and does not count in the exponent.
    """
    known = np.zeros(len(sizes) + 1) if known is None else known
    rest = np.maximum(costs - known[:-1], 0.01 * costs)
    n = np.array(sizes, dtype=np.float64)
    models = [estimate.fitted((n**e)[:, None], rest) for e in EXPONENTS]
    misses = np.array(
        [
            (((a + b * n**e - rest) / (noise * costs)) ** 2).sum()
            for (a, b), e in zip(models, EXPONENTS, strict=True)
        ]
    )
    best = int(misses.argmin())
    close = np.flatnonzero(misses <= misses[best] + CLOSE)
    # n^0 is a constant: with it among them, none of the growth is shown.
    flat = bool(close[0] == 0)
    at, lowest, highest = (
        float(models[i][0] + models[i][1] * float(MS_MARCO) ** EXPONENTS[i] + known[-1])
        for i in ([0] * 3 if flat else [best, int(close[0]), int(close[-1])])
    )
    at_scale = None if flat and not known[-1] else (at, lowest, highest)
    low, high = float(EXPONENTS[close[0]]), float(EXPONENTS[close[-1]])
    return Growth(stage, costs, float(EXPONENTS[best]), low, high, flat, at_scale)


def costs_of(runs: Sequence[Run], stage: str, cost: str) -> Values:
    """float64[runs]: `cpu_seconds` of a stage, or `peak_memory_bytes` of its largest job."""
    merge = sum if cost == "cpu_seconds" else max
    return np.array([merge(r["cost"][cost] for r in run.of_stage(stage)) for run in runs])


def stages_of(runs: Sequence[Run]) -> list[str]:
    """The stages in the order in which they first began."""
    begun = sorted(runs[-1].records.values(), key=lambda record: float(record["cost"]["started"]))
    return list(dict.fromkeys(record["stage"] for record in begun))


def noise_of(first: Sequence[Run], again: Sequence[Run], cost: str) -> float:
    """The relative error of one run, by pairs of runs of the same sizes: root mean square."""
    shares = [
        (costs_of(first, stage, cost) - costs_of(again, stage, cost))
        / (costs_of(first, stage, cost) + costs_of(again, stage, cost))
        for stage in stages_of(first)
    ]
    # Half the difference of two errors has half their variance.
    return max(float(np.sqrt(2 * np.mean(np.square(shares)))), LEAST_NOISE)


def distances_of(runs: Sequence[Run], stage: str, speed: float) -> Values:
    """float64[runs + 1]: CPU seconds of a stage's distances in each run, and for MS MARCO.

    Each run's own config says how many shards a job's embeddings are a part of.
    """
    known = []
    for run in runs:
        extent, found = units.extent_of(run), run.of_stage(stage)
        known.append(sum(units.distances(run.config, extent, r) for r in found) / speed)
    grown = MS_MARCO / extent.documents["passages"]
    whole = units.Extent({}, {}, embeddings=extent.embeddings * grown)
    records = runs[-1].of_stage(stage)
    known.append(sum(units.distances(runs[-1].config, whole, r) for r in records) / speed)
    return np.array(known)


def table(
    runs: Sequence[Run],
    again: Sequence[Run],
    sizes: Sequence[int],
    cost: str,
    known: Mapping[str, Values],
) -> list[Growth]:
    """Growth of one cost by stage; `again` are second runs of the first sizes.

    `known` are parts of some stages' CPU seconds as `distances_of` gives them.
    """
    noise = noise_of(runs[: len(again)], again, cost)
    rows = []
    for stage in stages_of(runs):
        costs = costs_of(runs, stage, cost)
        costs[: len(again)] = (costs[: len(again)] + costs_of(again, stage, cost)) / 2
        own = known.get(stage) if cost == "cpu_seconds" else None
        rows.append(growth(stage, sizes, costs, noise, own))
    return rows


def result_rows(found: Sequence[Growth], sizes: Sequence[int], cost: str) -> list[ratios.Row]:
    """Rows of the benchmark's result: an exponent each, against linear growth."""
    unit = "s" if cost == "cpu_seconds" else "bytes"
    rows = []
    for row in found:
        note = f"{', '.join(f'{c:.4g}' for c in row.costs)} {unit}"
        note += "; flat" if row.flat else ""
        if row.at_scale:
            at, low, high = row.at_scale
            note += f"; {at:.4g} [{low:.4g}, {high:.4g}] {unit} for {MS_MARCO} passages"
        work = f"{', '.join(map(str, sizes))} documents"
        name, interval = f"{row.stage} {cost}", (row.low, row.high)
        rows.append(ratios.row(name, work, row.exponent, 1.0, "exponent", interval, note=note))
    return rows


def printed(times: Sequence[Growth], memories: Sequence[Growth], sizes: Sequence[int]) -> str:
    """The table for the README."""
    lines = [
        f"| stage | CPU s at {' / '.join(f'{n:,}' for n in sizes)} passages | exponent "
        "| peak MiB | exponent | CPU hours at 8.8M |",
        "|---|---|---|---|---|---|",
    ]
    for time, memory in zip(times, memories, strict=True):
        hours = "{:.1f} [{:.1f}, {:.1f}]".format(
            *(seconds / estimate.HOUR for seconds in time.at_scale)
        ) if time.at_scale else ""  # fmt: skip
        lines.append(
            f"| {time.stage} | {' / '.join(f'{c:.1f}' for c in time.costs)} | {said(time)} "
            f"| {' / '.join(f'{c / 2**20:.0f}' for c in memory.costs)} | {said(memory)} "
            f"| {hours} |"
        )
    return "\n".join(lines)


def said(found: Growth) -> str:
    """The exponent and its interval in words."""
    return "flat" if found.flat else f"{found.exponent:.2f} [{found.low:.2f}, {found.high:.2f}]"


def meaning(times: Sequence[Growth], config: Config) -> str:
    """What the last column says, what it leaves out, and the encoder of the paper's size."""
    text = (
        "At 8.8M: the demo's models and settings, its two indexes of late interaction among them, "
        "and\nthese few queries. Left out: larger models, more queries and deeper runs, and a disk "
        "that is slower\nthan memory.\n"
    )
    layers, width = LARGE_ENCODER
    larger = layers * width**2 / (config["colbert"]["encoder"]["layers"] * ENCODER_WIDTH**2)
    for row in times:
        if row.stage == "colbert encode" and row.at_scale:
            text += (
                f"Encoding with BERT-base ({larger:.0f} times the operations a token): "
                f"{row.at_scale[0] / estimate.HOUR * larger:.0f} CPU hours.\n"
            )
    return (
        f"{text}`espalier plan --config config/msmarco-passage.yaml` measures that config itself."
    )


def main() -> None:
    """Run the chains; write the result and print the table."""
    argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__).parse_args()
    config = configuration.load(ROOT)

    def ran(documents: int) -> Run:
        pages = PAGES[SIZES.index(documents)]
        size = Size(documents, pages, 10, QUERIES, 2, K_PRIME)
        return sampling.run_compiled(config, ROOT, size, "1")

    runs, again = [ran(n) for n in SIZES], [ran(n) for n in REPEATED]
    speed = plan.speed_of(config, 1.0).distances
    known = {stage: distances_of(runs, stage, speed) for stage in units.CENTROIDS}
    times = table(runs, again, SIZES, "cpu_seconds", known)
    memories = table(runs, again, SIZES, "peak_memory_bytes", known)
    rows = result_rows(times, SIZES, "cpu_seconds")
    print(ratios.write("growth", rows + result_rows(memories, SIZES, "peak_memory_bytes")))
    print(printed(times, memories, SIZES))
    print(meaning(times, config))


if __name__ == "__main__":
    main()
