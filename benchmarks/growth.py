"""How time and memory of each stage grow with the collection (`make bench-growth`).

The demo's chain runs on 1, 2 and 4 times as many documents, all else the same: few queries, short
training, so few embeddings taken (k') that a query retrieves a part of the smallest collection.
From the three costs c1, c2, c4 of a stage follows the exponent of the part that grows,
cost = a + b n^e: e = log2((c4 - c2) / (c2 - c1)). A stage counts as flat when its largest cost is
not a tenth above its smallest: what it does is set by queries and training, or too short to show.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import ratios
from espalier import config as configuration
from espalier.planning import sampling
from espalier.planning.sampling import Run, Size

ROOT = Path(__file__).resolve().parents[1]
SIZES = (500, 1000, 2000)
QUERIES, STEPS, K_PRIME = 10, 4, 24
MS_MARCO = 8_841_823
FLAT = 1.1


class Growth(NamedTuple):
    """How one cost of one stage grows."""

    stage: str
    costs: tuple[float, float, float]
    """CPU seconds of all jobs, or peak bytes of the largest, at each size."""
    exponent: float
    """0 for a flat stage."""
    extrapolated: float
    """The cost for MS MARCO's passages."""


def growth(stage: str, sizes: Sequence[int], costs: tuple[float, float, float]) -> Growth:
    """The exponent of the growing part, at most 2 and at least 0, and where it leads."""
    first, second, third = costs
    if third < FLAT * first:
        return Growth(stage, costs, 0.0, max(costs))
    rise = max(second - first, 1e-9 * third)
    exponent = min(max(math.log2(max(third - second, 1e-9 * third) / rise), 0.0), 2.0)
    # Least squares would weigh three points; the two ends fix a and b for this exponent.
    factor = (third - first) / (sizes[2] ** max(exponent, 0.01) - sizes[0] ** max(exponent, 0.01))
    reached = third + factor * (MS_MARCO ** max(exponent, 0.01) - sizes[2] ** max(exponent, 0.01))
    return Growth(stage, costs, exponent, reached)


def table(runs: Sequence[Run], sizes: Sequence[int], cost: str) -> list[Growth]:
    """Growth of `cpu_seconds` (summed over jobs) or `peak_memory_bytes` (largest job) by stage."""
    merge = sum if cost == "cpu_seconds" else max
    stages = dict.fromkeys(record["stage"] for record in runs[0].records.values())
    rows = []
    for stage in stages:
        costs = tuple(merge(r["cost"][cost] for r in run.of_stage(stage)) for run in runs)
        rows.append(growth(stage, sizes, costs))
    return rows


def result_rows(runs: Sequence[Run], sizes: Sequence[int]) -> list[ratios.Row]:
    """Rows of the benchmark's result: an exponent each, against linear growth."""
    work = f"{sizes[0]}, {sizes[1]}, {sizes[2]} documents"
    rows = []
    for cost, unit in (("cpu_seconds", "s"), ("peak_memory_bytes", "bytes")):
        for found in table(runs, sizes, cost):
            note = f"{', '.join(f'{c:.4g}' for c in found.costs)} {unit}; "
            note += f"{found.extrapolated:.4g} {unit} for {MS_MARCO} passages"
            name = f"{found.stage} {cost}"
            rows.append(ratios.row(name, work, found.exponent, 1.0, "exponent", note=note))
    return rows


def printed(runs: Sequence[Run], sizes: Sequence[int]) -> str:
    """The table for the README."""
    lines = [
        f"| stage | CPU s at {sizes[0]:,} / {sizes[1]:,} / {sizes[2]:,} documents | exponent "
        "| peak MiB | exponent | CPU hours at 8.8M |",
        "|---|---|---|---|---|---|",
    ]
    times = table(runs, sizes, "cpu_seconds")
    memories = table(runs, sizes, "peak_memory_bytes")
    for time, memory in zip(times, memories, strict=True):
        lines.append(
            f"| {time.stage} | {' / '.join(f'{c:.1f}' for c in time.costs)} | {said(time)} "
            f"| {' / '.join(f'{c / 2**20:.0f}' for c in memory.costs)} | {said(memory)} "
            f"| {time.extrapolated / 3600:.1f} |"
        )
    return "\n".join(lines)


def said(found: Growth) -> str:
    """The exponent in words."""
    return f"{found.exponent:.2f}" if found.exponent else "flat"


def main() -> None:
    """Run the three chains; write the result and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--cores", default="all")
    given = parser.parse_args()
    config = configuration.load(ROOT)
    runs = [
        sampling.run(config, ROOT, Size(documents, QUERIES, STEPS, K_PRIME), given.cores)
        for documents in SIZES
    ]
    print(ratios.write("growth", result_rows(runs, SIZES)))
    print(printed(runs, SIZES))


if __name__ == "__main__":
    main()
