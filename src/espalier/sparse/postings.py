"""The arrays that retrieval works on: dual-weight postings, one side of them, queries, counters.

Documents are numbers 0 … N−1. Every posting list ends with a sentinel, a posting of document N
with weights 0, so that no kernel has to ask whether a list is at its end.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[Any]
"""uint8 quantised weights, or float32 ones."""


class Partition(NamedTuple):
    """The postings' lists cut into M blocks, with the largest weight of each on both sides."""

    term_block: npt.NDArray[np.int64]
    """[V+1]: where a term's blocks begin."""
    block_begin: npt.NDArray[np.int64]
    """[M]: where a block's postings begin."""
    block_last: npt.NDArray[np.uint32]
    """[M]: a block's last document."""
    block_bm25: Weights
    """[M]: a block's largest BM25 weight."""
    block_learned: Weights
    """[M]: a block's largest learned weight."""


class Postings(NamedTuple):
    """A dual-weight index of V terms and P postings, the V sentinels among them."""

    docs: npt.NDArray[np.uint32]
    """[P]: document numbers, ascending within a term."""
    bm25: Weights
    """[P]: BM25 weights, 0 where only the learned side has the term."""
    learned: Weights
    """[P]: learned weights, 0 where only BM25 has the term."""
    term_begin: npt.NDArray[np.int64]
    """[V+1]: where a term's postings begin; its sentinel is the last before the next term's."""
    term_bm25: Weights
    """[V]: the term's largest BM25 weight."""
    term_learned: Weights
    """[V]: the term's largest learned weight."""


class Lists(NamedTuple):
    """The lists that a traversal moves in: their documents, and the blocks of one partition."""

    docs: npt.NDArray[np.uint32]
    term_begin: npt.NDArray[np.int64]
    term_block: npt.NDArray[np.int64]
    block_begin: npt.NDArray[np.int64]
    block_last: npt.NDArray[np.uint32]


class Side(NamedTuple):
    """One side's weights of postings, and their largest of each term and block."""

    weights: Weights
    term_max: Weights
    block_max: Weights


def lists(postings: Postings, partition: Partition) -> Lists:
    """The lists with one partition's blocks."""
    return Lists(postings.docs, postings.term_begin, *partition[:3])


def learned_side(postings: Postings, partition: Partition) -> Side:
    """The learned weights."""
    return Side(postings.learned, postings.term_learned, partition.block_learned)


def bm25_side(postings: Postings, partition: Partition) -> Side:
    """The BM25 weights."""
    return Side(postings.bm25, postings.term_bm25, partition.block_bm25)


class Counters(NamedTuple):
    """What one query touched (the paper's section 4: '# Eval' and 'BLoad')."""

    documents_scored: int
    postings: int
    """Postings whose weights were read."""
    blocks_loaded: int
    """Blocks in which a cursor stood."""
    blocks: int
    """All blocks of the query's terms: the denominator."""


class Query(NamedTuple):
    """A query's distinct terms with their weights on both sides."""

    terms: npt.NDArray[np.int64]
    bm25: npt.NDArray[np.int64]
    learned: npt.NDArray[np.int64]


Ranking = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], Counters]
"""Document numbers int64[≤k], scores float64[≤k], counters. Ordered by score (descending), ties by
document number (ascending); documents that score 0 are not retrieved."""


def ranked(
    docs: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Order by score (descending), then document number (ascending)."""
    order = np.lexsort((docs, -scores))
    return docs[order], scores[order]
