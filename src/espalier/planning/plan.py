"""`espalier plan`: what a run will cost, before it is started; afterwards, what it did cost."""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier import config as configuration
from espalier import files, launch
from espalier.errors import EspalierError
from espalier.planning.sampling import Config, Run, Size

if TYPE_CHECKING:
    from espalier.planning.estimate import Estimate, Speed

GIB = 2**30

PLANNED = "plan.json"
"""The estimate, in the experiment's folder."""

MOST_PAGES = 5000
"""Long documents of a sample: of more, BM25 finds longer ones, which have more segments."""

SMALL_MODEL = 2e8
"""Floating-point operations on a longest segment up to which `QUERIES` are affordable."""

QUERIES = {"train": 200, "dev": 20, "test": 40}
"""Queries of a sample on the long documents."""

FEWEST = {"train": 6, "dev": 2, "test": 6}
"""The same for a model however large."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espalier plan`."""
    launch.add_arguments(parser)
    parser.add_argument("--cores", default="all", help="cores for Snakemake (default: all)")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument(
        "--documents", type=int, default=1500, help="passages of the largest sample (1500)"
    )
    parser.add_argument(
        "--gpu-tflops",
        type=float,
        default=30.0,
        help="what a GPU sustains on the models, in 10^12 operations a second (30)",
    )
    parser.add_argument(
        "--core-price", type=float, default=0.05, help="money for an hour of a core (0.05)"
    )
    parser.add_argument(
        "--gpu-price", type=float, default=2.5, help="money for an hour of a GPU (2.50)"
    )
    parser.add_argument(
        "--against",
        action="store_true",
        help="run no sample: hold the last estimate against the records of the finished run",
    )


def plan(given: argparse.Namespace) -> int:
    """Estimate what the whole will cost, or compare the estimate with what it did cost."""
    root = launch.project_root()
    config = configuration.load(root, given.config)
    return compare(config, given) if given.against else foretell(config, root, given)


def foretell(config: Config, root: Path, given: argparse.Namespace) -> int:
    """Run samples, keep and print what the whole will cost; EspalierError for too small a disk."""
    from espalier.planning import estimate, units

    configuration.check(config, root)
    samples = sampled(config, root, given)
    rows = estimate.estimates(config, samples, speed_of(config, given.gpu_tflops))
    whole = estimate.total(rows)
    folder = configuration.experiment_folder(config)
    with files.written_whole(folder / PLANNED) as path:
        kept = {"config": without_place(config), "stages": [row._asdict() for row in rows]}
        path.write_text(json.dumps(kept, indent=1) + "\n")
    if given.json:
        print(json.dumps([row._asdict() for row in [*rows, whole]], indent=1))
    else:
        print(as_text([*rows, whole], units.extent_of_whole(config, samples[-1]).documents))
        print(money(whole, given.core_price, given.gpu_price))
    check_disk(config, whole.bytes)
    return 0


def sampled(config: Config, root: Path, given: argparse.Namespace) -> list[Run]:
    """The chains on samples, the smallest first, the largest last.

    One in the middle asks more, of the papers that retrieve alone: what a question costs is told
    apart from what it costs by the document.
    """
    from espalier.collections import access
    from espalier.planning import sampling

    papers = [paper for paper in config["papers"] if paper != "best"]
    passages = config["collections"]["passages"]
    whole = sum(1 for _ in access.docs(passages["docs"])) if papers else given.documents
    whole = min(whole, passages.get("max_docs", whole))
    small, asked, large = sizes(config, given.documents, whole)
    print(f"sample: {small}", file=sys.stderr)
    samples = [sampling.run_compiled(config, root, small, given.cores)]
    if papers:
        print(f"sample: {asked}, of {' and '.join(papers)}", file=sys.stderr)
        samples.append(sampling.run(config, root, asked, given.cores, papers))
    print(f"sample: {large}", file=sys.stderr)
    return [*samples, sampling.run(config, root, large, given.cores)]


