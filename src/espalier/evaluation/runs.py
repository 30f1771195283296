"""TREC run files whose order no evaluator can read differently.

Within a query documents are ordered by score (descending), ties by doc_id: ascending in our own
runs, descending, as trec_eval has it, in those of others. Scores are float32, as trec_eval reads
them, and are lowered by single float32 steps where they tie, so that the written scores decrease
strictly. A run `x.run.gz` has a sidecar `x.run.gz.ir_metadata.yaml` (ir_metadata 0.2: Breuer,
Keller, Schaer, SIGIR 2022).
"""

import gzip
import logging
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from espalier import files
from espalier.errors import EspalierError

SUFFIX = ".run.gz"
FIELDS = "query_id Q0 doc_id rank score tag"
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RUN_LINE = re.compile(rf"\s*\S+\s+\S+\s+\S+\s+\d{{1,18}}\s+{NUMBER}\s+\S+\s*", re.I)
LEVEL = 6
"""Compression: level 9 takes three times as long for 1% less."""

log = logging.getLogger("espalier")


def order(run: pd.DataFrame, *, ties_ascending: bool = True) -> pd.DataFrame:
    """Sort a run and make its scores strictly decreasing float32 within each query.

    `run` has the columns query_id, doc_id (str) and score; documents whose scores tie are ordered
    by doc_id. Raises EspalierError for a NaN or infinite score or a document that occurs twice in
    a query.
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
        ["query_id", "score", "doc_id"],
        ascending=[True, False, ties_ascending],
        ignore_index=True,
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

    The file's bytes depend on the run alone. `metadata` holds what the caller knows beyond the
    tag, e.g. {'method': {...}}; the stage completes the sidecar (espalier.tracking.ir_metadata).
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
    sidecar(path).write_text(yaml.safe_dump({"tag": tag, **metadata}, sort_keys=True))


def sidecar(path: Path) -> Path:
    """Where the ir_metadata of a run file stands."""
    return path.with_name(path.name + files.SIDECAR)


def read(path: Path) -> pd.DataFrame:
    """Read a run: query_id, doc_id (str), rank (int64), score (float32); row i is line i + 1.

    Raises EspalierError naming file and line for what is not a run line, a score that is no
    finite float32, a document that occurs twice in a query, and a file without results.
    """
    lines = lines_of(path)
    if not lines:
        raise EspalierError(f"{path}:1: the run holds no results; leave it out or make it again")
    for number, line in enumerate(lines, start=1):
        if not RUN_LINE.fullmatch(line):
            raise EspalierError(f"{path}:{number}: {complaint(line)}")
    fields = "".join(lines).split()
    with np.errstate(over="ignore"):
        scores = np.array(fields[4::6], dtype="float64").astype("float32")
    if not np.isfinite(scores).all():
        number = int(np.argmin(np.isfinite(scores))) + 1
        raise EspalierError(f"{path}:{number}: {complaint(lines[number - 1])}")
    run = pd.DataFrame(
        {
            "query_id": fields[0::6],
            "doc_id": fields[2::6],
            "rank": np.array(fields[3::6], dtype="int64"),
            "score": scores,
        }
    ).astype({"query_id": str, "doc_id": str})
    refuse_repeated(path, run)
    return run


def lines_of(path: Path) -> list[str]:
    """The lines of a text file, plain or gzip; EspalierError when it is missing or damaged."""
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            return list(stream)
    except FileNotFoundError as error:
        raise EspalierError(f"{path}: no such file; name one that is there") from error
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise EspalierError(f"{path}: truncated or damaged; delete it and run again") from error


def complaint(line: str) -> str:
    """What is wrong with a line that is not a run line, and the remedy."""
    fields = line.split()
    said = f"not a TREC run line ({FIELDS})"
    if len(fields) != 6:
        return f"{said}: it has {len(fields)} fields; write six or leave the line out"
    if not re.fullmatch(r"\d{1,18}", fields[3]):
        return f"{said}: rank '{fields[3]}' is no whole number; correct it"
    return f"{said}: score '{fields[4]}' is no finite number; correct it or leave the line out"


def refuse_repeated(path: Path, table: pd.DataFrame) -> None:
    """EspalierError for a file in which a document occurs twice in a query."""
    twice = table.duplicated(["query_id", "doc_id"]).to_numpy()
    if not twice.any():
        return
    second = int(np.argmax(twice))
    query_id, doc_id = table.loc[second, ["query_id", "doc_id"]]
    same = (table["query_id"] == query_id) & (table["doc_id"] == doc_id)
    raise EspalierError(
        f"{path}:{second + 1}: document '{doc_id}' occurs in query '{query_id}' on line "
        f"{int(np.argmax(same.to_numpy())) + 1} already; keep one of the lines"
    )


def strangers(path: Path, table: pd.DataFrame, known: Collection[str], split: str) -> int:
    """How many queries of a run or qrels file are not among the `known` of a split.

    They are left out, with a warning that names the first one's line. Raises EspalierError when
    none is known: the file is for other queries.
    """
    ids = table["query_id"]
    unknown = ~ids.isin(list(known)).to_numpy()
    if not unknown.any():
        return 0
    first = int(np.argmax(unknown))
    where = f"{path}:{first + 1}: query '{ids[first]}'"
    if unknown.all():
        raise EspalierError(
            f"{where} and all others are unknown to {split}; name a file for the queries of that "
            "split, or another split under 'collections'"
        )
    count = int(ids[unknown].nunique())
    log.warning(
        "%s is not among the queries of %s that this experiment uses: left out (%d such queries); "
        "to use more, raise 'max_queries' or name another split",
        where, split, count,
    )  # fmt: skip
    return count


def in_folder(folder: Path) -> dict[str, Path]:
    """The runs of a folder by system name, sorted."""
    return {p.name.removesuffix(SUFFIX): p for p in sorted(folder.glob("*" + SUFFIX))}


def replicates(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """The runs in and below several folders by system name, sorted.

    Several runs of one name are replicates of that system: made alike, but for the seed. Raises
    EspalierError when there is no run at all.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted({p for folder in folders for p in folder.rglob("*" + SUFFIX)}):
        found.setdefault(path.name.removesuffix(SUFFIX), []).append(path)
    if not found:
        raise EspalierError(f"{', '.join(map(str, folders))}: no run file (*{SUFFIX}) there")
    return dict(sorted(found.items()))


def refuse_names(own: Collection[str], found: Mapping[str, Sequence[Path]]) -> None:
    """EspalierError when a run of the user's own has the name of one of the systems."""
    for name in own:
        if len(found.get(name, ())) > 1:
            raise EspalierError(
                f"config key 'evaluation.own_runs': '{name}' is the name of a system already; "
                "give the run another name"
            )


def in_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """As `replicates`, with the first run alone of each system."""
    return {system: paths[0] for system, paths in replicates(folders).items()}
