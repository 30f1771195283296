"""Retrieval: nearest embeddings, their documents, exact scores of these.

Tonellotto and Macdonald (CIKM 2021): Psi(phi_i, k') of each chosen query embedding, the documents
D_i(k') that own them (equation 2), their union (3, or 4 after pruning), MaxSim with all query
embeddings over that union.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from espalier.colbert.index import search
from espalier.colbert.maxsim import maxsim
from espalier.colbert.store import Store


class Engine:
    """An index and its embeddings, and how many neighbours (embeddings) each search takes."""

    def __init__(self, index: Any, store: Store, k_prime: int) -> None:
        self.index = index
        self.store = store
        self.k_prime = k_prime
        self.stamps = np.zeros(len(store.doc_ids), dtype=np.uint8)

    def neighbours(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        """Embeddings nearest to each row of float32[p, dimensions]: int64[p, k'], -1 for none."""
        return search(self.index, query, self.k_prime)

    def docs_of(self, neighbours: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Documents that own the neighbours, each once, and the first row that found each."""
        return union(neighbours, self.store.doc_of_embedding, self.stamps)  # type: ignore[no-any-return]

    def score(self, query: NDArray[np.float32], docs: NDArray[np.int64]) -> NDArray[np.float32]:
        """MaxSim float32[docs] of ascending documents with all query embeddings."""
        first = self.store.first_doc
        cuts = np.searchsorted(docs, first)
        parts = [
            maxsim(query, shard.embeddings, shard.offsets, docs[a:b] - start)
            for shard, start, a, b in zip(
                self.store.shards, first[:-1], cuts[:-1], cuts[1:], strict=True
            )
        ]
        return np.concatenate(parts)

    def retrieve(
        self, query: NDArray[np.float32], chosen: NDArray[np.int64], depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
        """The whole pipeline for one query.

        `query` is float32[query_length, dimensions], `chosen` the positions whose neighbours are
        searched. Returns documents and scores, best first, at most `depth`, and how many
        documents were scored.
        """
        docs, _ = self.docs_of(self.neighbours(query[chosen]))
        docs.sort()
        scores = self.score(query, docs)
        best = top(scores, depth)
        return docs[best], scores[best], len(docs)


def top(scores: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    """Positions of the `depth` best scores, best first, ties by position."""
    return np.argsort(-scores, kind="stable")[:depth]


@njit(cache=True)  # type: ignore[untyped-decorator]
def union(
    neighbours: NDArray[np.int64], doc_of_embedding: NDArray[np.int32], stamps: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Documents that own the neighbours, each once, and the first row that found each.

    `neighbours` is int64[p, k'], -1 for none; `stamps` uint8[documents], zero, and zero again on
    return. Both results int64[n], in the order found.
    """
    docs = np.empty(neighbours.size, dtype=np.int64)
    rows = np.empty(neighbours.size, dtype=np.int64)
    count = 0
    for row in range(neighbours.shape[0]):
        for embedding in neighbours[row]:
            if embedding < 0:
                continue
            doc = doc_of_embedding[embedding]
            if stamps[doc] == 0:
                stamps[doc] = 1
                docs[count] = doc
                rows[count] = row
                count += 1
    for i in range(count):
        stamps[docs[i]] = 0
    return docs[:count].copy(), rows[:count].copy()
