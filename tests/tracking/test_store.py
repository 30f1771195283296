"""The whole track step on a made-up results folder, into a local store."""

import json
import shutil
from pathlib import Path

import mlflow
import pytest
import yaml

from espalier.files import sha256_of
from tests.tracking.stores import active_runs, copied, model_versions, shown, track


@pytest.fixture(scope="module")
def tracked(made, tmp_path_factory, empty_store):
    """Experiment folder and client of a store in the results folder, tracked once."""
    results = tmp_path_factory.mktemp("tracked")
    shutil.copy(empty_store, results)
    folder = copied(made, results / "local")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        track(folder)
    return folder, mlflow.MlflowClient(tracking_uri=f"sqlite:///{results}/mlflow.db")


@pytest.fixture
def local(made, tmp_path, empty_store, monkeypatch):
    """The same, for a test that changes it; not yet tracked."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_store, tmp_path)
    folder = copied(made, tmp_path / "local")
    return folder, mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")


def test_a_system_carries_all_that_it_comes_from(tracked):
    folder, client = tracked
    counts = json.loads((folder / "tracked.json").read_text())
    runs = {run.info.run_name: run for run in active_runs(client, "local")}
    assert counts == {"added": len(runs), "replaced": 0, "kept": 0, "removed": 0}

    run = runs["colbert icf-p03"]
    assert run.data.tags["paper"] == "colbert"
    assert run.data.tags["system"] == "icf-p03"
    assert run.data.tags["collection"] == "made-up/docs/test"
    assert run.data.tags["scale"] == "60 documents, 39 queries"
    assert "reproduced" in run.data.tags["verdict"] or "not tested" in run.data.tags["verdict"]
    summary = json.loads((folder / "evaluation" / "colbert.summary.json").read_text())
    assert run.data.metrics["quality/nDCG_10"] == round(summary["systems"]["icf-p03"]["nDCG@10"], 4)
    assert run.data.metrics["cost/total_ms_mean"] > 0
    assert run.data.params["name"] == "made up"
    assert run.data.tags["mlflow.note.content"].startswith("**")

    place = Path(client.download_artifacts(run.info.run_id, ""))
    assert sha256_of(place / "icf-p03.run.gz") == sha256_of(
        folder / "colbert" / "runs" / "icf-p03.run.gz"
    )
    assert (place / "icf-p03.run.gz.ir_metadata.yaml").exists()
    assert (place / "per_query.csv").read_text().startswith("query_id,nDCG@10,RR@10,AP,P@1")
    assert len((place / "per_query.csv").read_text().splitlines()) == 1 + 39
    config = yaml.safe_load((place / "config.yaml").read_text())
    assert list(config) == ["collections-snapshot-passages", "colbert-train", "colbert-sweep"]
    ledger = {row["id"]: row for row in json.loads((folder / "claims.json").read_text())}
    rows = json.loads((place / "claims.json").read_text())
    assert "pruning-icf-p3-quality" in {row["id"] for row in rows}
    assert all(row == ledger[row["id"]] for row in rows)
    figures = {path.name for path in (place / "figures").iterdir()}
    assert {"colbert-figure-3.svg", "colbert-queries-icf-p03.svg"} <= figures
    assert all(name.startswith("colbert-") for name in figures)

    (dataset,) = run.inputs.dataset_inputs
    digest = sha256_of(folder / "collection" / "passages")
    assert dataset.dataset.name == "made-up/docs/test"
    assert dataset.dataset.digest == digest[:32]
    assert json.loads(dataset.dataset.source)["sha256"] == digest
    assert (dataset.tags[0].key, dataset.tags[0].value) == ("mlflow.data.context", "evaluation")


def test_models_are_registered_by_path_and_digest(local):
    folder, client = local
    track(folder, ["best"])
    (version,) = client.search_model_versions("name = 'local.colbert.model'")
    assert version.tags["path"] == "colbert/model"
    assert version.tags["sha256"] == sha256_of(folder / "colbert" / "model")
    record = folder / "records" / "colbert-train.json"
    record.write_text(record.read_text().replace(version.tags["sha256"], "0" * 64))
    assert track(folder, ["best"])["replaced"] == 1
    assert model_versions(client, "local") == {("local.colbert.model", "0" * 64): 1}


def test_the_experiment_opens_on_the_verdict(tracked):
    folder, client = tracked
    experiment = client.get_experiment_by_name("espalier/local")
    first, *_ = active_runs(client, "local")
    rows = json.loads((folder / "claims.json").read_text())
    reproduced = sum(row["verdict"] == "reproduced" for row in rows)
    note = experiment.tags["mlflow.note.content"]
    assert note.startswith(f"{reproduced} reproduced, ")
    assert len(note) <= 20_000
    link = f"(#/experiments/{experiment.experiment_id}/runs?viewStateShareKey=systems&"
    assert link in note
    assert first.info.run_name.startswith("verdicts: ")
    view = json.loads(experiment.tags["mlflow.sharedViewState.systems"])
    assert view["name"] == "Systems: quality and cost"
    state = json.loads(view["state"])
    assert "metrics.`quality/nDCG_10`" in state["selectedColumns"]
    found = client.search_runs([experiment.experiment_id], state["searchFilter"])
    assert {run.data.tags["kind"] for run in found} == {"system"}


def test_a_store_that_takes_no_views_is_no_worse(local, monkeypatch, caplog):
    folder, client = local
    whole = mlflow.MlflowClient.set_experiment_tag

    def refusing(self, experiment_id, key, value):
        if key.startswith("mlflow.sharedViewState."):
            raise mlflow.MlflowException("no such tag here")
        whole(self, experiment_id, key, value)

    monkeypatch.setattr(mlflow.MlflowClient, "set_experiment_tag", refusing)
    assert track(folder, ["best"])["added"] == len(active_runs(client, "local"))
    assert "no such tag here" in caplog.text


def test_a_store_is_made_again_from_the_files_alone(local, tmp_path, empty_store):
    folder, client = local
    track(folder, ["best"])
    copy = copied(folder, tmp_path / "again" / "local")  # the store lies outside it
    shutil.copy(empty_store, copy.parent)
    (copy / "tracked.json").unlink()
    track(copy, ["best"])
    again = mlflow.MlflowClient(tracking_uri=f"sqlite:///{copy.parent}/mlflow.db")
    assert shown(again, "local") == shown(client, "local")
    assert model_versions(again, "local") == model_versions(client, "local")
