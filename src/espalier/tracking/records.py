"""Records: one JSON file per stage that ran, the single source of MLflow, report and `explain`.

Paths in a record are relative to the results folder that it stands in, so that the folder can be
moved; what lies outside that folder keeps the name under which the stage was given it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espalier import files
from espalier.errors import EspalierError
from espalier.tracking import environment

FORMAT = 2
"""Version of the record's layout; a reader refuses any other."""

FOLDER = "records"
"""Where the records stand in a results folder."""


def root_of(record: Path) -> Path:
    """The results folder of a record: the folder that its `records` folder stands in."""
    return record.parent.parent if record.parent.name == FOLDER else record.parent


def write(
    path: Path,
    *,
    stage: str,
    command: Sequence[str],
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
    root = root_of(path)
    record = {
        "format": FORMAT,
        "stage": stage,
        "settings": dict(settings),
        "metrics": dict(metrics),
        "inputs": {name: list(found) for name, found in inputs.items()},
        "outputs": {n: [describe(p, root) for p in paths] for n, paths in outputs.items()},
        "cost": dict(cost),
        "command": list(command),
        "packages": environment.package_versions(),
        "commit": environment.git_commit(),
        "machine": environment.machine(),
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
        raise EspalierError(
            f"{path}: not a record of format {FORMAT}, but another version's; "
            f"delete {path.parent} and run again"
        )
    return record


def describe(path: Path, root: Path) -> dict[str, Any]:
    """Path (relative to `root` if it lies there), size in bytes and SHA-256 of a file or folder."""
    return {
        "path": relative(path, root),
        "bytes": files.size_of(path),
        "sha256": files.sha256_of(path),
    }


def relative(path: Path, root: Path) -> str:
    """A path below `root` as seen from there; any other as it was given."""
    inside = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links out of root
    top = Path(os.path.abspath(root))  # noqa: PTH100
    return inside.relative_to(top).as_posix() if inside.is_relative_to(top) else str(path)


def described(
    inputs: Mapping[str, Sequence[Path]], record: Path
) -> dict[str, list[dict[str, Any]]]:
    """Describe a stage's inputs; EspalierError for one that is not as it was written.

    What a stage of the chain wrote is known by the record that it left beside `record`.
    """
    root = root_of(record)
    written: dict[str, Mapping[str, Any]] = {}
    left = [read(p) for p in record.parent.glob("*.json") if not p.name.startswith(".")]
    for one in sorted(left, key=lambda one: one["cost"]["started"]):
        written |= {file["path"]: file for group in one["outputs"].values() for file in group}
    found = {name: [describe(path, root) for path in paths] for name, paths in inputs.items()}
    for file in (file for group in found.values() for file in group):
        if file["sha256"] != written.get(file["path"], file)["sha256"]:
            raise EspalierError(
                f"{root / file['path']}: truncated or altered since it was written "
                f"({written[file['path']]['bytes']} bytes then, {file['bytes']} now); "
                "delete it and run again"
            )
    return found
