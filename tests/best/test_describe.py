"""The figures of a collection, against what was written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from transformers import AutoTokenizer

from espalier.best import describe, store
from espalier.best.commands import room
from espalier.collections.access import Doc
from espalier.collections.view import View
from espalier.stage import Job
from tests.best.made import LAYOUT, pieces

LENGTHS = [4, 10, 2, 8, 6]
"""Letters, which are word pieces here, of the documents' titles and texts."""


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> View:
    def docs(self: View, start: int = 0, stop: int | None = None) -> Iterator[Doc]:
        return (Doc(f"d{i}", "a", "b " * (n - 1)) for i, n in enumerate(LENGTHS))

    monkeypatch.setattr(View, "docs", docs)
    folder = tmp_path / "view"
    folder.mkdir()
    found = {"of_all_queries": 8, "relevant": 5, "aligned": 4}
    splits = {"train": {"passages": found, "not_sampled": 0}, "test": {"not_sampled": 3}}
    (folder / "manifest.json").write_text(json.dumps({"docs_count": 5, "splits": splits}))
    (folder / "train.qrels").write_text("q1 0 d0 1\nq1 0 d1 0\nq2 0 d1 2\nq3 0 d2 1\n")
    (folder / "test.qrels").write_text("q9 0 d4 1\n")
    return View(folder)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Two parts: one with segments of two documents, one with the first of them only."""
    rows = [("d0", 0, 2), ("d0", 1, 3), ("d0", 2, 4), ("d1", 0, 9)]
    segments = pd.DataFrame(
        [(doc, n, 0, 1, pieces(*range(size))) for doc, n, size in rows], columns=store.COLUMNS
    )
    gold = segments.iloc[[1, 3]].assign(query_id=["q1", "q2"], segment=[5, 0])
    instances = pd.DataFrame(
        [("q1", "d0", "d2"), ("q1", "d0", "d3"), ("q2", "d1", "d2"), ("q3", "d2", "d0")],
        columns=["query_id", "positive", "negative"],
    )
    folders = [tmp_path / name / "segments" for name in ("s1", "s2")]
    for folder, kept in zip(folders, (4, 3), strict=True):
        tables = {"training": segments.head(kept), "inference": segments.head(kept)}
        store.write(folder, LAYOUT, {**tables, "gold": gold, "instances": instances})
    return folders


def test_every_figure(view: View, parts: list[Path], checkpoint: Path) -> None:
    settings = {
        "seed": 1, "models": {"ranker": f"folder:{checkpoint}"},
        "best": {"segments": {"training": 4}},
    }  # fmt: skip
    target = view.folder.parent / "data.parquet"
    inputs = {"view": [view.folder], "segments": parts}
    job = Job(settings, 1, inputs, {"table": target}, target.with_suffix(".json"), "key")
    metrics = room.verbs["describe"].function(job)
    rows = pd.read_parquet(target).set_index("quantity")
    expected = {
        "document_pieces": (5, None, 6, 6, 9.2),
        "training_segments": (3, None, 7 / 3, 3, 3),
        "training_segment_pieces": (7, None, 27 / 7, 3, 6),
        "inference_segments": (3, None, 7 / 3, 3, 3),
        "inference_segment_pieces": (7, None, 27 / 7, 3, 6),
        "judged_pairs_train": (4, 0.75, None, None, None),
        "relevant_passages_train": (5, 0.8, None, None, None),
        "relevant_passages_of_all_queries_train": (8, 0.5, None, None, None),
        "judged_pairs_test_of_sample": (1, 1.0, None, None, None),
        "positives": (6, None, None, None, None),
        # q3's answer is not known; q1's right segment is not among the four leading ones.
        "positives_aligned": (6, 4 / 6, None, None, None),
        "positives_covered": (6, 2 / 6, None, None, None),
    }
    assert list(rows.index) == list(expected)
    for quantity, values in expected.items():
        found = rows.loc[quantity].tolist()
        assert found == pytest.approx([np.nan if v is None else v for v in values], nan_ok=True)
    assert metrics is not None
    assert metrics["document_pieces_median"] == 6
    assert metrics["relevant_passages_train_share"] == 0.8
    assert "positives_mean" not in metrics


def test_of_many_documents_some_are_read(
    view: View, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe, "SAMPLE", 2)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    assert describe.document_lengths(view, tokenizer).tolist() == LENGTHS[::3]
