"""TREC run files whose order no evaluator can read differently.

Within a query documents are ordered by score (descending), ties by doc_id (ascending). Scores
are float32, as trec_eval reads them, and are lowered by single float32 steps where they tie, so
that the written scores decrease strictly. A run `x.run.gz` has a sidecar
`x.run.gz.ir_metadata.yaml` (ir_metadata 0.2: Breuer, Keller, Schaer, SIGIR 2022).
"""

import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from espalier import __version__
from espalier.errors import EspalierError

SUFFIX = ".run.gz"


def order(run: pd.DataFrame) -> pd.DataFrame:
    """Sort a run and make its scores strictly decreasing float32 within each query.

    `run` has the columns query_id, doc_id (str) and score. Raises EspalierError for a NaN or
    infinite score or a document that occurs twice in a query.
    """
    if not np.isfinite(run["score"].to_numpy(dtype=np.float64)).all():
        bad = run.loc[~np.isfinite(run["score"].astype("float64"))].iloc[0]
        raise EspalierError(f"run: score of {bad['query_id']}/{bad['doc_id']} is {bad['score']}")
    twice = run.duplicated(["query_id", "doc_id"])
    if twice.any():
        bad = run.loc[twice].iloc[0]
        raise EspalierError(f"run: document {bad['doc_id']} twice in query {bad['query_id']}")
    ordered = run.assign(score=run["score"].astype("float32"))
    ordered = ordered.sort_values(
        ["query_id", "score", "doc_id"], ascending=[True, False, True], ignore_index=True
    )
    scores = ordered["score"].to_numpy(dtype=np.float32).copy()
    queries = ordered["query_id"].to_numpy()
    for i in range(1, len(scores)):
        if queries[i] == queries[i - 1] and scores[i] >= scores[i - 1]:
            scores[i] = np.nextafter(scores[i - 1], np.float32(-np.inf))
    ordered["score"] = scores
    ordered["rank"] = ordered.groupby("query_id", sort=False).cumcount() + 1
    return ordered[["query_id", "doc_id", "rank", "score"]]


def write(path: Path, run: pd.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Write a run (columns query_id, doc_id, score) and its ir_metadata sidecar.

    The file's bytes depend on the run alone. `metadata` holds ir_metadata's components beyond
    the tag, e.g. {'method': {...}, 'research goal': {...}}.
    """
    if not path.name.endswith(SUFFIX):
        raise ValueError(f"{path}: a run's name ends in {SUFFIX}")
    tag = path.name.removesuffix(SUFFIX)
    text = io.StringIO()
    for row in order(run).itertuples(index=False):
        text.write(f"{row.query_id} Q0 {row.doc_id} {row.rank} {row.score:.9g} {tag}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as stream:
        stream.write(text.getvalue().encode())
    components = {"tag": tag, "implementation": {"source": f"espalier {__version__}"}, **metadata}
    sidecar(path).write_text(yaml.safe_dump(components, sort_keys=True))


def sidecar(path: Path) -> Path:
    """Where the ir_metadata of a run file stands."""
    return path.with_name(path.name + ".ir_metadata.yaml")


def read(path: Path) -> pd.DataFrame:
    """Read a run: query_id, doc_id (str), rank (int64), score (float32).

    Raises EspalierError naming file and line for what is not a run line.
    """
    rows = []
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                fields = line.split()
                try:
                    query_id, _, doc_id, rank, score, _ = fields
                    rows.append((query_id, doc_id, int(rank), float(score)))
                except ValueError as error:
                    raise EspalierError(
                        f"{path}:{number}: not a TREC run line (query_id Q0 doc_id rank score tag)"
                    ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise EspalierError(f"{path}: truncated or damaged; delete it and run again") from error
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    return frame.astype({"query_id": str, "doc_id": str, "rank": "int64", "score": "float32"})


def in_folder(folder: Path) -> dict[str, Path]:
    """The runs of a folder by system name, sorted."""
    return {p.name.removesuffix(SUFFIX): p for p in sorted(folder.glob("*" + SUFFIX))}
