"""Running the chain on a sample of its collections, and reading off what each stage cost.

A sample is the experiment's own config with fewer documents, queries and training examples; all
else, models and settings, is as it will be in the real run.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from espalier import config as configuration
from espalier.errors import EspalierError
from espalier.tracking import records

Config = Mapping[str, Any]

SHARDED = ("colbert", "sparse")
"""Papers whose collection is encoded in shards."""
MOST_SHARDS = 1
"""Shards of a sample: all are alike."""


@dataclass(frozen=True)
class Size:
    """How large a sample is."""

    documents: int
    """Documents of each collection."""
    queries: int
    """Test queries; training sees twice as many, dev half as many."""
    steps: int
    """Batches that the late-interaction encoder is trained on."""
    k_prime: int
    """Embeddings taken for a query embedding: few enough to retrieve a part of the sample only."""


@dataclass(frozen=True)
class Run:
    """A chain that has run: its config and the record of every stage by its name."""

    config: Config
    records: Mapping[str, Mapping[str, Any]]

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


def read(config: Config) -> Run:
    """The records of an experiment that has run, each with its `name`; EspalierError for none."""
    folder = configuration.experiment_folder(config) / "records"
    paths = sorted(folder.glob("[!.]*.json"))
    found = {path.stem: {**records.read(path), "name": path.stem} for path in paths}
    if not found:
        raise EspalierError(f"{folder}: no records; run the chain first")
    return Run(config, found)


def overlay(config: Config, size: Size) -> dict[str, Any]:
    """The keys that make a sample of an experiment."""
    views: dict[str, Any] = {}
    wanted = {"train": 2 * size.queries, "dev": max(size.queries // 2, 1), "test": size.queries}
    for name in configuration.views_of(config):
        limits = config["collections"][name].get("max_queries", {})
        views[name] = {
            "max_docs": size.documents,
            "max_queries": {
                split: min(count, limits.get(split, count))
                for split, count in wanted.items()
                if split in config["collections"][name]["splits"]
            },
        }
    shards = {paper: min(config[paper]["shards"], MOST_SHARDS) for paper in SHARDED}
    colbert: dict[str, Any] = {
        "latency": {"queries": size.queries},
        "retrieval": {"k_prime": size.k_prime},
        "shards": shards["colbert"],
    }
    if configuration.trains_encoder(config):
        training = config["colbert"]["training"]
        triples = min(training["triples"], size.steps * training["batch_size"])
        colbert["training"] = {"triples": triples}
    return {
        "collections": views,
        "colbert": colbert,
        "sparse": {
            "latency_queries": size.queries,
            "latency_repeats": 1,
            "shards": shards["sparse"],
        },
    }


def run(config: Config, root: Path, size: Size, cores: str) -> Run:
    """Run the chain of `config` on a sample, in a folder that is removed afterwards.

    The folder is made where the results will be. EspalierError when the chain fails.
    """
    results = Path(config["results"]).resolve()
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".plan-", dir=results) as folder:
        chosen: dict[str, Any] = json.loads(json.dumps(config))
        configuration.merge(chosen, overlay(config, size))
        chosen["results"] = folder
        path = Path(folder) / "sample.yaml"
        path.write_text(yaml.safe_dump(chosen))
        command = [sys.executable, "-m", "espalier.cli", "run", "--config", str(path)]
        finished = subprocess.run(
            [*command, "--cores", cores, "--", "--quiet", "all"],
            cwd=root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if finished.returncode:
            said = finished.stderr.strip().splitlines() or ["it said nothing"]
            raise EspalierError(f"the sample's chain failed: {said[-1]}")
        return read(chosen)
