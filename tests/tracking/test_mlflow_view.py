"""Against a real MLflow store (SQLite)."""

import json
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from espalier.tracking import entries
from espalier.tracking.mlflow_view import Entry, metric_name, settings_as_params, synchronise


@pytest.fixture(scope="module")
def template_store(tmp_path_factory):
    """An empty store: making one takes seconds, copying it none."""
    folder = tmp_path_factory.mktemp("store")
    synchronise(folder, "other", "", [])
    return folder / "mlflow.db"


@pytest.fixture
def results(tmp_path, template_store, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.db").write_bytes(template_store.read_bytes())
    return tmp_path


def stored(results):
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{results}/mlflow.db")
    experiment = client.get_experiment_by_name("espalier/x")
    return client, experiment, client.search_runs([experiment.experiment_id])


def entry(name, value=1.0, **more):
    return Entry(name=name, source="s", started=10.0, seconds=2.0, metrics={"a/b": value}, **more)


def test_a_second_time_adds_nothing_and_a_change_replaces(results):
    wanted = [entry("one"), entry("two")]
    assert synchronise(results, "espalier/x", "d", wanted)["added"] == 2
    assert synchronise(results, "espalier/x", "d", wanted) == {
        "added": 0, "replaced": 0, "kept": 2, "removed": 0,
    }  # fmt: skip
    counts = synchronise(results, "espalier/x", "d", [entry("one", 3.0)])
    assert counts == {"added": 0, "replaced": 1, "kept": 0, "removed": 1}
    _, _, (run,) = stored(results)
    assert run.data.metrics == {"a/b": 3.0}
    assert run.info.run_name == "one"


def test_an_interrupted_run_is_made_again(results):
    synchronise(results, "espalier/x", "d", [entry("one")])
    client, experiment, (run,) = stored(results)
    client.delete_run(run.info.run_id)
    client.create_run(experiment.experiment_id, tags={"espalier.key": "one"})
    assert synchronise(results, "espalier/x", "d", [entry("one")])["replaced"] == 1
    _, _, (run,) = stored(results)
    assert run.info.status == "FINISHED"


def test_series_artifacts_and_description(results):
    artifact = results / "note.txt"
    artifact.write_text("hello")
    series = {"quality/AP": [(1, 0.1), (2, 0.25)]}
    synchronise(
        results, "espalier/x", "first line", [entry("s", series=series, artifacts=(artifact,))]
    )
    client, experiment, (run,) = stored(results)
    history = client.get_metric_history(run.info.run_id, "quality/AP")
    assert sorted((m.step, m.value) for m in history) == [(1, 0.1), (2, 0.25)]
    assert [a.path for a in client.list_artifacts(run.info.run_id)] == ["note.txt"]
    assert experiment.tags["mlflow.note.content"] == "first line"


def test_names_and_params():
    assert metric_name("AP(rel=2)@100") == "AP_rel_2__100"
    assert settings_as_params({"a": {"p": 3, "on": True, "l": [1]}, "x-*": 0.5}) == {
        "a.p": "0003", "a.on": "True", "a.l": "[1]", "x-_": "0.5",
    }  # fmt: skip


def test_systems_sweeps_and_costs():
    counts = pd.DataFrame(
        {"system": ["icf-p01", "icf-p01", "icf-p02"], "query_id": ["1", "2", "1"],
         "documents_retrieved": [10, 20, 40]}
    )  # fmt: skip
    latency = pd.DataFrame(
        {"system": ["icf-p02"] * 2, "query_id": ["1", "2"], "total_ns": [1_000_000, 3_000_000]}
    )
    cost = entries.mean_costs(counts, latency)
    assert cost.loc["icf-p01", "documents_retrieved_mean"] == 15.0
    assert cost.loc["icf-p02", "total_ms_mean"] == 2.0
    assert cost.loc["icf-p02", "total_ms_p95"] == pytest.approx(2.9)
    summary = {"systems": {"icf-p01": {"AP": 0.2}, "icf-p02": {"AP": 0.3}, "bm25": {"AP": 0.1}}}
    run_files = {s: Path(f"{s}.run.gz") for s in summary["systems"]}
    found = entries.system_entries("colbert", summary, run_files, cost, 5.0, "c")
    by_name = {e.name: e for e in found}
    # p=1 has no latency: it stands on the curve alone.
    assert set(by_name) == {"colbert icf-p02", "colbert bm25", "colbert sweep of p, icf order"}
    curve = by_name["colbert sweep of p, icf order"].series
    assert curve["quality/AP"] == [(1, 0.2), (2, 0.3)]
    assert curve["cost/documents_retrieved_mean"] == [(1, 15.0), (2, 40.0)]
    assert by_name["colbert icf-p02"].metrics["quality/AP"] == 0.3


def test_the_verdict_leads(tmp_path):
    ledger = tmp_path / "claims.json"
    row = {"claim": "c", "paper": "p", "published": 1, "here": 2.0}
    rows = [{**row, "verdict": "reproduced"}, {**row, "verdict": "not reproduced", "here": None}]
    ledger.write_text(json.dumps(rows))
    entry, description = entries.verdict_entry(ledger, [ledger], 9.0, "vaswani")
    assert entry.name == "verdicts: 1 reproduced, 1 not reproduced"
    assert description.startswith("## 1 reproduced, 1 not reproduced")
    assert entry.metrics["verdicts/not_reproduced"] == 1.0
