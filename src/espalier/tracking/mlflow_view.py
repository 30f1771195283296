"""The MLflow view of an experiment: the only module that knows MLflow.

The store is a view: everything in it comes from files, and it can be deleted and made again. Each
entry becomes one run, known by its key; a run whose content has not changed is left alone, one
whose content has changed is replaced, so running the chain again adds nothing twice.
"""

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from espalier import __version__, files

log = logging.getLogger("espalier")

KEY, DIGEST = "espalier.key", "espalier.digest"
BATCH = 900
"""Metrics in one request; MLflow refuses more than 1,000."""

VIEW_TAG = "mlflow.sharedViewState."
"""Experiment tags under which MLflow's pages keep named views of the runs' table."""

EXPERIMENT_ID = "EXPERIMENT_ID"
"""Stands in a description for the experiment's id, which the store decides."""


@dataclass(frozen=True)
class Data:
    """A collection that a run was trained or measured on."""

    name: str
    digest: str
    """SHA-256 of its snapshot."""
    source: Mapping[str, Any]
    """What finds it again: its ir_datasets ids."""
    profile: Mapping[str, Any]
    """Its sizes."""
    context: str
    """'training' or 'evaluation'."""


@dataclass(frozen=True)
class Model:
    """A trained model, known by path and digest: the store holds no copy."""

    name: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One MLflow run to be: what it is called, what it shows, what it carries."""

    name: str
    """Its readable name, unique in the experiment: also its key."""
    source: str
    """The stage that made it."""
    started: float
    """Seconds since the epoch; MLflow shows the latest first."""
    seconds: float
    note: str = ""
    """Its description, in Markdown."""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Metrics with a step, e.g. quality against p."""
    artifacts: tuple[tuple[str, Path], ...] = ()
    """Files, each with the folder that it gets ('' for none)."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Small files that exist nowhere else, by name."""
    datasets: tuple[Data, ...] = ()
    models: tuple[Model, ...] = ()

    @property
    def digest(self) -> str:
        """Changes when anything that the run would show does."""
        text = repr(
            (
                self.name,
                self.source,
                self.started,
                self.note,
                sorted(self.tags.items()),
                sorted(self.params.items()),
                sorted(self.metrics.items()),
                sorted(self.series.items()),
                [(folder, *digest_of(path)) for folder, path in self.artifacts],
                sorted(self.texts.items()),
                self.datasets,
                self.models,
            )
        )
        return sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class TableView:
    """A named view of the runs' table: which runs, which columns, in which order."""

    key: str
    name: str
    search: str
    """MLflow's filter, e.g. "tags.kind = 'system'"."""
    columns: Mapping[str, int]
    """Width in pixels of each column, e.g. of "metrics.`quality/AP`", "tags.`paper`"."""

    @property
    def query(self) -> str:
        """The part of the page's address that opens it."""
        return f"viewStateShareKey={self.key}&workflowType=machine_learning"

    def state(self, created: float) -> str:
        """What MLflow's page reads: an envelope with the page's own state as text."""
        state = {
            "searchFilter": self.search,
            "orderByKey": "attributes.start_time",
            "orderByAsc": False,
            "selectedColumns": list(self.columns),
            "columnOrder": list(self.columns),
            "columnWidths": dict(self.columns),
        }
        moment = int(created * 1000)
        return json.dumps(
            {
                "name": self.name,
                "createdAt": moment,
                "updatedAt": moment,
                "state": json.dumps(state),
            }
        )


def digest_of(path: Path) -> tuple[str, str]:
    """Name and SHA-256 of a file."""
    return path.name, sha256(path.read_bytes()).hexdigest()


def metric_name(measure: str) -> str:
    """A legal MLflow name of a measure: 'nDCG@10' → 'nDCG_10', 'AP(rel=2)' → 'AP_rel_2'."""
    return "".join(c if c.isalnum() else "_" for c in measure).strip("_")


def store_uri(results: Path) -> str:
    """MLFLOW_TRACKING_URI where it is set, else a SQLite store in the results folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results.resolve()}/mlflow.db"


def make_store(results: Path) -> None:
    """Make the SQLite store, if it is ours and not there: whole, or not at all.

    MLflow cannot open a store whose making was cut off.
    """
    if "MLFLOW_TRACKING_URI" not in os.environ and not (results / "mlflow.db").exists():
        with files.written_whole(results / "mlflow.db") as temporary:
            uri = f"sqlite:///{temporary.resolve()}"
            mlflow.MlflowClient(tracking_uri=uri).search_experiments(max_results=1)


def synchronise(
    results: Path,
    experiment: str,
    description: str,
    entries: Iterable[Entry],
    views: Sequence[TableView] = (),
) -> dict[str, int]:
    """Make the experiment's runs equal to `entries`; how many were added, replaced, kept, removed.

    Not for two processes at once on one store: the caller holds its lock.
    """
    make_store(results)
    client = mlflow.MlflowClient(tracking_uri=store_uri(results))
    experiment_id = experiment_named(client, results, experiment)
    client.set_experiment_tag(
        experiment_id, "mlflow.note.content", description.replace(EXPERIMENT_ID, experiment_id)
    )
    client.set_experiment_tag(experiment_id, "mlflow.experimentKind", "custom_model_development")
    present = runs_by_key(client, experiment_id)
    counts = {"added": 0, "replaced": 0, "kept": 0, "removed": 0}
    wanted = list(entries)
    for entry in wanted:
        old = present.get(entry.name, {})
        if entry.digest in old.values():
            counts["kept"] += 1
            continue
        add(client, experiment_id, entry)
        for run_id in old:
            remove(client, run_id)
        counts["replaced" if old else "added"] += 1
    for key in present.keys() - {entry.name for entry in wanted}:
        for run_id in present[key]:
            remove(client, run_id)
        counts["removed"] += 1
    if wanted:
        name_views(client, experiment_id, views, max(entry.started for entry in wanted))
    return counts


def name_views(
    client: mlflow.MlflowClient, experiment_id: str, views: Sequence[TableView], created: float
) -> None:
    """Offer the views in the page's list; a store that refuses is without them, and no worse."""
    for view in views:
        try:
            client.set_experiment_tag(experiment_id, VIEW_TAG + view.key, view.state(created))
        except MlflowException as error:
            log.warning("MLflow takes no view '%s' of the runs: %s", view.name, error)


