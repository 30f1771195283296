"""Word pieces of queries and segments: made once, read by training, selection and re-ranking.

A folder with `layout.json`, `queries.parquet` (split, query_id, pieces), `training.parquet` and
`inference.parquet` (doc_id, segment, start, end, pieces: the title's and the segment's own; start
and end are characters of the document's text), `gold.parquet` (query_id and the same: the first
training segment, leading or not, that is right for a positive's answer), `instances.parquet`
(query_id, positive, negative) and `dev.parquet`, `test.parquet` (query_id, doc_id, rank,
relevance; rank 0: relevant, but not among BM25's candidates).
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.best import answers, segments
from espalier.best.inputs import Layout, Pieces
from espalier.collections.access import Doc
from espalier.errors import EspalierError
from espalier.text.sentences import sentences

KINDS = ("training", "inference")
PAIR = ["query_id", "doc_id"]
COLUMNS = ["doc_id", "segment", "start", "end", "pieces"]
BLOCK = 32
"""Sentences tokenised at once."""


@dataclass(frozen=True)
class Store:
    """The folder, opened."""

    folder: Path

    @property
    def layout(self) -> Layout:
        """Where the special tokens stand."""
        return Layout(**json.loads((self.folder / "layout.json").read_text()))

    def queries(self, split: str) -> dict[str, Pieces]:
        """Word pieces by query_id."""
        frame = self.table("queries")
        frame = frame[frame["split"] == split]
        return dict(zip(frame["query_id"], frame["pieces"], strict=True))

    def segments(self, kind: str) -> dict[str, list[Pieces]]:
        """Word pieces of each document's segments in order, `kind` one of `KINDS`."""
        frame = pd.read_parquet(self.folder / f"{kind}.parquet", columns=["doc_id", "pieces"])
        pieces: dict[str, list[Pieces]] = {}
        for doc_id, segment in zip(frame["doc_id"], frame["pieces"], strict=True):
            pieces.setdefault(doc_id, []).append(segment)
        return pieces

    def places(self, kind: str) -> pd.DataFrame:
        """doc_id, segment, start, end of every segment."""
        columns = ["doc_id", "segment", "start", "end"]
        return pd.read_parquet(self.folder / f"{kind}.parquet", columns=columns)

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables, whole."""
        return pd.read_parquet(self.folder / f"{name}.parquet")


def write(folder: Path, layout: Layout, tables: dict[str, pd.DataFrame]) -> None:
    """Write the folder."""
    folder.mkdir(parents=True)
    (folder / "layout.json").write_text(json.dumps(asdict(layout), sort_keys=True) + "\n")
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)


def query_table(
    tokenizer: Any, texts: dict[str, dict[str, str]], limit: int
) -> tuple[pd.DataFrame, int]:
    """Each split's queries (split, query_id, pieces), and how many are cut to `limit` pieces."""
    rows = [
        (split, query_id, pieces_of(tokenizer, text))
        for split, queries in texts.items()
        for query_id, text in queries.items()
    ]
    cut = sum(len(pieces) > limit for _, _, pieces in rows)
    kept = [(split, query_id, pieces[:limit]) for split, query_id, pieces in rows]
    return pd.DataFrame(kept, columns=["split", "query_id", "pieces"]), cut


