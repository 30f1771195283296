"""Timing the whole pipeline, query by query, one setting after another."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.colbert.encoder import Encoder
from espalier.colbert.retrieval import Engine, top
from espalier.colbert.sweep import parsed

WARM_UP = 3
"""Queries that are run under each setting before the clock counts."""

Order = Callable[[str, NDArray[np.int64]], NDArray[np.int64]]
"""From an order's name and a query's token ids to positions."""


def measure(
    encoder: Encoder,
    engine: Engine,
    order: Order,
    queries: Mapping[str, str],
    systems: Sequence[str],
    depth: int,
) -> pd.DataFrame:
    """Nanoseconds of each stage, one row per query and system.

    Every query is run under all systems in turn, the first of them changing from query to query,
    so that whatever else the machine does falls on all alike.
    """
    for text in list(queries.values())[:WARM_UP]:
        for system in systems:
            timed(encoder, engine, order, text, system, depth)
    rows = []
    for i, (query_id, text) in enumerate(tqdm(queries.items(), desc="time", unit="query")):
        turn = i % len(systems)
        for system in [*systems[turn:], *systems[:turn]]:
            times = timed(encoder, engine, order, text, system, depth)
            rows.append({"system": system, "query_id": query_id, **times})
    return pd.DataFrame(rows).sort_values(["system", "query_id"], ignore_index=True)


def timed(
    encoder: Encoder, engine: Engine, order: Order, text: str, system: str, depth: int
) -> dict[str, int]:
    """Answer one query as `Engine.retrieve` does, with a clock between its stages."""
    started = perf_counter_ns()
    token_ids = encoder.layout.queries([text])
    query = encoder.encode(token_ids)[0]
    name, p = parsed(system)
    chosen = order(name, token_ids[0])[:p]
    encoded = perf_counter_ns()
    neighbours = engine.neighbours(query[chosen])
    searched = perf_counter_ns()
    docs = np.sort(engine.docs_of(neighbours)[0])
    deduplicated = perf_counter_ns()
    scores = engine.score(query, docs)
    top(scores, depth)
    scored = perf_counter_ns()
    return {
        "encode_ns": encoded - started,
        "ann_ns": searched - encoded,
        "dedupe_ns": deduplicated - searched,
        "score_ns": scored - deduplicated,
        "total_ns": scored - started,
    }
