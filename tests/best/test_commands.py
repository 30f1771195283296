"""The first and the last stage on a made-up view: two splits to train on, as folds have."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from espalier.best import store
from espalier.best.commands import room
from espalier.collections.access import Doc
from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import runs
from espalier.stage import Job

ANSWER = "Bb bb b."
TEXT = f"Aa aa. Cc cc cc cc. {ANSWER} Dd dd. Ee."
DOCS = [
    Doc("right", "t", TEXT), Doc("wrong", "t", "Xx xx. Yy yy."), Doc("bare", "t", " "),
    Doc("unused", "t", "Zz."),
]  # fmt: skip
SPLITS = {"train": ["one", "two"], "dev": ["three"], "test": ["four"]}
SEGMENTS = {
    "max_length": 16, "query_length": 4, "title_length": 1, "shortest": 1.0, "training": 2,
    "inference": None,
}  # fmt: skip


def settings(checkpoint: Path, **best: Any) -> dict[str, Any]:
    own = {
        "segments": SEGMENTS,
        "instances": {"negatives": 2, "depth": 10},
        "training": {"dev_depth": 1},
        "reranking": {"depth": 2},
    }
    models = {"ranker": f"folder:{checkpoint}"}
    return {"seed": 1, "models": models, "splits": SPLITS, "best": own | best}


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A view with one query in each split; all have one answer but the one of split 'two'."""

    def docs(self: View, start: int = 0, stop: int | None = None) -> Iterator[Doc]:
        return iter(DOCS[start:stop])

    monkeypatch.setattr(View, "docs", docs)
    folder = tmp_path / "view"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"docs": "made/up"}))
    start = TEXT.index(ANSWER)
    for split in ("one", "two", "three", "four"):
        query = f"q-{split}"
        (folder / f"{split}.queries.tsv").write_text(f"{query}\ta b c d e\n")
        lines = [f"{query} 0 {doc_id} 1\n" for doc_id in ("right", "gone")]
        (folder / f"{split}.qrels").write_text("".join(lines))
        if split != "two":
            (folder / f"{split}.spans.tsv").write_text(
                f"{query}\tright\t{start}\t{start + len(ANSWER)}\n"
            )
        found = pd.DataFrame({"query_id": query, "doc_id": ["wrong", "bare"], "score": [2, 1]})
        runs.write(tmp_path / "candidates" / split / f"bm25{runs.SUFFIX}", found, {})
    return folder


def segmented(view: Path, settings: dict[str, Any]) -> tuple[store.Store, dict[str, Any]]:
    inputs = {"view": [view], "candidates": [view.parent / "candidates"]}
    target = view.parent / "segments"
    job = Job(settings, 1, inputs, {"segments": target}, view.parent / "record.json", "key")
    metrics = room.verbs["segment"].function(job)
    assert metrics is not None
    return store.Store(target), dict(metrics)


def test_segments_of_a_part(view: Path, checkpoint: Path) -> None:
    found, metrics = segmented(view, settings(checkpoint))
    assert set(found.queries("train")) == {"q-one", "q-two"}
    assert set(found.queries("test")) == {"q-four"}
    assert len(found.queries("dev")["q-three"]) == 4
    # The judged document that the collection lacks is left out, here and among the test's.
    rows = found.table("instances").values.tolist()
    assert sorted(rows) == [[q, "right", n] for q in ("q-one", "q-two") for n in ("bare", "wrong")]
    assert found.table("dev")["doc_id"].tolist() == ["wrong"]
    assert found.table("test")[["doc_id", "rank"]].values.tolist() == [
        ["wrong", 1], ["bare", 2], ["right", 0],
    ]  # fmt: skip
    assert set(found.segments("training")) == {"right", "wrong", "bare"}
    (gold,) = found.table("gold").itertuples()
    assert gold.query_id == "q-one"
    assert gold.start <= TEXT.index(ANSWER) < gold.end
    expected = {
        "instances": 4, "positives": 2, "positives_aligned": 0.5,
        "positives_covered": 0.5 if gold.segment < 2 else 0.0, "queries_shortened": 4,
        "documents": 3, "documents_without_text": 1, "documents_not_in_the_collection": 1,
        "dev_pairs": 1, "test_pairs": 3, "test_pairs_missed": 1,
        "train_queries_without_instances": 0,
    }  # fmt: skip
    assert metrics.items() >= expected.items()


