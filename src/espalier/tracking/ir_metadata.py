"""The ir_metadata beside a run file, completed with what the stage alone knows.

ir_metadata (Breuer, Keller, Schaer, SIGIR 2022) describes a run by platform, research goal,
implementation, method, actor and data; its version 0.2 adds the resources that were used. The code
that writes a run states the method; everything else is the same for all runs of a stage. A
sidecar describes: it tells times and the machine, and is no part of a folder's digest.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from espalier import files
from espalier.tracking import environment, provenance, records

SCHEMA_VERSION = 0.2

PUBLICATIONS: dict[str, dict[str, Any]] = {
    "best": {
        "venue": {"name": "CIKM", "year": 2021},
        "publication": {"arxiv": "https://arxiv.org/abs/2109.04611"},
    },
    "colbert": {
        "venue": {"name": "CIKM", "year": 2021},
        "publication": {"arxiv": "https://arxiv.org/abs/2108.10341"},
    },
    "sparse": {
        "venue": {"name": "SIGIR", "year": 2022},
        "publication": {"arxiv": "https://arxiv.org/abs/2204.11154"},
    },
}
"""Where what each room reproduces was published."""


def complete(
    folders: Iterable[Path],
    *,
    chain: provenance.Chain,
    stage: str,
    command: Sequence[str],
    inputs: Mapping[str, Sequence[Path]],
    cost: Mapping[str, Any],
) -> None:
    """Complete every sidecar below some outputs of a stage that is about to finish.

    `chain` knows the steps before it.
    """
    sidecars = [p for folder in folders for p in sorted(folder.rglob(f"*{files.SIDECAR}"))]
    if not sidecars:
        return
    shared = {
        "schema version": SCHEMA_VERSION,
        "platform": platform(),
        "implementation": {
            "executable": {"cmd": shlex.join(command)},
            "source": {"lang": ["python"], "commit": environment.git_commit()},
        },
        "actor": {"role": "reproducer"},
        "data": data(chain, [p for paths in inputs.values() for p in paths]),
        "resources": resources(cost),
    }
    goal = PUBLICATIONS.get(stage.split(maxsplit=1)[0])
    if goal:
        shared["research goal"] = goal
    for path in sidecars:
        stated = yaml.safe_load(path.read_text())
        method = {"score ties": "by doc_id, ascending", **stated.get("method", {})}
        path.write_text(yaml.safe_dump({**stated, **shared, "method": method}, sort_keys=True))


def platform() -> dict[str, Any]:
    """Hardware, operating system and libraries."""
    machine = environment.machine()
    versions = environment.package_versions()
    return {
        "hardware": {
            "cpu": {
                "model": machine["cpu"],
                "architecture": machine["architecture"],
                "number of cores": machine["cores"],
            },
            "ram": f"{machine['memory_bytes'] / 2**30:.0f} GB",
        },
        "operating system": {
            "kernel": machine["kernel"],
            "distribution": machine["distribution"],
        },
        "software": {
            "libraries": {
                "python": [f"{name}=={v}" for name, v in versions.items() if v != "absent"]
            },
            "retrieval toolkit": [f"espalier=={versions['espalier']}"],
        },
    }


def data(chain: provenance.Chain, inputs: Sequence[Path]) -> dict[str, Any]:
    """The collections behind a stage's inputs: what was searched, what was trained on."""
    steps = chain.behind([records.relative(path, chain.root) for path in inputs])
    found: dict[str, Any] = {}
    for collection in chain.collections(steps):
        about = {"name": collection["docs"], "sha256": collection["docs_sha256"]}
        splits = collection["splits"]
        if "test" in splits:
            found["test collection"] = {**about, "ir_datasets": splits["test"]}
        if "train" in splits:
            entry = {**about, "ir_datasets": splits["train"]}
            found.setdefault("training data", []).append(entry)
    return found


def resources(cost: Mapping[str, Any]) -> dict[str, Any]:
    """Time and memory of the stage, which wrote all runs of its folder."""
    return {
        "runtime": {"wallclock": f"{1000 * cost['wall_seconds']:.0f} ms"},
        "cpu": {
            "used process": f"{1000 * cost['cpu_seconds']:.0f} ms",
            "threads": cost["threads"],
        },
        "ram": {"used process": f"{cost['peak_memory_bytes'] / 1000:.0f} KB"},
    }
