"""`espalier run`: the chain for one config, guarded, with the last lines saying where to look.

Two chains never work in one results folder: the first holds a lock that the system drops when
its process ends, however it ends, so a killed run leaves nothing to unlock.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from espalier import config as configuration
from espalier import files
from espalier.errors import EspalierError
from espalier.tracking import records

PREFIX = "espalier: error: "
"""How a line begins that says what went wrong and what to do."""

FAILED_ON = 3
"""Exit status of `espalier claims` when a claim has a verdict that it was told to fail on."""

DEFAULT_PROFILE = "default"
"""Of workflow/profiles: this machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espalier run` and `espalier claims`."""
    parser.add_argument("--config", action="append", type=Path, default=[], help="overlay file")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Declare where the chain runs."""
    parser.add_argument(
        "--profile",
        default=DEFAULT_PROFILE,
        help="where it runs: a folder of workflow/profiles (default: this machine)",
    )


def project_root() -> Path:
    """The checkout that holds the Snakefile: where the command is run."""
    root = Path.cwd()
    if not (root / "Snakefile").is_file():
        raise EspalierError(f"{root}: no Snakefile here; change to the project's folder")
    return root


def run(overlays: list[Path], cores: str, extra: list[str], profile: str = DEFAULT_PROFILE) -> int:
    """Check the config, run Snakemake, say where to look; Snakemake's exit status.

    `cores` are this machine's; on a cluster the profile says how many jobs run at once.
    """
    root = project_root()
    config = configuration.load(root, overlays)
    configuration.check(config, root)
    folder = configuration.experiment_folder(config)
    command = [sys.executable, "-m", "snakemake", "--nolock", "--logger", "espalier"]
    command += ["--workflow-profile", str(profile_folder(root, profile))]
    if profile == DEFAULT_PROFILE:
        command += ["--cores", cores]
    command += extra
    if overlays:
        command += ["--configfile", *map(str, overlays)]
    started = time.time()
    try:
        with files.locked(folder / ".lock", wait=False):
            forget_lost_outputs(folder)
            status = subprocess.run(command, check=False, cwd=root, env=environment()).returncode
    except BlockingIOError as error:
        raise EspalierError(
            f"{folder}: another chain is working there; wait for it, "
            "or set the config key 'experiment' to another name"
        ) from error
    if status:
        found = causes(folder / "logs", started)
        if not found and shutil.disk_usage(folder).free < files.FULL:
            raise files.disk_full(folder)
        for line in found:
            print(line, file=sys.stderr)
    elif not extra:
        print(where_to_look(folder, Path(config["results"]), overlays))
    return status


def profile_folder(root: Path, name: str) -> Path:
    """The folder of a profile; EspalierError when there is none of that name."""
    profiles = root / "workflow" / "profiles"
    if not (profiles / name / "config.yaml").is_file():
        known = ", ".join(sorted(folder.name for folder in profiles.iterdir()))
        raise EspalierError(f"--profile {name}: not in {profiles}; name one of {known}")
    return profiles / name


def forget_lost_outputs(folder: Path) -> None:
    """Remove the record of a stage whose outputs are missing or of another size: it runs again.

    Snakemake alone would not miss an output as long as everything made from it is there.
    """
    for path in sorted((folder / "records").glob("[!.]*.json")):
        record = records.read(path)
        for file in (file for group in record["outputs"].values() for file in group):
            if Path(file["path"]).is_absolute():  # outside the results folder
                continue
            output = folder / file["path"]
            lost = "truncated or altered" if output.exists() else "missing"
            if not output.exists() or files.size_of(output) != file["bytes"]:
                print(f"{output}: {lost}; '{record['stage']}' runs again", file=sys.stderr)
                path.unlink(missing_ok=True)


def causes(logs: Path, since: float) -> list[str]:
    """The errors that stages have logged since a moment: what ends a run that failed."""
    paths = [path for path in logs.glob("*.log") if path.stat().st_mtime >= since]
    lines = [line for path in sorted(paths) for line in path.read_text().splitlines()]
    return list(dict.fromkeys(PREFIX + line.split(PREFIX)[1] for line in lines if PREFIX in line))


def environment() -> dict[str, str]:
    """The environment of Snakemake: rules find the `espalier` that stands beside this Python."""
    beside = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")])}


def pages(overlays: list[Path], cores: str) -> int:
    """Bring the report up to date, build Snakemake's own beside it, print both paths."""
    config = configuration.load(project_root(), overlays)
    folder = configuration.experiment_folder(config)
    snakemake_report = folder / "snakemake-report.html"
    status = run(overlays, cores, ["--until", "report"])
    status = status or run(overlays, cores, ["--report", str(snakemake_report)])
    if status == 0:
        print(folder / "report" / "index.html")
        print(snakemake_report)
    return status


def serve(overlays: list[Path], port: int) -> int:
    """Serve the MLflow store on 127.0.0.1 until interrupted; a deleted store is made again."""
    config = configuration.load(project_root(), overlays)
    store = Path(config["results"]).resolve() / "mlflow.db"
    tracked = configuration.experiment_folder(config) / "tracked.json"
    if not tracked.is_file():
        raise EspalierError(f"{tracked.parent}: nothing tracked yet; run 'make reproduce' first")
    if not store.is_file():
        status = run(overlays, "all", ["--forcerun", "track"])
        if status:
            return status
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{store}"]
    print(f"MLflow: http://127.0.0.1:{port} (Ctrl-C ends it)", file=sys.stderr)
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0


def where_to_look(folder: Path, results: Path, overlays: list[Path]) -> str:
    """The lines that end a successful run."""
    config = f" CONFIG={overlays[-1]}" if overlays else ""
    return "\n".join(
        [
            "",
            (folder / "claims.txt").read_text().rstrip(),
            "",
            f"Report   {folder / 'report' / 'index.html'}",
            f"MLflow   make mlflow{config}   (store: {results / 'mlflow.db'})",
            f"Ledger   {folder / 'claims.json'}",
        ]
    )


def claims(overlays: list[Path], form: str, fail_on: Sequence[str]) -> int:
    """Print the ledger of a finished run, as JSON or text; the exit status.

    That is `FAILED_ON` when a claim has one of the verdicts in `fail_on`: such claims are named on
    standard error.
    """
    from espalier.evaluation import ledger
    from espalier.evaluation.findings import VERDICTS

    for verdict in fail_on:
        if verdict not in VERDICTS:
            known = ", ".join(f"'{known}'" for known in VERDICTS)
            raise EspalierError(f"--fail-on '{verdict}' is no verdict; there are {known}")
    folder = configuration.experiment_folder(configuration.load(project_root(), overlays))
    path = folder / "claims.json"
    if not path.is_file():
        raise EspalierError(f"{path}: no ledger yet; run 'make reproduce' (or 'make smoke') first")
    rows = json.loads(path.read_text())
    print(ledger.as_json(rows) if form == "json" else ledger.as_text(rows), end="")
    failed = [row for row in rows if row["verdict"] in fail_on]
    for row in failed:
        print(f"{row['id']}: {row['verdict']}: {row['why']}", file=sys.stderr)
    return FAILED_ON if failed else 0
