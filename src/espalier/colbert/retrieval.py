"""Retrieval with some of a query's embeddings, ranking with all of them.

Tonellotto and Macdonald (CIKM 2021), section 2: each chosen embedding finds its k' nearest
document embeddings (equation 2), their documents are united (equations 3 and 4) and scored
exactly (equation 1).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from espalier.colbert.index import search
from espalier.colbert.maxsim import maxsim
from espalier.colbert.store import Store


class Found(NamedTuple):
    """Documents that a query's embeddings retrieve."""

    documents: NDArray[np.int64]
    """int64[n], ascending."""
    embedding: NDArray[np.int64]
    """int64[n]: the place, in the order searched, of the first embedding that finds each."""


def nearest(index: Any, embeddings: NDArray[np.float32], k_prime: int) -> NDArray[np.int64]:
    """Numbers int64[p, at most k'] of the document embeddings nearest to each of float32[p, d].

    -1 fills a row whose probed partitions hold fewer (equation 2's Psi).
    """
    return search(index, embeddings, min(k_prime, index.ntotal))


class Dedupe:
    """From hits to distinct documents, with a stamp per document that is never cleared."""

    def __init__(self, store: Store) -> None:
        self.document_of = store.document_of
        self.stamps = np.zeros(len(store.doc_ids), dtype=np.int64)
        self.stamp = 0

    def __call__(self, hits: NDArray[np.int64]) -> Found:
        """Documents of hits int64[p, k'] (-1: none), equations 3 and 4."""
        self.stamp += 1
        documents, embedding = distinct(hits, self.document_of, self.stamps, self.stamp)
        order = np.argsort(documents)  # the store is read from front to back
        return Found(documents[order], embedding[order])


@njit(cache=True)  # type: ignore[untyped-decorator]
def distinct(
    hits: NDArray[np.int64],
    document_of: NDArray[np.int32],
    stamps: NDArray[np.int64],
    stamp: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Documents int64 of hits int64[p, k'], each once, and the row that first had each."""
    documents = np.empty(hits.size, dtype=np.int64)
    rows = np.empty(hits.size, dtype=np.int64)
    n = 0
    for i in range(hits.shape[0]):
        for j in range(hits.shape[1]):
            if hits[i, j] < 0:
                continue
            document = document_of[hits[i, j]]
            if stamps[document] != stamp:
                stamps[document] = stamp
                documents[n] = document
                rows[n] = i
                n += 1
    return documents[:n].copy(), rows[:n].copy()


def score(
    store: Store, query: NDArray[np.float32], documents: NDArray[np.int64]
) -> NDArray[np.float32]:
    """MaxSim float32[n] of ascending documents int64[n] with all embeddings of the query."""
    bounds = np.searchsorted(documents, store.first_document)
    return np.concatenate(
        [
            maxsim(query, shard.embeddings, shard.offsets, documents[a:b] - first)
            for shard, first, a, b in zip(
                store.shards, store.first_document[:-1], bounds[:-1], bounds[1:], strict=True
            )
        ]
    )


def top(
    documents: NDArray[np.int64], scores: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best by score, ties by document number."""
    best = np.lexsort((documents, -scores))[:k]
    return documents[best], scores[best]
