"""From a config's settings and encoded queries to rankings, counters and latencies."""

import time
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from espalier.sparse.index import Index
from espalier.sparse.traversal import Counters, Guidance, Query, Ranking, exhaustive, guided


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


def retrieve(
    index: Index, queries: Mapping[str, Query], setting: Mapping[str, Any], k: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All queries under one setting: the run, and the counters of each query."""
    name = setting["name"]
    counters, doc_ids, scores = [], [], []
    for query in tqdm(queries.values(), desc=name, unit="query", mininterval=2):
        docs, score, counted = search(index, query, setting, k)
        doc_ids.append([index.doc_ids[doc] for doc in docs])
        scores.append(score)
        counters.append(counted)
    query_ids = np.array(list(queries), dtype=object)
    run = pd.DataFrame(
        {
            "query_id": np.repeat(query_ids, [len(found) for found in doc_ids]),
            "doc_id": list(chain.from_iterable(doc_ids)),
            "score": np.concatenate(scores) if scores else np.zeros(0),
        }
    )
    counts = pd.DataFrame(counters, columns=Counters._fields, dtype="int64")
    counts.insert(0, "system", name)
    counts.insert(1, "query_id", query_ids)
    return run, counts


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
