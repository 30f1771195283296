"""Against a real MLflow store (SQLite)."""

import json
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from espalier.tracking import entries, mlflow_view
from espalier.tracking.mlflow_view import (
    Data,
    Entry,
    metric_name,
    settings_as_params,
    synchronise,
)
from espalier.tracking.provenance import Chain


@pytest.fixture
def results(tmp_path, empty_store, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
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


def test_a_store_whose_making_was_cut_off_is_not_there(tmp_path, monkeypatch):
    class CutOff:
        def __init__(self, tracking_uri):
            Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
            raise KeyboardInterrupt

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(mlflow_view.mlflow, "MlflowClient", CutOff)
    with pytest.raises(KeyboardInterrupt):
        mlflow_view.make_store(tmp_path)
    assert not list(tmp_path.iterdir())


def test_series_artifacts_and_description(results):
    artifact = results / "note.txt"
    artifact.write_text("hello")
    series = {"quality/AP": [(1, 0.1), (2, 0.25)]}
    synchronise(
        results,
        "espalier/x",
        "first line",
        [entry("s", series=series, artifacts=(("", artifact), ("figures", artifact)))],
    )
    client, experiment, (run,) = stored(results)
    history = client.get_metric_history(run.info.run_id, "quality/AP")
    assert sorted((m.step, m.value) for m in history) == [(1, 0.1), (2, 0.25)]
    assert [a.path for a in client.list_artifacts(run.info.run_id)] == ["figures", "note.txt"]
    assert experiment.tags["mlflow.note.content"] == "first line"


def test_names_and_params():
    assert metric_name("AP(rel=2)@100") == "AP_rel_2__100"
    assert settings_as_params({"a": {"p": 3, "on": True, "l": [1]}, "x-*": 0.5}) == {
        "a.p": "0003", "a.on": "True", "a.l": "[1]", "x-_": "0.5",
    }  # fmt: skip


def test_mean_costs():
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


@pytest.fixture
def sweep(made):
    """Entries of the made-up sweep over p, by name."""
    paper = entries.Paper(
        name="colbert",
        summary={
            "systems": {"icf-p01": {"AP": 0.21234}, "icf-p02": {"AP": 0.3}, "bm25": {"AP": 0.1},
                        "icf-p03": {"AP": 0.4}},
            "collection": {"docs_count": 60, "split": "c/test"}, "queries": {"judged": 39},
        },
        run_files={
            s: [made / "colbert" / "runs" / f"{s}.run.gz"]
            for s in ("icf-p01", "icf-p02", "icf-p03", "bm25")
        },
        cost=pd.DataFrame(
            {"documents_retrieved_mean": [15.0, 40.0], "total_ms_mean": [None, 2.0]},
            index=["icf-p01", "icf-p02"],
        ),
        per_query=pd.DataFrame(columns=["system", "query_id", "measure", "value"]),
        data=Data("c/test", "0" * 64, {}, {"documents": 60}, "evaluation"),
        rows={"icf-p03": [ROW], "icf": [ROW, {**ROW, "verdict": "not reproduced"}]},
    )  # fmt: skip
    return {e.name: e for e in entries.system_entries(paper, Chain(made), 5.0)}


ROW = {"id": "x", "claim": "c", "published": 1, "here": 2.0, "verdict": "reproduced"}


def test_points_of_a_sweep_stand_alone_with_a_latency_or_a_claim(sweep):
    assert set(sweep) == {
        "colbert icf-p02", "colbert icf-p03", "colbert bm25", "colbert sweep of p, icf order",
    }  # fmt: skip
    curve = sweep["colbert sweep of p, icf order"]
    assert curve.series["quality/AP"] == [(1, 0.2123), (2, 0.3), (3, 0.4)]
    assert curve.series["cost/documents_retrieved_mean"] == [(1, 15.0), (2, 40.0)]
    assert curve.tags["verdict"] == "1 reproduced, 1 not reproduced"
    assert sweep["colbert icf-p02"].metrics["quality/AP"] == 0.3
    assert sweep["colbert icf-p02"].tags["verdict"] == "no claim"
    assert sweep["colbert icf-p03"].tags["verdict"] == "1 reproduced"


def test_replicates_have_a_folder_each():
    one, two = Path("0/a.run.gz"), Path("1/a.run.gz")
    assert entries.as_artifacts([one]) == (("", one), ("", Path(f"{one}.ir_metadata.yaml")))
    assert [folder for folder, _ in entries.as_artifacts([one, two])] == [
        "replicate-0", "replicate-0", "replicate-1", "replicate-1",
    ]  # fmt: skip


def test_systems_are_listed_in_the_summarys_order(sweep):
    latest_first = sorted(sweep.values(), key=lambda entry: -entry.started)
    assert [entry.name.split()[1] for entry in latest_first] == [
        "icf-p02", "bm25", "icf-p03", "sweep",
    ]  # fmt: skip


def test_rows_go_to_the_systems_that_their_claims_name():
    claims = [
        {"id": "one", "paper": "p", "here": {"compare": {"system": "gone|a", "baseline": "b-p01"}}},
        {"id": "two", "paper": "p", "here": {"onset": {"systems": "b-p??"}}},
        {"id": "other", "paper": "q", "here": {"compare": {"system": "a"}}},
        {"id": "several", "paper": "p", "here": {"rising": {"systems": ["a", "c"]}}},
    ]
    rows = [{"id": c["id"]} for c in claims]
    found = entries.rows_by_system(claims, rows, "p", ["a", "b-p01", "b-p02", "c"])
    named = {system: [row["id"] for row in about] for system, about in found.items()}
    assert named == {
        "a": ["one", "several"], "b-p01": ["one"], "b": ["two"], "c": ["several"],
    }  # fmt: skip


def test_the_verdict_leads(tmp_path):
    ledger = tmp_path / "claims.json"
    row = {"claim": "c", "paper": "best", "published": 1, "here": 2.0}
    rows = [{**row, "verdict": "reproduced"}, {**row, "verdict": "not reproduced", "here": None}]
    ledger.write_text(json.dumps(rows))
    data = Data("vaswani", "0" * 64, {}, {"documents": 11429}, "evaluation")
    entry, description = entries.verdict_entry(ledger, [ledger], [], 9.0, [data])
    assert entry.name == "verdicts: 1 reproduced, 1 not reproduced"
    lines = description.splitlines()
    assert lines[0] == "1 reproduced, 1 not reproduced"
    assert "`vaswani` (11,429 documents)" in lines[2]
    assert "| BeST: segment selection | 1 | 0 | 1 | 0 |" in lines
    assert "| c | 1 | 2 | **reproduced** |" in lines
    assert entry.metrics["verdicts/not_reproduced"] == 1.0


def test_a_long_description_is_cut_at_a_line_and_says_so():
    text = entries.shortened(["a" * 10, "b" * 10, "c" * 10], 25)
    assert text.splitlines()[:2] == ["a" * 10, "b" * 10]
    assert "claims.txt" in text
    assert "c" * 10 not in text
