"""Running the chain on a sample of its collections, and reading off what each stage cost.

A sample is the experiment's own config with fewer documents, queries and training examples; all
else, models and settings, is as it will be in the real run.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from espalier import config as configuration
from espalier import files
from espalier.best import parts
from espalier.errors import EspalierError
from espalier.tracking import records

Config = Mapping[str, Any]

CANDIDATES = 10
"""Candidates that a sample scores for a query where the experiment scores more."""

LAST = ("claims", "report", "track")
"""Rules that cost the same for any sample."""

TRACKED = "tracking track"
"""The stage that fills MLflow's store."""


@dataclass(frozen=True)
class Size:
    """How large a sample is; the experiment's own numbers where these are smaller."""

    documents: int
    """Passages: what is retrieved from, and trained on."""
    pages: int
    """Long documents."""
    questions: int
    """Test queries on the passages."""
    queries: Mapping[str, int]
    """Queries on the long documents by what they are for (`best.parts.ROLES`)."""
    steps: int
    """Batches that the late-interaction encoder is trained on."""
    k_prime: int
    """Embeddings taken for a query embedding: few enough to retrieve a part of the sample only."""


@dataclass(frozen=True)
class Run:
    """A chain that has run: its config and the record of every stage by its name."""

    config: Config
    records: Mapping[str, Mapping[str, Any]]
    beside: float = 0.0
    """CPU seconds of the chain that no record has: starting jobs, and Snakemake's own."""

    def of_stage(self, stage: str) -> Iterator[Mapping[str, Any]]:
        """The records of one stage's jobs ('colbert encode')."""
        return (record for record in self.records.values() if record["stage"] == stage)

    def metric(self, stage: str, name: str) -> float:
        """A metric, summed over the stage's jobs."""
        return sum(float(record["metrics"][name]) for record in self.of_stage(stage))

    def view(self, name: str) -> Mapping[str, Any]:
        """The counts of one view's snapshot."""
        metrics: Mapping[str, Any] = self.records[f"collections-snapshot-{name}"]["metrics"]
        return metrics


def read(config: Config, beside: float = 0.0) -> Run:
    """The records of an experiment that has run, each with its `name`; EspalierError for none.

    What tracking stores in MLflow's artifacts is added to the outputs of its record.
    """
    folder = configuration.experiment_folder(config) / records.FOLDER
    paths = sorted(folder.glob("[!.]*.json"))
    found = {path.stem: {**records.read(path), "name": path.stem} for path in paths}
    if not found:
        raise EspalierError(f"{folder}: no records; run the chain first")
    stored = Path(config["results"], "mlartifacts", "espalier", config["experiment"])
    for record in found.values():
        if record["stage"] == TRACKED and stored.is_dir():
            copies = [{"path": str(stored), "bytes": files.size_of(stored)}]
            record["outputs"] = {**record["outputs"], "artifacts": copies}
    return Run(config, found, beside)


def overlay(config: Config, size: Size) -> dict[str, Any]:
    """The keys that make a sample of an experiment: one shard, one replicate, one fold."""
    views = {name: view_overlay(config, name, size) for name in configuration.views_of(config)}
    retrieval, latency = config["colbert"]["retrieval"], config["colbert"]["latency"]
    colbert: dict[str, Any] = {
        "latency": {"queries": min(size.questions, latency["queries"])},
        "retrieval": {"k_prime": min(size.k_prime, retrieval["k_prime"])},
        "shards": 1,
    }
    if configuration.trains_encoder(config):
        training = config["colbert"]["training"]
        triples = min(training["triples"], size.steps * training["batch_size"])
        colbert["training"] = {"triples": triples}
    sparse = {
        "latency_queries": min(size.questions, config["sparse"]["latency_queries"]),
        "latency_repeats": 1,
        "shards": 1,
    }
    depths = config["best"]["training"]["dev_depth"], config["best"]["reranking"]["depth"]
    dev, test = (min(depth, CANDIDATES) for depth in depths)
    best = {
        "training": {"epochs": 1, "dev_depth": dev},
        "reranking": {"depth": test},
        "seeds": 1,
        "folds": None,
        "shards": 1,
    }
    return {"collections": views, "colbert": colbert, "sparse": sparse, "best": best}