def sizes(config: Config, documents: int, whole: int) -> list[Size]:
    """A small sample, that one with more questions, and one of more of everything.

    `whole` is the number of passages in full: a sample retrieves the share of its passages that
    the whole will.
    """
    few = max(documents // 6, 1)
    k_prime = config["colbert"]["retrieval"]["k_prime"]
    shares = [max(round(k_prime * min(count / whole, 1)), 1) for count in (few, documents)]
    many = queries(config)
    some = {role: max(count // 10, 2) for role, count in many.items()}
    return [
        Size(few, MOST_PAGES, 6, some, 2, shares[0]),
        Size(few, MOST_PAGES, 200, some, 2, shares[0]),
        Size(documents, MOST_PAGES, 200, many, 16, shares[1]),
    ]


def queries(config: Config) -> dict[str, int]:
    """Queries of the largest sample on the long documents: fewer for a large ranker."""
    if "best" not in config["papers"]:
        return dict(QUERIES)
    share = min(SMALL_MODEL / segment_operations(config), 1)
    return {role: max(round(count * share), FEWEST[role]) for role, count in QUERIES.items()}


def segment_operations(config: Config) -> float:
    """Floating-point operations of the ranker on a longest segment: 2 for each weight and token.

    A layer of width h has 12 h² weights.
    """
    from transformers import AutoConfig

    from espalier.models.locate import locate

    shape = AutoConfig.from_pretrained(locate(config["models"]["ranker"]))
    weights = 12 * shape.num_hidden_layers * shape.hidden_size**2
    return float(2 * weights * config["best"]["segments"]["max_length"])


def speed_of(config: Config, tflops: float) -> "Speed":
    """How fast this machine is."""
    from espalier.planning import estimate

    dimensions = config["colbert"]["encoder"]["dimensions"]
    return estimate.Speed(estimate.core_speed(), tflops * 1e12, estimate.distance_speed(dimensions))


def compare(config: Config, given: argparse.Namespace) -> int:
    """Print the last estimate beside what the finished run took, by stage.

    EspalierError when there is no estimate, it was made for other settings, or nothing has run.
    """
    from espalier.planning import estimate, sampling

    path = configuration.experiment_folder(config) / PLANNED
    if not path.is_file():
        raise EspalierError(f"{path}: no estimate yet; run 'espalier plan' without --against first")
    kept = json.loads(path.read_text())
    if kept["config"] != without_place(config):
        raise EspalierError(f"{path}: made for another config; run 'espalier plan' again")
    rows = [estimate.Estimate(**row) for row in kept["stages"]]
    run = sampling.read(config)
    recorded = {stage.stage: stage for stage in estimate.taken(run)}
    known = [row for row in rows if row.stage in recorded]
    pairs = [(row, recorded[row.stage]) for row in known]
    pairs.append((estimate.total(known), estimate.total([found for _, found in pairs])))
    missing = sorted(recorded.keys() - {row.stage for row in rows})
    if given.json:
        told = [{"estimate": e._asdict(), "actual": a._asdict()} for e, a in pairs]
        print(json.dumps(told, indent=1))
    else:
        print(compared(pairs))
        for stage in missing:
            print(f"not estimated: {stage}")
    return 0


def without_place(config: Config) -> dict[str, Any]:
    """The config but for where results go."""
    return {key: value for key, value in config.items() if key != "results"}


def check_disk(config: Config, needed: float) -> None:
    """EspalierError when the results will not fit."""
    folder = Path(config["results"])
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EspalierError(
            f"{folder}: the results need {needed / GIB:.2f} GiB and the disk has {free / GIB:.2f} "
            "GiB free; free some space or set the config key 'results' to a larger disk"
        )


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
            f"{row.stage:24}{row.jobs or '':>6}{row.bytes / GIB:>11.3f}{row.memory / GIB:>12.2f}"
            f"{row.core_hours:>12.3f}{gpu}".rstrip()
        )
    return "\n".join(lines)


def money(whole: "Estimate", core_price: float, gpu_price: float) -> str:
    """What all of it costs, on cores alone and with models on GPUs, with the sums behind it."""
    cores = whole.core_hours * core_price
    both = whole.left_hours * core_price + whole.gpu_hours * gpu_price
    return (
        f"on cores alone: {cores:.2f} = {whole.core_hours:.3f} core-hours at {core_price:g}\n"
        f"models on GPUs: {both:.2f} = {whole.left_hours:.3f} core-hours at {core_price:g} "
        f"+ {whole.gpu_hours:.4f} GPU-hours at {gpu_price:g}"
    )


def compared(pairs: Sequence[tuple["Estimate", "Estimate"]]) -> str:
    """Estimate, actual and their ratio for disk, memory and core-hours; the sum last."""
    three = f"{'estimate':>10}{'actual':>9}{'ratio':>7}"
    lines = [
        f"{'':24}{'disk MiB':>26}{'memory MiB':>26}{'core-seconds':>26}",
        f"{'stage':24}{three}{three}{three}",
    ]
    for planned, actual in pairs:
        line = f"{planned.stage:24}"
        for name, unit in (("bytes", 2**20), ("memory", 2**20), ("core_hours", 1 / 3600)):
            told, found = (getattr(row, name) / unit for row in (planned, actual))
            ratio = f"{told / found:.2f}" if found else "-"
            line += f"{told:>10.1f}{found:>9.1f}{ratio:>7}"
        lines.append(line)
    return "\n".join(lines)
