"""Timing the pipeline, query by query, one system after another."""

from collections.abc import Mapping, Sequence

import pandas as pd
from tqdm import tqdm

from espalier.colbert.pipeline import Pipeline

WARM_UP = 3
"""Queries that are run under each system before the clock counts."""


def measure(pipeline: Pipeline, queries: Mapping[str, str], systems: Sequence[str]) -> pd.DataFrame:
    """Nanoseconds of each stage (int64), one row per system and query_id.

    Every query is run under all systems in turn, and the one that begins changes from query to
    query, so that whatever else the machine does falls on all alike.
    """
    for text in list(queries.values())[:WARM_UP]:
        for system in systems:
            pipeline.answer(text, system)
    rows = []
    for i, (query_id, text) in enumerate(tqdm(queries.items(), desc="time", unit="query")):
        turn = i % len(systems)
        for system in [*systems[turn:], *systems[:turn]]:
            times = pipeline.answer(text, system).times
            rows.append({"system": system, "query_id": query_id, **times})
    return pd.DataFrame(rows).sort_values(["system", "query_id"], ignore_index=True)
