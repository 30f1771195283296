"""Records: one JSON file per stage that ran, the single source of MLflow, report and `explain`."""

import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from espalier import __version__, files
from espalier.errors import EspalierError

FORMAT = 1
"""Version of the record's layout; a reader refuses any other."""

RECORDED_PACKAGES = (
    "snakemake", "torch", "transformers", "faiss-cpu", "numba", "numpy", "scipy", "pandas",
    "ir-datasets", "ir-measures", "bm25s", "mlflow",
)  # fmt: skip
"""Packages that can change a result."""


def write(
    path: Path,
    *,
    stage: str,
    settings: Mapping[str, Any],
    inputs: Mapping[str, Sequence[Mapping[str, Any]]],
    outputs: Mapping[str, Sequence[Path]],
    metrics: Mapping[str, Any],
    cost: Mapping[str, Any],
) -> None:
    """Write the record of one finished stage.

    `metrics` maps names to numbers that depend on the data alone; everything that a clock or a
    machine decides is in `cost` (seconds, bytes) and `machine`. `inputs` are as `described`.
    """
    record = {
        "format": FORMAT,
        "stage": stage,
        "settings": dict(settings),
        "metrics": dict(metrics),
        "inputs": {name: list(found) for name, found in inputs.items()},
        "outputs": {name: [describe(p) for p in paths] for name, paths in outputs.items()},
        "cost": dict(cost),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "packages": package_versions(),
        "commit": git_commit(),
        "machine": {"python": platform.python_version(), "platform": platform.platform()},
    }
    with files.written_whole(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Read a record; EspalierError when it is not one of this version."""
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise EspalierError(f"{path}: not a record ({error}); delete it and run again") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise EspalierError(f"{path}: not a record of format {FORMAT}; delete it and run again")
    return record


def describe(path: Path) -> dict[str, Any]:
    """Path, size in bytes and SHA-256 of a file or folder."""
    return {"path": str(path), "bytes": files.size_of(path), "sha256": files.sha256_of(path)}


def described(
    inputs: Mapping[str, Sequence[Path]], folder: Path
) -> dict[str, list[dict[str, Any]]]:
    """Describe a stage's inputs; EspalierError for one that is not as it was written.

    What a stage of the chain wrote is known by the record that it left in `folder`.
    """
    written: dict[str, Mapping[str, Any]] = {}
    records = [read(path) for path in folder.glob("*.json") if not path.name.startswith(".")]
    for record in sorted(records, key=lambda record: record["cost"]["started"]):
        written |= {file["path"]: file for group in record["outputs"].values() for file in group}
    found = {name: [describe(path) for path in paths] for name, paths in inputs.items()}
    for file in (file for group in found.values() for file in group):
        if file["sha256"] != written.get(file["path"], file)["sha256"]:
            raise EspalierError(
                f"{file['path']}: truncated or altered since it was written "
                f"({written[file['path']]['bytes']} bytes then, {file['bytes']} now); "
                "delete it and run again"
            )
    return found


@cache
def package_versions() -> dict[str, str]:
    """Versions of the packages that can change a result, and of Espalier."""
    versions = {"espalier": __version__}
    for name in RECORDED_PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


@cache
def git_commit() -> str:
    """The commit of the working tree, with '-dirty' when it was edited; 'unknown' outside git."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"
