"""Whether the segment chosen in a relevant document is the one that answers the query.

A segment counts as right (`hit`) when it contains the larger part of the gold span, more than
half of its characters; `hit_strict` asks for the whole span.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from espalier.collections.view import SPAN_COLUMNS, View

PAIR = ["query_id", "doc_id"]
RULES = ["hit", "hit_strict"]


def spans(view: View, split: str) -> pd.DataFrame:
    """A split's gold spans; none where the collection knows of none."""
    return view.spans(split) if view.has_spans(split) else pd.DataFrame(columns=SPAN_COLUMNS)


def judged(places: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Every segment of the spans' documents: query_id, doc_id, segment, hit, hit_strict (0 or 1).

    `places` has doc_id, segment, start, end; `spans` query_id, doc_id, start, end; both in
    characters, ends exclusive. Where a document answers a query in several places, a segment is
    right when it is so for one of them.
    """
    joined = spans.merge(places, on="doc_id", suffixes=("_span", ""))
    ranges = joined[["start", "end", "start_span", "end_span"]].to_numpy(dtype=np.int64).T
    inside, length = overlap(*ranges), ranges[3] - ranges[2]
    rows = joined[[*PAIR, "segment"]].assign(
        hit=(2 * inside > length).astype(np.float64),
        hit_strict=((inside == length) & (length > 0)).astype(np.float64),
    )
    return rows.groupby([*PAIR, "segment"], as_index=False)[RULES].max()


def overlap(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    span_start: NDArray[np.int64],
    span_end: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Characters that two ranges share, row by row."""
    shared: NDArray[np.int64] = np.maximum(
        np.minimum(end, span_end) - np.maximum(start, span_start), 0
    )
    return shared


def outcomes(system: str, judged: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """P@1 per document: system, query_id, doc_id, hit, hit_strict of the segments chosen.

    `chosen` has query_id, doc_id, segment; pairs that are not judged are left out.
    """
    rows = judged.merge(chosen[[*PAIR, "segment"]], on=[*PAIR, "segment"])
    return rows.assign(system=system)[["system", *PAIR, *RULES]]


def references(judged: pd.DataFrame) -> pd.DataFrame:
    """What needs no model: `first`, `random` (its expected value) and `oracle` (the ceiling)."""
    documents = judged.sort_values("segment").groupby(PAIR)[RULES]
    kinds = {"first": documents.first(), "random": documents.mean(), "oracle": documents.max()}
    rows = [table.reset_index().assign(system=name) for name, table in kinds.items()]
    return pd.concat(rows, ignore_index=True)[["system", *PAIR, *RULES]]


def top(scores: pd.DataFrame) -> pd.DataFrame:
    """Each pair's highest-scored segment, the first of equal ones."""
    ordered = scores.sort_values([*PAIR, "score", "segment"], ascending=[True, True, False, True])
    return ordered.drop_duplicates(PAIR)


def means(prefix: str, outcomes: pd.DataFrame) -> dict[str, float]:
    """Mean hit of each system, for the record."""
    return {f"{prefix}_{k}": float(v) for k, v in outcomes.groupby("system")["hit"].mean().items()}