def view_overlay(config: Config, name: str, size: Size) -> dict[str, Any]:
    """The sizes of one view of a sample; of folds, the first three stand for train, dev, test.

    Where candidates come with the collection, all its documents stay: they name any of them.
    """
    view = configuration.view_of(config, name)
    folds = config["best"]["folds"] if name == "documents" else None
    splits = dict(view["splits"])
    if folds:
        splits = {role: splits[fold] for role, fold in zip(parts.ROLES, folds, strict=False)}
    if name == "documents":
        documents, wanted = size.pages, dict(size.queries)
    else:
        training = config["colbert"]["training"]
        batch = training["batch_size"] if training else 1
        documents, wanted = size.documents, {"test": size.questions, "train": size.steps * batch}
    limits = view.get("max_queries", {})
    found: dict[str, Any] = {
        "splits": {**dict.fromkeys(view["splits"]), **splits},
        "max_queries": {s: min(n, limits.get(s, n)) for s, n in wanted.items() if s in splits},
    }
    if view.get("candidates") != "scoreddocs":
        found["max_docs"] = min(documents, view.get("max_docs", documents))
    return found


def run(
    config: Config, root: Path, size: Size, cores: str, papers: Sequence[str] | None = None
) -> Run:
    """Run the chain of `config` on a sample, in a folder that is removed afterwards.

    The folder is made where the results will be. With `papers` only their part of the chain runs,
    and neither claims nor report. EspalierError when the chain fails.
    """
    results = Path(config["results"]).resolve()
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".plan-", dir=results) as folder:
        chosen: dict[str, Any] = json.loads(json.dumps(config))
        configuration.merge(chosen, overlay(config, size))
        chosen["results"] = folder
        asked = ["--quiet", "all"]
        if papers is not None:
            chosen["papers"] = list(papers)
            asked += ["--omit-from", *LAST]
        path = Path(folder) / "sample.yaml"
        path.write_text(yaml.safe_dump(chosen))
        command = [sys.executable, "-m", "espalier.cli", "run", "--config", str(path)]
        before = children_seconds()
        finished = subprocess.run(
            [*command, "--cores", cores, "--", *asked],
            cwd=root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        spent = children_seconds() - before
        if finished.returncode:
            said = finished.stderr.strip().splitlines() or ["it said nothing"]
            raise EspalierError(f"the sample's chain failed: {said[-1]}")
        found = read(chosen)
        forget_copies(found, config)
    recorded = sum(float(record["cost"]["cpu_seconds"]) for record in found.records.values())
    return Run(found.config, found.records, max(spent - recorded, 0.0))


def forget_copies(sample: Run, config: Config) -> None:
    """Take the copy of a sample's documents out of its snapshots' outputs.

    An experiment on whole collections writes none.
    """
    folder = configuration.experiment_folder(sample.config) / "collection"
    for name in configuration.views_of(sample.config):
        copy = folder / name / "docs.jsonl"
        if copy.exists() and "max_docs" not in config["collections"][name]:
            (file,) = sample.records[f"collections-snapshot-{name}"]["outputs"]["view"]
            file["bytes"] -= copy.stat().st_size


def run_compiled(config: Config, root: Path, size: Size, cores: str) -> Run:
    """As `run`, but again when it had kernels to compile: that is done once, in no later run."""
    before = compiled()
    found = run(config, root, size, cores)
    if not compiled() - before:
        return found
    print("the same again: it had kernels to compile", file=sys.stderr)
    return run(config, root, size, cores)


def children_seconds() -> float:
    """CPU seconds of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compiled() -> set[Path]:
    """The kernels that numba has compiled and kept for the next process."""
    return set(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))
