"""A chain in a results folder of its own, and what its results are compared by."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from espalier.files import SIDECAR, sha256_of

ROOT = Path(__file__).resolve().parents[2]
ESPALIER = [sys.executable, "-m", "espalier.cli"]

TIMED = ("records", "logs", "benchmarks", "report")
"""Folders whose content a clock decides."""
TIMED_FILES = ("latency", ".", "claims", "tracked")
"""How the names of other such files begin; verdicts on speed are in the ledger."""
TIMED_ENDS = ("latencies.parquet", SIDECAR)
TIMED_RECORDS = ("evaluation-claims", "evaluation-latencies", "report-", "tracking-")
"""Stages whose metrics follow from those files."""


@dataclass(frozen=True)
class Chain:
    """The smoke chain with its results below `folder`, and keys of the config that differ."""

    folder: Path
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """Where the results are."""
        return self.folder / "results" / "smoke"

    def overlays(self) -> list[Path]:
        """The config files, the last of which is written here."""
        path = self.folder / "overlay.yaml"
        text = yaml.safe_dump({"results": str(self.folder / "results"), **self.changes})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return [ROOT / "config" / "smoke.yaml", path]

    def command(self, *extra: str) -> list[str]:
        """The command line that runs it."""
        options = [f"--config={path}" for path in self.overlays()]
        return [*ESPALIER, "run", *options, *(["--", *extra] if extra else [])]

    def run(self, *extra: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*extra), cwd=ROOT, capture_output=True, text=True, check=False
        )

    def start(self, **options: Any) -> subprocess.Popen[str]:
        """Start it as the leader of a process group of its own."""
        return subprocess.Popen(
            self.command(), cwd=ROOT, start_new_session=True, text=True, **options
        )

    def record(self, name: str) -> Path:
        """The record of one stage."""
        return self.results / "records" / f"{name}.json"


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a process and all of its group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def contents(results: Path) -> dict[str, Any]:
    """All that depends on config and data alone.

    The digest of every such file; of every record the metrics, and the digests of what the stage
    read and wrote.
    """
    found: dict[str, Any] = {}
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        name = path.relative_to(results)
        if is_settled(name):
            found[name.as_posix()] = sha256_of(path)
    for path in sorted((results / "records").glob("[!.]*.json")):
        record = json.loads(path.read_text())
        timed = path.name.startswith(TIMED_RECORDS)
        found[f"record {path.stem}"] = {
            "metrics": None if timed else record["metrics"],
            "files": {
                file["path"]: file["sha256"]
                for side in ("inputs", "outputs")
                for group in record[side].values()
                for file in group
                if is_settled(Path(file["path"]))
            },
        }
    return found


def is_settled(name: Path) -> bool:
    """Whether a file or folder of the results depends on config and data alone."""
    timed = name.parts[0] in TIMED or name.name.startswith(TIMED_FILES)
    return not (name.is_absolute() or timed or name.name.endswith(TIMED_ENDS))


def leftovers(results: Path) -> list[str]:
    """Files under temporary names and states of training, which no finished chain leaves behind."""
    found = [*results.rglob(".tmp.*"), *results.rglob(".*.checkpoint")]
    return sorted(path.relative_to(results).as_posix() for path in found)


def differences(reference: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Names of results that are lost, new or different."""
    return sorted(
        name for name in reference.keys() | found.keys() if reference.get(name) != found.get(name)
    )
