"""All pruned systems from one search.

The neighbours of a query embedding do not depend on which others are searched, and a document's
score does not depend on how it was found. So one search of all embeddings and one scoring of the
whole union give every order and every p: document d belongs to (order, p) if one of the order's
first p embeddings found it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.colbert.retrieval import Engine, top

QUERIES_AT_ONCE = 16


class Results(NamedTuple):
    """One system: what it returns for each query, and how many documents it scored."""

    docs: list[NDArray[np.int64]]
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
    engine: Engine,
    queries: NDArray[np.float32],
    orders: Mapping[str, Sequence[NDArray[np.int64]]],
    depth: int,
) -> dict[str, Results]:
    """Every system by name, for float32[queries, query_length, dimensions].

    `orders` gives each order's positions int64[query_length] for each query. Documents come best
    first, at most `depth`, exactly as `Engine.retrieve` gives them.
    """
    length = queries.shape[1]
    results = {
        name(order, p): Results([], [], []) for order in orders for p in range(1, length + 1)
    }
    with tqdm(total=len(queries), desc="retrieve", unit="query", mininterval=2) as bar:
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            block = queries[start : start + QUERIES_AT_ONCE]
            found = engine.neighbours(block.reshape(-1, block.shape[2]))
            for i, neighbours in enumerate(found.reshape(len(block), length, -1), start):
                docs = np.sort(engine.docs_of(neighbours)[0])
                scores = engine.score(queries[i], docs)
                ranking = top(scores, len(docs))
                for order, positions in orders.items():
                    hits, row = engine.docs_of(neighbours[positions[i]])
                    first = np.empty(len(docs), dtype=np.int64)
                    first[np.searchsorted(docs, hits)] = row
                    for p in range(1, length + 1):
                        kept = ranking[first[ranking] < p]
                        result = results[name(order, p)]
                        result.docs.append(docs[kept[:depth]])
                        result.scores.append(scores[kept[:depth]])
                        result.documents_retrieved.append(len(kept))
            bar.update(len(block))
    return results
