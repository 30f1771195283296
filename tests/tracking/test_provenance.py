"""`espalier explain` on a small chain that the stages themselves made."""

import argparse
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from espalier import cli, files
from espalier.errors import EspalierError
from espalier.evaluation import runs
from espalier.stage import Room
from espalier.tracking import provenance

ROOM = Room("colbert")


@ROOM.stage(outputs=("view",))
def snapshot(job):
    """A view of a made-up collection."""
    job.out("view").mkdir()
    manifest = {
        "docs": "made-up", "docs_count": 3, "docs_sha256": "ab" * 32,
        "splits": {"test": {"id": "made-up/test"}, "train": {"id": "made-up/train"}},
    }  # fmt: skip
    (job.out("view") / "manifest.json").write_text(json.dumps(manifest))


@ROOM.stage(inputs=("view", "notes?"), outputs=("model",))
def train(job):
    """A model."""
    job.out("model").write_text("weights")


@ROOM.stage(inputs=("model",), outputs=("runs", "counts"))
def sweep(job):
    """Two runs."""
    frame = pd.DataFrame({"query_id": ["q"] * 2, "doc_id": ["a", "b"], "score": [2.0, 1.0]})
    for system in ("one", "two"):
        method = {"automatic": True, "retrieval": [{"name": system}]}
        runs.write(job.out("runs") / f"{system}.run.gz", frame, {"method": method})
    job.out("counts").write_text("12")


@ROOM.stage(inputs=("runs",), outputs=("table",))
def measure(job):
    """A table."""
    job.out("table").write_text("0.5")


def run(root, verb, *options):
    """Run one verb of the room as the command line would."""
    parser = argparse.ArgumentParser()
    ROOM.verbs[verb].add_arguments(parser)
    record = ["--record", str(root / "records" / f"colbert-{verb}.json")]
    given = parser.parse_args(
        [*map(str, options), *record, "--settings", '{"seed": 5, "a": {"b": 7}}', "--threads", "1"]
    )
    ROOM.verbs[verb].run(given)


@pytest.fixture
def root(tmp_path) -> Path:
    folder = tmp_path / "results" / "x"
    notes = tmp_path / "notes.txt"
    notes.write_text("from outside")
    run(folder, "snapshot", "--view", folder / "collection" / "all")
    run(folder, "train", "--view", folder / "collection" / "all", "--notes", notes,
        "--model", folder / "model")  # fmt: skip
    run(folder, "sweep", "--model", folder / "model", "--runs", folder / "colbert" / "runs",
        "--counts", folder / "counts.txt")  # fmt: skip
    run(folder, "measure", "--runs", folder / "colbert" / "runs", "--table", folder / "table.txt")
    return folder


def test_the_steps_lead_from_the_collection_to_the_file(root):
    found = provenance.explain(root / "colbert" / "runs" / "two.run.gz")
    assert [step.name for step in found.steps] == [
        "colbert-snapshot", "colbert-train", "colbert-sweep",
    ]  # fmt: skip
    assert found.collections == [
        {"view": "all", "docs": "made-up", "docs_count": 3, "docs_sha256": "ab" * 32,
         "splits": {"test": "made-up/test", "train": "made-up/train"}}
    ]  # fmt: skip
    train = found.steps[1]
    assert train.seed == 5
    assert train.settings == {"a": {"b": 7}}
    assert train.command.startswith("espalier colbert train --view ")
    assert train.packages["numpy"]
    assert train.cost["peak_memory_bytes"] > 1_000_000
    notes, view = sorted(train.inputs, key=lambda item: item.name)
    assert (view.path, view.made_by) == ("collection/all", "colbert-snapshot")
    assert view.sha256 == files.sha256_of(root / "collection" / "all")
    assert (notes.path, notes.made_by) == (str(root.parents[1] / "notes.txt"), None)
    assert found.problems == []