def experiment_named(client: mlflow.MlflowClient, results: Path, name: str) -> str:
    """The id of the experiment, made (or brought back from deletion) if need be."""
    found = client.get_experiment_by_name(name)
    if found is None:
        local = "MLFLOW_TRACKING_URI" not in os.environ
        location = (results.resolve() / "mlartifacts" / name).as_uri() if local else None
        return str(client.create_experiment(name, artifact_location=location))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def runs_by_key(client: mlflow.MlflowClient, experiment_id: str) -> dict[str, dict[str, str]]:
    """Key → {run id: digest} of the runs that this module made; unfinished ones have no digest."""
    found: dict[str, dict[str, str]] = {}
    token: str | None = None
    while True:
        page = client.search_runs([experiment_id], max_results=1000, page_token=token)
        for run in page:
            if KEY in run.data.tags:
                digest = run.data.tags.get(DIGEST, "")
                found.setdefault(run.data.tags[KEY], {})[run.info.run_id] = digest
        token = page.token
        if not token:
            return found


def add(client: mlflow.MlflowClient, experiment_id: str, entry: Entry) -> None:
    """Log one run; its digest comes last, so an interrupted one is known and made again."""
    start = int(entry.started * 1000)
    tags = {
        KEY: entry.name,
        "mlflow.source.name": entry.source,
        "mlflow.source.type": "PROJECT",
        "mlflow.note.content": entry.note,
        "espalier.version": __version__,
        **entry.tags,
    }
    run = client.create_run(experiment_id, start_time=start, tags=tags, run_name=entry.name)
    run_id = run.info.run_id
    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0) for name, value in sorted(entry.metrics.items())]
    metrics += [
        Metric(name, value, now, step)
        for name, points in sorted(entry.series.items())
        for step, value in points
    ]
    params = [Param(name, str(value)[:6000]) for name, value in sorted(entry.params.items())]
    for first in range(0, max(len(metrics), 1), BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + BATCH])
    for first in range(0, len(params), 100):
        client.log_batch(run_id, params=params[first : first + 100])
    if entry.datasets:
        client.log_inputs(run_id, datasets=[dataset_input(data) for data in entry.datasets])
    for folder, path in entry.artifacts:
        client.log_artifact(run_id, str(path), folder or None)
    for name, text in entry.texts.items():
        client.log_text(run_id, text, name)
    for model in entry.models:
        register(client, run_id, model)
    client.log_batch(run_id, tags=[RunTag(DIGEST, entry.digest)])
    client.set_terminated(run_id, "FINISHED", end_time=start + int(entry.seconds * 1000))


def remove(client: mlflow.MlflowClient, run_id: str) -> None:
    """Delete a run, and the versions of models that were registered with it."""
    for version in client.search_model_versions(f"run_id = '{run_id}'"):
        client.delete_model_version(version.name, version.version)
        if not client.search_model_versions(f"name = '{version.name}'"):
            client.delete_registered_model(version.name)
    client.delete_run(run_id)


def dataset_input(data: Data) -> DatasetInput:
    """A collection as MLflow lists it; its digests are at most 36 characters long."""
    dataset = Dataset(
        name=data.name,
        digest=data.digest[:32],
        source_type="ir_datasets",
        source=json.dumps({**data.source, "sha256": data.digest}, sort_keys=True),
        profile=json.dumps(data.profile, sort_keys=True),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", data.context)])


def register(client: mlflow.MlflowClient, run_id: str, model: Model) -> None:
    """Register a model: a new version, whose source is a file with its path and digest."""
    pointer = {"path": model.path, "bytes": str(model.bytes), "sha256": model.sha256}
    client.log_text(run_id, json.dumps(pointer, indent=1) + "\n", f"models/{model.name}.json")
    if not client.search_registered_models(f"name = '{model.name}'"):
        client.create_registered_model(model.name)
    client.create_model_version(
        model.name,
        source=f"runs:/{run_id}/models/{model.name}.json",
        run_id=run_id,
        tags=pointer,
        description=f"{model.path}, {model.bytes:,} bytes, sha256 {model.sha256}",
    )


def settings_as_params(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten a stage's settings: {'a': {'b': 7}} → {'a.b': '0007'} (params sort as text)."""
    params: dict[str, str] = {}
    for key, value in settings.items():
        # MLflow takes letters, digits and a few marks; a pattern such as 'trec-dl-*' has others.
        name = prefix + re.sub(r"[^\w\-. :/]", "_", key)
        if isinstance(value, Mapping):
            params.update(settings_as_params(value, f"{name}."))
        elif isinstance(value, int) and not isinstance(value, bool):
            params[name] = f"{value:04d}"
        else:
            params[name] = str(value)
    return params