def test_a_wrong_span_stops_the_stage(view: Path, checkpoint: Path) -> None:
    (view / "four.spans.tsv").write_text("q-four\tright\t5\t999\n")
    with pytest.raises(EspalierError, match="query q-four in document right: characters 5 to 999"):
        segmented(view, settings(checkpoint))


def test_inputs_longer_than_the_model_takes_stop_the_stage(view: Path, checkpoint: Path) -> None:
    segmented(view, settings(checkpoint, segments=SEGMENTS | {"max_length": 128}))
    with pytest.raises(EspalierError, match=r"max_length' is 129, but folder:.* takes 128 word"):
        segmented(view, settings(checkpoint, segments=SEGMENTS | {"max_length": 129}))


def test_no_positive_stops_the_stage(view: Path, checkpoint: Path) -> None:
    for split in ("one", "two"):
        (view / f"{split}.qrels").write_text(f"q-{split} 0 right 0\n")
    with pytest.raises(EspalierError, match=r"made/up: no training query has .*instances\.depth"):
        segmented(view, settings(checkpoint))


@pytest.mark.parametrize("known", [True, False])
def test_selection_quality_of_two_replicates(view: Path, checkpoint: Path, known: bool) -> None:
    for spans in view.glob("*.spans.tsv"):
        if not known:
            spans.unlink()
    folder = view.parent / "best"
    inputs: dict[str, list[Path]] = {
        "view": [view], "segments": [], "scores": [], "selections": [], "histories": [],
    }  # fmt: skip
    found, _ = segmented(view, settings(checkpoint))
    places = found.places("inference").query("doc_id == 'right'")
    at = TEXT.index(ANSWER)
    (right,) = places.query(f"start <= {at} < end")["segment"]
    for part, favourite in (("s1", right), ("s2", right - 1)):
        (folder / part).mkdir(parents=True)
        (folder / part / "segments").symlink_to(found.folder)
        inputs["segments"].append(folder / part / "segments")
        scores = places[["doc_id", "segment"]].assign(query_id="q-four", rank=0)
        scores["score"] = np.where(scores["segment"] == favourite, 9.0, 1.0)
        history = pd.DataFrame(
            {"system": ["theta1"], "epoch": [1], "loss": [0.5], "dev_rr": [0.25]}
        )
        picked = pd.DataFrame({"query_id": ["q-one"], "doc_id": ["right"], "segment": [1]})
        for kind, name, table in (
            ("scores", "scores/theta1", scores), ("scores", "scores/best", scores),
            ("histories", "history/theta1", history),
            ("selections", "selections/2/0", picked.head(0)),
            ("selections", "selections/2/1", picked),
        ):  # fmt: skip
            path = folder / part / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table.to_parquet(path)
            inputs[kind].append(path)
    parts = {p: {"replicate": p, "seed": 1, "splits": SPLITS} for p in ("s1", "s2")}
    outputs = {name: folder / name for name in ("selection", "iterations", "history")}
    job = Job({"seed": 1, "parts": parts}, 1, inputs, outputs, folder / "record.json", "key")
    metrics = room.verbs["selection-quality"].function(job)

    rows = pd.read_parquet(outputs["iterations"])
    assert rows.query("picked")["system"].tolist() == ["theta1", "theta1"]
    assert rows.query("system == 'best'")["dev_rr"].tolist() == [0.25, 0.25]
    assert pd.read_parquet(outputs["history"])["part"].tolist() == ["s1", "s2"]
    selection = pd.read_parquet(outputs["selection"])
    if not known:
        assert selection.empty and metrics == {}
        assert rows["hit"].isna().all()
        return
    hits = selection.set_index(["system", "replicate"])["hit"]
    assert hits["best"].to_dict() == hits["theta1"].to_dict() == {"s1": 1.0, "s2": 0.0}
    assert hits["chance"].tolist() == [1 / len(places)] * 2
    assert metrics is not None
    assert metrics["test_P_1_theta1"] == 0.5
    trained = found.places("training").query(f"doc_id == 'right' and start <= {at} < end")
    assert metrics["training_P_1_selection2"] == float((trained["segment"] == 1).any())