def test_every_kind_of_result_is_explained(root):
    assert len(provenance.explain(root / "table.txt").steps) == 4
    assert len(provenance.explain(root / "model").steps) == 2
    assert len(provenance.explain(root / "colbert" / "runs").steps) == 3
    assert len(provenance.explain(root / "records" / "colbert-train.json").steps) == 2


def test_a_copied_folder_is_explained_without_the_first(root, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(root, copy)
    before = provenance.as_json(provenance.explain(root / "table.txt"))
    shutil.rmtree(root)
    assert provenance.as_json(provenance.explain(copy / "table.txt")) == before


def test_changed_and_missing_inputs_are_named(root, capsys):
    (root / "model").write_text("other weights")
    (root.parents[1] / "notes.txt").unlink()
    assert cli.main(["explain", str(root / "table.txt")]) == 1
    text = capsys.readouterr().out
    assert "\nchanged: model, which colbert-sweep read as --model (sha256 " in text
    assert f"\nmissing: {root.parents[1]}/notes.txt, which colbert-train read as --notes" in text
    assert "table.txt: unchanged, 4 steps from\n  all: made-up (3 documents" in text
    assert cli.main(["explain", "--json", str(root / "table.txt")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert len(document["problems"]) == 2
    assert document["steps"][2]["inputs"][0]["state"] == "changed"


def test_an_edited_result_is_named(root, capsys):
    (root / "table.txt").write_text("0.9")
    assert cli.main(["explain", str(root / "table.txt")]) == 1
    assert "changed: table.txt, the result itself" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "no such file"),
        ("stray.txt", "says what wrote it"),
        ("../..", "in no results folder"),
    ],
)
def test_what_cannot_be_explained_says_why(root, caplog, name, message):
    (root / "stray.txt").touch()
    assert cli.main(["explain", str(root / name)]) == 1
    assert message in caplog.text


def test_the_sidecar_of_a_run_is_complete(root):
    path = runs.sidecar(root / "colbert" / "runs" / "one.run.gz")
    about = yaml.safe_load(path.read_text())
    assert about["tag"] == "one"
    assert about["schema version"] == 0.2
    assert about["method"]["retrieval"] == [{"name": "one"}]
    assert about["method"]["score ties"] == "by doc_id, ascending"
    assert about["implementation"]["executable"]["cmd"].startswith("espalier colbert sweep ")
    assert about["implementation"]["source"]["lang"] == ["python"]
    assert about["platform"]["hardware"]["cpu"]["number of cores"] >= 1
    assert about["platform"]["hardware"]["ram"].endswith(" GB")
    assert any(
        x.startswith("numpy==") for x in about["platform"]["software"]["libraries"]["python"]
    )
    assert about["actor"] == {"role": "reproducer"}
    assert about["research goal"]["publication"]["arxiv"].endswith("2108.10341")
    assert about["data"]["test collection"] == {
        "name": "made-up", "sha256": "ab" * 32, "ir_datasets": "made-up/test",
    }  # fmt: skip
    assert about["data"]["training data"][0]["ir_datasets"] == "made-up/train"
    assert about["resources"]["runtime"]["wallclock"].endswith(" ms")
    assert about["resources"]["ram"]["used process"].endswith(" KB")


def test_a_folders_digest_is_that_of_its_runs_alone(root):
    folder = root / "colbert" / "runs"
    before = files.sha256_of(folder)
    runs.sidecar(folder / "one.run.gz").write_text("resources: other\n")
    assert files.sha256_of(folder) == before


def test_a_record_of_another_version_is_refused_before_any_work(root):
    path = root / "records" / "colbert-train.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    before = files.sha256_of(root / "colbert" / "runs")
    with pytest.raises(EspalierError, match=r"colbert-train\.json: not a record of format 2"):
        run(root, "sweep", "--model", root / "model", "--runs", root / "colbert" / "runs",
            "--counts", root / "counts.txt")  # fmt: skip
    assert files.sha256_of(root / "colbert" / "runs") == before
