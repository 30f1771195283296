"""Whether the segment chosen in a relevant document is the one that answers the query.

`hit` is whether a segment is right as `answers` has it: it holds the larger part of the gold span,
more than half of its characters, or is part of a span that none holds so much of; `hit_strict`
asks for the whole span.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from espalier.best import answers, iterations
from espalier.best.instances import positives
from espalier.best.store import PAIR, Store
from espalier.collections.view import SPAN_COLUMNS, View

RULES = ["hit", "hit_strict"]


DEPTHS = {"segments": 0, "scores": 1, "histories": 1, "selections": 2}
"""How many folders below its part's folder each kind of file stands in."""


class Measured(NamedTuple):
    """What one part's rankers have selected and reached; each table has `replicate` and `part`."""

    selection: pd.DataFrame
    """system, query_id, doc_id, hit, hit_strict on the test queries."""
    iterations: pd.DataFrame
    """system, dev_rr, picked, and the means hit, hit_strict: the paper's Table 2."""
    history: pd.DataFrame
    """system, epoch, loss, dev_rr."""
    training: pd.DataFrame
    """As `selection`, on the leading segments of the training queries' positives."""


def part(
    view: View, name: str, about: Mapping[str, Any], paths: Mapping[str, Sequence[Path]]
) -> Measured:
    """Measure one part: `about` has its replicate and splits, `paths` the files of all parts.

    `selections` holds I of the iterations in folders of their number: what the training of theta2
    and later used.
    """
    own = {
        kind: [path for path in paths[kind] if path.parents[depth].name == name]
        for kind, depth in DEPTHS.items()
    }
    store = Store(own["segments"][0])
    test = judged(store.places("inference"), spans(view, about["splits"]["test"]))
    chosen = {path.stem: top(pd.read_parquet(path)) for path in own["scores"]}
    selection = pd.concat(
        [references(test), *(outcomes(s, test, c) for s, c in chosen.items())],
        ignore_index=True,
    )
    history = pd.concat(map(pd.read_parquet, own["histories"]), ignore_index=True)

    # Training could select the answer's segment only where it is among a positive's leading ones.
    known = spans(view, about["splits"]["train"]).merge(positives(store.table("instances")))
    leading = judged(store.places("training"), known)
    shards: dict[str, list[pd.DataFrame]] = {}
    for path in own["selections"]:
        shards.setdefault(f"selection{path.parent.name}", []).append(pd.read_parquet(path))
    training = pd.concat(
        [references(leading), *(outcomes(s, leading, pd.concat(i)) for s, i in shards.items())],
        ignore_index=True,
    )
    tables = (selection, iterations.table(selection.groupby("system")[RULES].mean(), history))
    return Measured(
        *(
            table.assign(replicate=about["replicate"], part=name)
            for table in (*tables, history, training)
        )
    )


def spans(view: View, splits: Sequence[str]) -> pd.DataFrame:
    """The gold spans of some splits; none where the collection knows of none."""
    known = [view.spans(split) for split in splits if view.has_spans(split)]
    nothing = pd.DataFrame(columns=SPAN_COLUMNS).astype({"start": "int64", "end": "int64"})
    return pd.concat(known, ignore_index=True) if known else nothing


def judged(places: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Every segment of the spans' documents: query_id, doc_id, segment, hit, hit_strict (0 or 1).

    `places` has doc_id, segment, start, end, the leading segments of a document or all; `spans`
    query_id, doc_id, start, end; both in characters, ends exclusive. Where a document answers a
    query in several places, a segment is right when it is so for one of them.
    """
    joined = spans.assign(span=np.arange(len(spans))).merge(
        places, on="doc_id", suffixes=("_span", "")
    )
    columns = ["start", "end", "start_span", "end_span"]
    start, end, span_start, span_end = joined[columns].to_numpy(dtype=np.int64).T
    hit = np.zeros(len(joined), dtype=np.float64)
    for own in joined.groupby("span").indices.values():
        hit[own] = answers.right(start[own], end[own], span_start[own[0]], span_end[own[0]])
    strict = (start <= span_start) & (span_end <= end)
    rows = joined[[*PAIR, "segment"]].assign(hit=hit, hit_strict=strict.astype(np.float64))
    return rows.groupby([*PAIR, "segment"], as_index=False)[RULES].max()


def outcomes(system: str, judged: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """P@1 per document: system, query_id, doc_id, hit, hit_strict of the segments chosen.

    `chosen` has query_id, doc_id, segment; pairs that are not judged are left out.
    """
    rows = judged.merge(chosen[[*PAIR, "segment"]], on=[*PAIR, "segment"])
    return rows.assign(system=system)[["system", *PAIR, *RULES]]


def references(judged: pd.DataFrame) -> pd.DataFrame:
    """What needs no model: `first`, `chance` (its expected value) and `oracle` (the ceiling)."""
    documents = judged.sort_values("segment").groupby(PAIR)[RULES]
    kinds = {"first": documents.first(), "chance": documents.mean(), "oracle": documents.max()}
    rows = [table.reset_index().assign(system=name) for name, table in kinds.items()]
    return pd.concat(rows, ignore_index=True)[["system", *PAIR, *RULES]]


def top(scores: pd.DataFrame) -> pd.DataFrame:
    """Each pair's highest-scored segment, the first of equal ones."""
    ordered = scores.sort_values([*PAIR, "score", "segment"], ascending=[True, True, False, True])
    return ordered.drop_duplicates(PAIR)


def means(prefix: str, outcomes: pd.DataFrame) -> dict[str, float]:
    """Mean hit of each system, for the record."""
    return {f"{prefix}_{k}": float(v) for k, v in outcomes.groupby("system")["hit"].mean().items()}
