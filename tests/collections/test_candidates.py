from pathlib import Path

import ir_datasets
import pytest

from espalier.collections import access, candidates, snapshot
from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import runs


@pytest.fixture
def folder(tmp_path):
    """A collection with first-stage results of its own."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "docs.tsv").write_text("d1\tred\nd2\tgreen\nd3\tblue\n")
    (folder / "queries.tsv").write_text("q1\tred\ttrain\nq2\tgreen\ttest\nq3\tblue\ttest\n")
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\nq3 0 d3 1\n")
    (folder / "run.txt").write_text(
        "q1 Q0 d2 1 9.5 x\nq1 Q0 d1 2 9.5 x\nq2 Q0 d1 1 -3 x\nq2 Q0 d2 2 -4.25e0 x\n"
    )
    return f"folder:{folder}"


def view_of(folder, place):
    view = {"docs": folder, "splits": {"train": f"{folder}:train", "test": f"{folder}:test"}}
    snapshot.take(place, view, 1)
    return View(place)


def test_scoreddocs_become_runs(folder, tmp_path):
    access.check_scoreddocs(folder)
    view = view_of(folder, tmp_path / "view")
    counts = candidates.copy_runs(tmp_path / "runs", view)
    assert counts == {
        "train_queries": 1,
        "train_queries_without_results": 0,
        "test_queries": 2,
        "test_queries_without_results": 1,
    }
    test = candidates.read(tmp_path / "runs", "test")
    assert test[["query_id", "doc_id", "score"]].to_numpy().tolist() == [
        ["q2", "d1", -3.0],
        ["q2", "d2", -4.25],
    ]
    assert candidates.read(tmp_path / "runs", "train")["doc_id"].tolist() == ["d1", "d2"]
    assert list(runs.in_folder(tmp_path / "runs" / "train")) == ["scoreddocs"]


def test_two_runs_or_none_are_refused(folder, tmp_path):
    view = view_of(folder, tmp_path / "view")
    with pytest.raises(EspalierError, match="0 runs in place of one"):
        candidates.read(tmp_path / "runs", "test")
    candidates.copy_runs(tmp_path / "runs", view)
    candidates.write_runs(tmp_path / "runs", view, k1=0.9, b=0.4, depth=2)
    with pytest.raises(EspalierError, match="2 runs in place of one"):
        candidates.read(tmp_path / "runs", "test")


def test_a_collection_without_scoreddocs_is_refused():
    with pytest.raises(EspalierError, match="'vaswani' has no scoreddocs; set its view's candid"):
        access.check_scoreddocs("vaswani")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d9 1 1.0 x", r"run.txt:5: doc_id 'd9' is not in docs.tsv"),
        ("q9 Q0 d1 1 1.0 x", r"run.txt:5: query_id 'q9' is not in queries.tsv"),
        ("q1 d1 1", r"run.txt:5: 3 columns in place of 6"),
        ("q1 Q0 d3 3 best x", r"run.txt:5: score 'best' is no number"),
        ("q1 Q0 d3 3 nan x", r"run.txt:5: score 'nan' is no number"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(folder, line, message):
    with Path(folder.removeprefix("folder:"), "run.txt").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(EspalierError, match=message):
        list(access.scoreddocs(folder))


def test_the_field_that_is_a_query_s_text():
    trec = ir_datasets.load("disks45/nocr/trec-robust-2004").queries_cls()
    assert {"title", "description"} <= set(trec._fields)
    with pytest.raises(EspalierError, match="queries have no field 'tittle'; name one of descr"):
        next(access.queries("disks45/nocr/trec-robust-2004", "tittle"))
