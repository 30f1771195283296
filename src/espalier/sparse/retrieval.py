"""From a config's settings and encoded queries to rankings, counters and latencies."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from espalier.sparse.index import Index
from espalier.sparse.traversal import Guidance, Query, Ranking, exhaustive, guided

QUERY_COLUMNS = ["query_id", "term", "bm25", "learned"]


def guidance_of(setting: Mapping[str, Any]) -> Guidance:
    """The guidance that a config's setting describes."""
    return Guidance(
        float(setting["alpha"]),
        float(setting["beta"]),
        float(setting["f_s"]),
        float(setting["f_f"]),
        setting["threshold"] == "dual",
        setting["view"] == "uniform",
    )


def search(index: Index, query: Query, setting: Mapping[str, Any], k: int) -> Ranking:
    """The top k of one query under one setting."""
    documents = len(index.doc_ids)
    if setting["algorithm"] == "exhaustive":
        return exhaustive(index.postings, query, documents, float(setting["beta"]), k)
    return guided(index.postings, query, documents, guidance_of(setting), min(k, documents))


def by_query(table: pd.DataFrame) -> dict[str, Query]:
    """Queries from a table with QUERY_COLUMNS (terms distinct within a query)."""
    return {
        str(query_id): (
            rows["term"].to_numpy(dtype=np.int64),
            rows["bm25"].to_numpy(dtype=np.int64),
            rows["learned"].to_numpy(dtype=np.int64),
        )
        for query_id, rows in table.groupby("query_id", sort=False)
    }


def retrieve(
    index: Index, queries: Mapping[str, Query], setting: Mapping[str, Any], k: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All queries under one setting: the run, and the counters of each query."""
    name = setting["name"]
    parts, counters = [], []
    for query_id, query in tqdm(queries.items(), desc=name, unit="query", mininterval=2):
        docs, scores, counted = search(index, query, setting, k)
        ids = [index.doc_ids[doc] for doc in docs]
        parts.append(pd.DataFrame({"query_id": query_id, "doc_id": ids, "score": scores}))
        counters.append({"system": name, "query_id": query_id, **counted._asdict()})
    return pd.concat(parts, ignore_index=True), pd.DataFrame(counters)


def latencies(
    index: Index,
    queries: Mapping[str, Query],
    settings: list[Mapping[str, Any]],
    k: int,
    repeats: int,
) -> pd.DataFrame:
    """Nanoseconds of each query under each setting, the settings interleaved query by query.

    The median of `repeats` rounds; a first round, not counted, compiles and warms.
    """
    rounds: list[dict[tuple[str, str], int]] = []
    for _ in range(repeats + 1):
        taken: dict[tuple[str, str], int] = {}
        for query_id, query in tqdm(queries.items(), desc="latency", unit="query", mininterval=2):
            for setting in settings:
                started = time.perf_counter_ns()
                search(index, query, setting, k)
                taken[setting["name"], query_id] = time.perf_counter_ns() - started
        rounds.append(taken)
    rows = [
        {
            "system": system,
            "query_id": query_id,
            "total_ns": int(np.median([r[system, query_id] for r in rounds[1:]])),
        }
        for system, query_id in rounds[0]
    ]
    return pd.DataFrame(rows, columns=["system", "query_id", "total_ns"])
