"""TREC run files whose order no evaluator can read differently.

Within a query documents are ordered by score (descending), ties by doc_id (ascending). Scores
are float32, as trec_eval reads them, and are lowered by single float32 steps where they tie, so
that the written scores decrease strictly. A run `x.run.gz` has a sidecar
`x.run.gz.ir_metadata.yaml` (ir_metadata 0.2: Breuer, Keller, Schaer, SIGIR 2022).
"""

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from espalier import __version__
from espalier.errors import EspalierError

SUFFIX = ".run.gz"
RUN_LINE = re.compile(r"\s*\S+\s+\S+\s+\S+\s+\d+\s+[-+]?[\d.]+(e[-+]?\d+)?\s+\S+\s*", re.I)
LEVEL = 6
"""Compression: level 9 takes three times as long for 1% less."""


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
    group = ordered.groupby("query_id", sort=False)
    ordered["score"] = lowered(
        ordered["score"].to_numpy(), group.ngroup().to_numpy().astype(np.int64)
    )
    ordered["rank"] = group.cumcount() + 1
    return ordered[["query_id", "doc_id", "rank", "score"]]


def lowered(scores: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.float32]:
    """Lower non-increasing scores by as few float32 steps as make each group strictly decreasing.

    Both float32[n] and int64[n], groups ascending. Floats are mapped to integers of the same
    order (neighbouring floats to neighbouring integers), so that 'at most the one before, less a
    step' becomes a running minimum.
    """
    bits = scores.view(np.int32).astype(np.int64)
    steps = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    place = np.arange(len(scores), dtype=np.int64)
    apart = group << 34  # further than any two floats: groups do not meet
    steps = np.minimum.accumulate(steps + place - apart) - place + apart
    bits = np.where(steps >= 0, steps, -steps | 0x80000000)
    return bits.astype(np.uint32).view(np.float32)


def write(path: Path, run: pd.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Write a run (columns query_id, doc_id, score) and its ir_metadata sidecar.

    The file's bytes depend on the run alone. `metadata` holds ir_metadata's components beyond
    the tag, e.g. {'method': {...}, 'research goal': {...}}.
    """
    if not path.name.endswith(SUFFIX):
        raise ValueError(f"{path}: a run's name ends in {SUFFIX}")
    tag = path.name.removesuffix(SUFFIX)
    ordered = order(run)
    columns = (ordered[name].tolist() for name in ("query_id", "doc_id", "rank", "score"))
    text = "".join(
        f"{query_id} Q0 {doc_id} {rank} {score:.9g} {tag}\n"
        for query_id, doc_id, rank, score in zip(*columns, strict=True)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as stream:
        stream.write(text.encode())
    components = {"tag": tag, "implementation": {"source": f"espalier {__version__}"}, **metadata}
    sidecar(path).write_text(yaml.safe_dump(components, sort_keys=True))


def sidecar(path: Path) -> Path:
    """Where the ir_metadata of a run file stands."""
    return path.with_name(path.name + ".ir_metadata.yaml")


def read(path: Path) -> pd.DataFrame:
    """Read a run: query_id, doc_id (str), rank (int64), score (float32).

    Raises EspalierError naming file and line for what is not a run line.
    """
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            lines = stream.readlines()
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise EspalierError(f"{path}: truncated or damaged; delete it and run again") from error
    for number, line in enumerate(lines, start=1):
        if not RUN_LINE.fullmatch(line):
            raise EspalierError(
                f"{path}:{number}: not a TREC run line (query_id Q0 doc_id rank score tag)"
            )
    fields = "".join(lines).split()
    return pd.DataFrame(
        {
            "query_id": fields[0::6],
            "doc_id": fields[2::6],
            "rank": np.array(fields[3::6], dtype="int64"),
            "score": np.array(fields[4::6], dtype="float32"),
        }
    ).astype({"query_id": str, "doc_id": str})


def in_folder(folder: Path) -> dict[str, Path]:
    """The runs of a folder by system name, sorted."""
    return {p.name.removesuffix(SUFFIX): p for p in sorted(folder.glob("*" + SUFFIX))}


def in_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """The runs in and below several folders by system name, sorted.

    Raises EspalierError when there are none, or when two have one name.
    """
    found: dict[str, Path] = {}
    for path in sorted(p for folder in folders for p in folder.rglob("*" + SUFFIX)):
        system = path.name.removesuffix(SUFFIX)
        if system in found:
            raise EspalierError(f"{path}: system '{system}' has another run, {found[system]}")
        found[system] = path
    if not found:
        raise EspalierError(f"{', '.join(map(str, folders))}: no run file (*{SUFFIX}) there")
    return dict(sorted(found.items()))
