"""All pruned systems from one scoring.

The neighbours of a query embedding do not depend on which others are searched, and a document's
score does not depend on how it was found. So one search of all embeddings in each index and one
scoring of the whole union give every system: document d belongs to one that searches the first p
embeddings of an order if one of these found it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.colbert.retrieval import Dedupe, nearest, score, top
from espalier.colbert.store import Store
from espalier.colbert.systems import System

QUERIES_AT_ONCE = 16
"""Queries in one call of FAISS, which shares them out among its threads."""


class Results(NamedTuple):
    """One system: what it returns for each query, and how many documents it scored.

    A run ends at its depth; the documents retrieved, and the relevant among them, are all that the
    nearest-neighbour stage finds.
    """

    documents: list[NDArray[np.int64]]
    scores: list[NDArray[np.float32]]
    documents_retrieved: list[int]
    relevant_retrieved: list[int]


def sweep(
    indexes: Mapping[float, Any],
    store: Store,
    queries: NDArray[np.float32],
    scoring: NDArray[np.bool_],
    orders: Mapping[str, NDArray[np.int64]],
    searched: Mapping[System, NDArray[np.int64]],
    relevant: Sequence[NDArray[np.int64]],
    *,
    k_prime: int,
    depth: int,
) -> dict[System, Results]:
    """Every system of `searched`, for float32[queries, query_length, dimensions].

    `indexes` by the share of embeddings that they keep; `scoring` bool[queries, query_length] says
    which embeddings score; `orders` gives each order's positions
    int64[queries, query_length], `searched` how many of them a system searches, int64[queries];
    `relevant` holds each query's relevant documents. Documents come best first, at most `depth`.
    """
    length = queries.shape[1]
    results = {system: Results([], [], [], []) for system in searched}
    ways = {(system.kept, system.order): None for system in searched}
    dedupe = Dedupe(store)
    with tqdm(total=len(queries), desc="retrieve", unit="query", mininterval=2) as bar:
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            block = queries[start : start + QUERIES_AT_ONCE]
            vectors = block.reshape(-1, block.shape[2])
            hits = {
                kept: nearest(indexes[kept], vectors, k_prime).reshape(len(block), length, -1)
                for kept in dict.fromkeys(kept for kept, _ in ways)
            }
            for i in range(start, start + len(block)):
                own = {kept: found[i - start] for kept, found in hits.items()}
                documents = dedupe(np.concatenate(list(own.values()), axis=1)).documents
                scores = score(store, queries[i][scoring[i]], documents)
                ranked, ranked_scores = top(documents, scores, len(documents))
                hit = np.isin(ranked, relevant[i])
                place = {}
                for kept, order in ways:
                    found = dedupe(own[kept][orders[order][i]])
                    first = np.full(len(documents), length, dtype=np.int64)
                    first[np.searchsorted(documents, found.documents)] = found.embedding
                    place[kept, order] = first[np.searchsorted(documents, ranked)]
                for system, p in searched.items():
                    within = np.flatnonzero(place[system.kept, system.order] < p[i])
                    result = results[system]
                    result.documents.append(ranked[within[:depth]])
                    result.scores.append(ranked_scores[within[:depth]])
                    result.documents_retrieved.append(len(within))
                    result.relevant_retrieved.append(int(hit[within].sum()))
            bar.update(len(block))
    return results


def relevant_documents(
    qrels: pd.DataFrame, level: int, query_ids: Sequence[str], doc_ids: NDArray[np.str_]
) -> list[NDArray[np.int64]]:
    """Each query's documents of relevance `level` or more, as places in `doc_ids`."""
    judged = qrels[qrels["relevance"] >= level]
    wanted = set(judged["doc_id"])
    place = {doc_id: i for i, doc_id in enumerate(doc_ids.tolist()) if doc_id in wanted}
    found: dict[str, list[int]] = {query_id: [] for query_id in query_ids}
    for query_id, doc_id in zip(judged["query_id"], judged["doc_id"], strict=True):
        if query_id in found and doc_id in place:
            found[query_id].append(place[doc_id])
    return [np.array(own, dtype=np.int64) for own in found.values()]


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
