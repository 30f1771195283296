"""From segment scores to document scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from espalier.best.parts import systems
from espalier.evaluation import runs

AGGREGATIONS = {"first": "first", "max": "max", "mean": "mean"}
"""FirstP takes the first segment's score, MaxP the highest (Dai and Callan, SIGIR 2019); the mean
is beside them because sums would favour long documents."""


def aggregate(scores: pd.DataFrame, how: str) -> pd.DataFrame:
    """A run (query_id, doc_id, score) from the segments' scores.

    `scores` has query_id, doc_id, segment, score, the segments of a document in order; `how` is
    a key of `AGGREGATIONS`.
    """
    documents = scores.groupby(["query_id", "doc_id"], sort=False)["score"]
    return documents.agg(AGGREGATIONS[how]).reset_index()


def write(folder: Path, ranker: str, scores: pd.DataFrame, depth: int) -> None:
    """A run of the candidates for each of a ranker's `systems`."""
    for system, how in systems(ranker).items():
        step = {"name": "BERT cross-encoder", "model": ranker, "segments": how, "depth": depth}
        runs.write(
            folder / f"{system}{runs.SUFFIX}",
            aggregate(scores[scores["rank"] > 0], how),
            metadata(step),
        )


def join(folders: Sequence[Path], target: Path) -> int:
    """Join the runs of several folders, of different queries, by name; how many runs result."""
    names = [path.name for path in runs.in_folder(folders[0]).values()]
    for name in names:
        run = pd.concat([runs.read(folder / name) for folder in folders])
        step = {"name": "BERT cross-encoder", "folds": len(folders)}
        runs.write(target / name, run, metadata(step))
    return len(names)


def metadata(step: dict[str, Any]) -> dict[str, Any]:
    """The components of ir_metadata for a run that re-ranks BM25's."""
    return {"method": {"automatic": True, "retrieval": [{"name": "BM25"}, step]}}
