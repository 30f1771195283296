"""`espalier plan`: what a run will cost, before it is started."""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espalier import config as configuration
from espalier import launch
from espalier.errors import EspalierError
from espalier.planning.sampling import Config, Size

if TYPE_CHECKING:
    from espalier.planning.estimate import Estimate

GIB = 2**30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espalier plan`."""
    launch.add_arguments(parser)
    parser.add_argument("--cores", default="all", help="cores for Snakemake (default: all)")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument(
        "--documents", type=int, default=1000, help="documents of the larger sample (1000)"
    )
    parser.add_argument(
        "--gpu-tflops",
        type=float,
        default=30.0,
        help="what a GPU sustains on the models, in 10^12 operations a second (30)",
    )


def sizes(config: Config, documents: int, whole: int) -> list[Size]:
    """The samples: a small one, one of more documents, one of more queries and training.

    `whole` is the number of documents in full; the small sample retrieves the same share of its
    documents as the whole will.
    """
    few = max(documents // 4, 1)
    k_prime = max(round(config["colbert"]["retrieval"]["k_prime"] * min(few / whole, 1)), 1)
    return [
        Size(few, 10, 4, k_prime),
        Size(documents, 10, 4, k_prime),
        Size(documents, 30, 12, k_prime),
    ]


def plan(given: argparse.Namespace) -> int:
    """Run the samples, print what the whole will cost; EspalierError when the disk is too small."""
    from espalier.collections import access
    from espalier.planning import estimate, sampling

    root = launch.project_root()
    config = configuration.load(root, given.config)
    configuration.check(config, root)
    documents = {}
    for view in configuration.views_of(config):
        documents[view] = sum(1 for _ in access.docs(config["collections"][view]["docs"]))
    samples = []
    for size in sizes(config, given.documents, max(documents.values())):
        print(f"sample: {size}", file=sys.stderr)
        samples.append(sampling.run(config, root, size, given.cores))
    speed = estimate.Speed(estimate.core_speed(), given.gpu_tflops * 1e12)
    rows = estimate.estimates(config, samples, speed)
    whole = estimate.total(rows)
    print(as_json([*rows, whole]) if given.json else as_text([*rows, whole], documents))
    check_disk(config, whole.bytes)
    return 0


def check_disk(config: Config, needed: float) -> None:
    """EspalierError when the results will not fit."""
    folder = Path(config["results"])
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EspalierError(
            f"{folder}: the results need {needed / GIB:.2f} GiB and the disk has {free / GIB:.2f} "
            "GiB free; free some space or set the config key 'results' to a larger disk"
        )


def as_json(rows: Sequence["Estimate"]) -> str:
    """The estimates as JSON, the sum last."""
    return json.dumps([row._asdict() for row in rows], indent=1)


def as_text(rows: Sequence["Estimate"], documents: Mapping[str, int]) -> str:
    """The estimates as a table, the sum last."""
    sizes = ", ".join(f"{count:,} {view}" for view, count in documents.items())
    lines = [
        f"documents: {sizes}",
        f"{'stage':24}{'jobs':>6}{'disk GiB':>11}{'memory GiB':>12}"
        f"{'core-hours':>12}{'or GPU-hours':>14}",
    ]
    for row in rows:
        gpu = f"{row.gpu_hours:>14.4f}" if row.gpu_hours else f"{'':>14}"
        lines.append(
            f"{row.stage:24}{row.jobs:>6}{row.bytes / GIB:>11.3f}{row.memory / GIB:>12.2f}"
            f"{row.core_hours:>12.3f}{gpu}".rstrip()
        )
    return "\n".join(lines)