def cut(
    tokenizer: Any,
    docs: Iterable[Doc],
    wanted: Mapping[str, set[str]],
    known: pd.DataFrame,
    settings: Mapping[str, Any],
    special: int,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """The segments of documents for each of `KINDS`, of those `wanted` for it, and `gold`.

    A segment's own word pieces have what query and title leave of `max_length`: `query_length` is
    set aside whether a query needs it or not, so that a document is cut alike for all queries.
    Each kind keeps as many leading segments as `settings[kind]` says (None: all). `known` are the
    gold spans (query_id, doc_id, start, end) of training documents, which are cut as a whole.
    """
    room = settings["max_length"] - special - settings["query_length"]
    if settings["title_length"] >= room:
        raise EspalierError(
            "config key 'best.segments.max_length': query_length and title_length leave no room "
            "for the segments; raise it or lower them"
        )
    rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in (*KINDS, "gold")}
    most = {kind: settings[kind] or math.inf for kind in KINDS}
    spans = spans_by_document(known)
    for doc in tqdm(docs, desc="segments", unit="doc", mininterval=2):
        title = pieces_of(tokenizer, doc.title)[: settings["title_length"]]
        limit = room - len(title)
        kinds = [kind for kind in KINDS if doc.doc_id in wanted[kind]]
        longest = max(math.inf if doc.doc_id in spans else most[kind] * limit for kind in kinds)
        parts, ids, offsets = beginning(tokenizer, doc.text, longest)
        draws = {
            "training": segments.random_lengths(seed, doc.doc_id, limit, settings["shortest"]),
            "inference": segments.fixed_lengths(limit),
        }
        for kind in kinds:
            found = [
                (doc.doc_id, i, s.start, s.end, np.concatenate([title, ids[s.first : s.last]]))
                for i, s in enumerate(segments.split(parts, offsets, limit, draws[kind]))
            ]
            rows[kind] += found[: settings[kind]]
            if kind == "training":
                starts, ends = np.array([row[2:4] for row in found], dtype=np.int64).T
                rows["gold"] += [
                    (query_id, *found[i])
                    for query_id, start, end in spans.get(doc.doc_id, [])
                    for i in np.flatnonzero(answers.right(starts, ends, start, end))
                ]
    tables = {kind: pd.DataFrame(rows[kind], columns=COLUMNS) for kind in KINDS}
    gold = pd.DataFrame(rows["gold"], columns=["query_id", *COLUMNS])
    gold = gold.sort_values("segment", kind="stable").drop_duplicates(PAIR)
    return {**tables, "gold": gold.sort_index(ignore_index=True)}


def spans_by_document(known: pd.DataFrame) -> dict[str, list[tuple[str, int, int]]]:
    """(query_id, start, end) of each document's gold spans, in the table's order."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    columns = known[["query_id", "doc_id", "start", "end"]]
    for query_id, doc_id, start, end in columns.itertuples(index=False, name=None):
        found.setdefault(doc_id, []).append((query_id, start, end))
    return found


def check_spans(docs: Iterable[Doc], spans: pd.DataFrame) -> None:
    """EspalierError for a gold span (query_id, doc_id, start, end) that reaches out of its text."""
    known = spans_by_document(spans)
    for doc in docs:
        for query_id, start, end in known.get(doc.doc_id, []):
            if not 0 <= start < end <= len(doc.text):
                raise EspalierError(
                    f"gold span of query {query_id} in document {doc.doc_id}: characters {start} "
                    f"to {end} of a text of {len(doc.text)}; correct the collection's spans"
                )


def pieces_of(tokenizer: Any, text: str) -> Pieces:
    """Word pieces of a text."""
    encoded = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return np.array(encoded, dtype=np.int32)


def beginning(
    tokenizer: Any, text: str, wanted: float
) -> tuple[list[tuple[int, int]], Pieces, NDArray[np.int64]]:
    """A text's first sentences, until they have more than `wanted` word pieces.

    The sentences, their word pieces and the character where each piece begins. Tokenising is the
    slow part, and of a long document only the beginning may be asked for.
    """
    spans = sentences(text)
    ids: list[int] = []
    offsets: list[int] = []
    for first in range(0, len(spans), BLOCK):
        block = spans[first : first + BLOCK]
        start, end = block[0][0], block[-1][1]
        encoded = tokenizer(
            text[start:end], add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids += encoded["input_ids"]
        offsets += [start + begin for begin, _ in encoded["offset_mapping"]]
        if len(ids) > wanted:
            spans = spans[: first + BLOCK]
            break
    return spans, np.array(ids, dtype=np.int32), np.array(offsets, dtype=np.int64)
