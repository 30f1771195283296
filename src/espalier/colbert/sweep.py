"""All pruned systems from one search.

The neighbours of a query embedding do not depend on which others are searched, and a document's
score does not depend on how it was found. So one search of all embeddings and one scoring of the
whole union give every order and every p: document d belongs to (order, p) if one of the order's
first p embeddings found it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.colbert.retrieval import Dedupe, nearest, score, top
from espalier.colbert.store import Store

QUERIES_AT_ONCE = 16
"""Queries in one call of FAISS, which shares them out among its threads."""


class Results(NamedTuple):
    """One system: what it returns for each query, and how many documents it scored."""

    documents: list[NDArray[np.int64]]
    scores: list[NDArray[np.float32]]
    documents_retrieved: list[int]


def name(order: str, p: int) -> str:
    """The system that searches the first `p` embeddings of an order."""
    return f"{order}-p{p:02d}"


def parsed(system: str) -> tuple[str, int]:
    """The order and p of a system's name."""
    order, _, p = system.rpartition("-p")
    return order, int(p)


def sweep(
    index: Any,
    store: Store,
    queries: NDArray[np.float32],
    orders: Mapping[str, NDArray[np.int64]],
    *,
    k_prime: int,
    depth: int,
) -> dict[str, Results]:
    """Every system by name, for float32[queries, query_length, dimensions].

    `orders` gives each order's positions int64[queries, query_length]. Documents come best
    first, at most `depth` of them.
    """
    length = queries.shape[1]
    results = {
        name(order, p): Results([], [], []) for order in orders for p in range(1, length + 1)
    }
    dedupe = Dedupe(store)
    with tqdm(total=len(queries), desc="retrieve", unit="query", mininterval=2) as bar:
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            block = queries[start : start + QUERIES_AT_ONCE]
            hits = nearest(index, block.reshape(-1, block.shape[2]), k_prime)
            for i, own in enumerate(hits.reshape(len(block), length, -1), start):
                documents = dedupe(own).documents
                scores = score(store, queries[i], documents)
                ranked, ranked_scores = top(documents, scores, len(documents))
                places = np.searchsorted(documents, ranked)
                for order, positions in orders.items():
                    # The same documents, ascending again; now with the place in this order.
                    place = dedupe(own[positions[i]]).embedding[places]
                    for p in range(1, length + 1):
                        kept = np.flatnonzero(place < p)
                        result = results[name(order, p)]
                        result.documents.append(ranked[kept[:depth]])
                        result.scores.append(ranked_scores[kept[:depth]])
                        result.documents_retrieved.append(len(kept))
            bar.update(len(block))
    return results


def run(result: Results, query_ids: list[str], doc_ids: NDArray[np.str_]) -> pd.DataFrame:
    """The run of one system: query_id, doc_id (str), score (float32)."""
    lengths = [len(documents) for documents in result.documents]
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.array(query_ids, dtype=object), lengths),
            "doc_id": doc_ids[np.concatenate(result.documents)].astype(object),
            "score": np.concatenate(result.scores),
        }
    )
