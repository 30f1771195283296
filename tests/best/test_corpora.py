"""The configs for real long documents: what their segments are, and which ones hold the answers."""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from espalier import config as configuration
from espalier.best import store
from espalier.best.commands import room
from espalier.collections import access, candidates
from espalier.collections.snapshot import take
from espalier.collections.view import View
from espalier.stage import Job

ROOT = Path(__file__).resolve().parents[2]
TURN = re.compile(r"[^:]{1,150}: ")
"""How what somebody says in a meeting begins."""


Made = tuple[View, store.Store, dict[str, Any]]


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """The view and the segments that a config makes, each once, and the stage's metrics."""
    return cache(lambda name: made(name, tmp_path_factory.mktemp(name)))


def made(name: str, folder: Path) -> Made:
    home = os.environ.get("ESPALIER_CORPORA")
    if not home or not Path(home, name).is_dir():
        pytest.skip(f"$ESPALIER_CORPORA/{name} is absent; set ESPALIER_CORPORA to have it")
    config = configuration.load(ROOT, [ROOT / "config" / f"{name}.yaml"])
    take(folder / "view", configuration.view_of(config, "documents"), config["seed"])
    view = View(folder / "view")
    candidates.write_runs(folder / "bm25", view, **config["bm25"])
    splits = {role: [role] for role in ("train", "dev", "test")}
    settings = {key: config[key] for key in ("seed", "models", "best")} | {"splits": splits}
    inputs = {"view": [folder / "view"], "candidates": [folder / "bm25"]}
    job = Job(settings, 1, inputs, {"segments": folder / "segments"}, folder / "r.json", "key")
    metrics = room.verbs["segment"].function(job)
    assert metrics is not None
    return view, store.Store(folder / "segments"), dict(metrics)


@pytest.mark.parametrize(("name", "sentences"), [("covidqa", 0.93), ("qmsum", 0.95)])
def test_segments_end_where_sentences_do(
    name: str, sentences: float, segmented: Callable[[str], Made]
) -> None:
    view, found, metrics = segmented(name)
    settings = configuration.load(ROOT, [ROOT / "config" / f"{name}.yaml"])["best"]["segments"]
    texts = {doc.doc_id: doc.text for doc in access.docs(view.manifest["docs"])}

    # Every document is cut, without loss, into segments that leave room for a query.
    sizes = [len(pieces) for own in found.segments("inference").values() for pieces in own]
    assert max(sizes) + settings["query_length"] + 3 <= settings["max_length"]
    ends = []
    for doc_id, rows in found.places("inference").groupby("doc_id"):
        parts = [texts[doc_id][start:end] for start, end in rows[["start", "end"]].to_numpy()]
        assert "".join(parts) == texts[doc_id]
        ends += [re.search(r"[.?!][^\w.?!]*$|[}] *$", part) is not None for part in parts]
    assert sum(ends) / len(ends) > sentences

    # Nearly every answer has a right segment, and training can choose it for most of them.
    assert metrics["positives_aligned"] > 0.99
    assert metrics["positives_covered"] > 0.7
    gold, spans = found.table("gold"), view.spans("train")
    for row in gold.itertuples():
        own = spans[(spans["query_id"] == row.query_id) & (spans["doc_id"] == row.doc_id)]
        inside = set(range(row.start, row.end))
        answers = [set(range(start, end)) for start, end in own[["start", "end"]].to_numpy()]
        shares = [(len(inside & a) / len(a), len(inside & a) / len(inside)) for a in answers]
        assert max(map(max, shares)) > 0.5


def test_answers_in_meetings_are_whole_turns(segmented: Callable[[str], Made]) -> None:
    view, found, _ = segmented("qmsum")
    texts = {doc.doc_id: doc.text for doc in access.docs(view.manifest["docs"])}
    for split in ("train", "dev", "test"):
        for row in view.spans(split).itertuples():
            assert TURN.match(texts[row.doc_id], row.start)
            assert row.end == len(texts[row.doc_id]) or TURN.match(texts[row.doc_id], row.end)
    asked = view.queries("train")["Bdb001-0"]
    assert asked.startswith("Summarize the discussion about the current XML format")
    gold = found.table("gold").set_index("query_id").loc["Bdb001-0"]
    assert "what kinds of database format we should" in texts["Bdb001"][gold.start : gold.end]
