"""Top-k retrieval from a dual-weight index: every document scored, or block-max with guidance.

Kernels over arrays. An index is the tuple `Postings`; a query is three aligned arrays: terms
int64[n] (distinct), query weights of the BM25 side and of the learned side int64[n]. Documents
are numbers 0 … N−1. Results are ordered by score (descending), ties by document number
(ascending); documents that score 0 are not retrieved.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from espalier.sparse.guidance import (
    OPEN,
    combined,
    empty_queue,
    offer,
    offer_uniform,
    skipped,
    threshold,
)


class Postings(NamedTuple):
    """The arrays of a dual-weight index over V terms, P postings and M blocks."""

    docs: npt.NDArray[np.uint32]
    """[P]: document numbers, ascending within a term."""
    bm25: npt.NDArray[np.uint8]
    """[P]: quantised BM25 weights, 0 where only the learned side has the term."""
    learned: npt.NDArray[np.uint8]
    """[P]: quantised learned weights, 0 where only BM25 has the term."""
    term_begin: npt.NDArray[np.int64]
    """[V+1]: where a term's postings begin."""
    term_bm25: npt.NDArray[np.uint8]
    """[V]: the term's largest BM25 weight."""
    term_learned: npt.NDArray[np.uint8]
    """[V]: the term's largest learned weight."""
    term_block: npt.NDArray[np.int64]
    """[V+1]: where a term's blocks begin."""
    block_begin: npt.NDArray[np.int64]
    """[M+1]: where a block's postings begin."""
    block_last: npt.NDArray[np.uint32]
    """[M]: a block's last document."""
    block_bm25: npt.NDArray[np.uint8]
    """[M]: a block's largest BM25 weight."""
    block_learned: npt.NDArray[np.uint8]
    """[M]: a block's largest learned weight."""


class Counters(NamedTuple):
    """What one query touched (the paper's section 4: '# Eval' and 'BLoad')."""

    documents_scored: int
    postings: int
    """Postings whose weights were read."""
    blocks_loaded: int
    """Blocks in which a cursor stood."""
    blocks: int
    """All blocks of the query's terms: the denominator."""


class Guidance(NamedTuple):
    """How to skip and to rank (section 3). α = β, F = 1 and a single threshold are safe."""

    alpha: float
    beta: float
    f_s: float = 1.0
    f_f: float = 1.0
    dual: bool = False
    uniform: bool = False


Query = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
Ranking = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], Counters]


def exhaustive(postings: Postings, query: Query, documents: int, beta: float, k: int) -> Ranking:
    """Score every document that has a term of the query, term at a time.

    Returns document numbers int64[≤k], RankScore(d, β) float64[≤k], and the counters.
    """
    bm25 = np.zeros(documents, dtype=np.int64)
    learned = np.zeros(documents, dtype=np.int64)
    read = accumulate(postings, *query, bm25, learned)
    touched = np.flatnonzero((bm25 > 0) | (learned > 0))
    scores = combined.py_func(bm25[touched], learned[touched], beta)
    kept = scores > 0
    docs, scores = ranked(touched[kept], scores[kept])
    blocks = blocks_of(postings, query[0])
    return docs[:k], scores[:k], Counters(len(touched), int(read), blocks, blocks)


def guided(postings: Postings, query: Query, documents: int, guidance: Guidance, k: int) -> Ranking:
    """Block-max WAND under dual guidance; a single-weight BMW is α = β = 0 (or 1).

    Returns document numbers int64[≤k], RankScore(d, β) float64[≤k], and the counters.
    """
    docs, scores, scored, read, loaded = traverse(postings, *query, documents, *guidance, k)
    docs, scores = ranked(docs, scores)
    counters = Counters(int(scored), int(read), int(loaded), blocks_of(postings, query[0]))
    return docs, scores, counters


def ranked(
    docs: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Order by score (descending), then document number (ascending)."""
    order = np.lexsort((docs, -scores))
    return docs[order], scores[order]


def blocks_of(postings: Postings, terms: npt.NDArray[np.int64]) -> int:
    """Blocks in the lists of `terms`."""
    return int((postings.term_block[terms + 1] - postings.term_block[terms]).sum())


@numba.njit(cache=True)
def accumulate(postings, terms, weights_b, weights_l, bm25, learned):
    """Add each posting's two weights to its document's accumulators; postings read."""
    read = 0
    for i in range(len(terms)):
        begin, end = postings.term_begin[terms[i]], postings.term_begin[terms[i] + 1]
        for at in range(begin, end):
            bm25[postings.docs[at]] += weights_b[i] * postings.bm25[at]
            learned[postings.docs[at]] += weights_l[i] * postings.learned[at]
        read += end - begin
    return read


@numba.njit(cache=True)
def next_block(postings, block, last_block, doc):
    """The first block from `block` on that can hold `doc` or later; `last_block` if none."""
    while block < last_block and postings.block_last[block] < doc:
        block += 1
    return block


@numba.njit(cache=True)
def seek(postings, at, block, doc):
    """The first posting from `at` on within `block` whose document is `doc` or later."""
    low, high = max(at, postings.block_begin[block]), postings.block_begin[block + 1]
    while low < high:
        middle = (low + high) // 2
        if postings.docs[middle] < doc:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def traverse(
    postings, terms, weights_b, weights_l, documents,
    alpha, beta, f_s, f_f, dual, uniform, k,
):  # fmt: skip
    """Block-max WAND whose every bound, threshold and queue is the guidance's.

    Returns documents int64[≤k] and final scores float64[≤k] in no order, and the numbers of
    documents scored, postings read and blocks loaded.
    """
    n = len(terms)
    at = np.empty(n, np.int64)  # cursor: posting
    doc = np.empty(n, np.int64)  # cursor: its document; `documents` at the end of the list
    loaded_block = np.empty(n, np.int64)  # block of the cursor
    bound_block = np.empty(n, np.int64)  # block of the last bound asked for
    order = np.arange(n)
    loaded = 0
    for i in range(n):
        at[i] = postings.term_begin[terms[i]]
        loaded_block[i] = bound_block[i] = postings.term_block[terms[i]]
        doc[i] = documents
        if at[i] < postings.term_begin[terms[i] + 1]:
            doc[i] = postings.docs[at[i]]
            loaded += 1

    queue_s, queue_f = empty_queue(k), empty_queue(k)
    size_s = size_f = 0
    over_s, over_f = OPEN, OPEN
    scored = read = 0

    while True:
        for i in range(1, n):  # insertion sort: the cursors are nearly in order
            j, moved = i, order[i]
            while j > 0 and doc[order[j - 1]] > doc[moved]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = moved

        # The pivot: the first document that the terms' maxima do not let us skip.
        bound_b = bound_l = 0
        pivot = -1
        for i in range(n):
            term = order[i]
            if doc[term] == documents:
                break
            bound_b += weights_b[term] * postings.term_bm25[terms[term]]
            bound_l += weights_l[term] * postings.term_learned[terms[term]]
            if not skipped(bound_b, bound_l, alpha, beta, over_s, over_f, dual):
                pivot = i
                break
        if pivot < 0:
            break
        candidate = doc[order[pivot]]
        while pivot + 1 < n and doc[order[pivot + 1]] == candidate:
            pivot += 1

        # Its bound by blocks, and the first document past all of these blocks.
        bound_b = bound_l = 0
        beyond = documents
        if pivot + 1 < n:
            beyond = doc[order[pivot + 1]]
        for i in range(pivot + 1):
            term = order[i]
            last = postings.term_block[terms[term] + 1]
            block = next_block(postings, bound_block[term], last, candidate)
            bound_block[term] = block
            if block < last:
                bound_b += weights_b[term] * postings.block_bm25[block]
                bound_l += weights_l[term] * postings.block_learned[block]
                beyond = min(beyond, np.int64(postings.block_last[block]) + 1)

        target = beyond
        if not skipped(bound_b, bound_l, alpha, beta, over_s, over_f, dual):
            target = candidate
            if doc[order[0]] == candidate:
                sum_b = sum_l = 0
                for i in range(pivot + 1):
                    term = order[i]
                    sum_b += weights_b[term] * postings.bm25[at[term]]
                    sum_l += weights_l[term] * postings.learned[at[term]]
                read += pivot + 1
                scored += 1
                score_s, score_f = combined(sum_b, sum_l, alpha), combined(sum_b, sum_l, beta)
                if uniform:
                    size_f = offer_uniform(queue_s, queue_f, size_f, candidate, score_s, score_f)
                    size_s = size_f
                else:
                    size_s = offer(queue_s, size_s, candidate, score_s)
                    size_f = offer(queue_f, size_f, candidate, score_f)
                over_s, over_f = threshold(queue_s, size_s), threshold(queue_f, size_f)
                if over_s > 0:
                    over_s *= f_s
                if over_f > 0:
                    over_f *= f_f
                target = candidate + 1

        for i in range(pivot + 1):
            term = order[i]
            if doc[term] >= target:
                continue
            last = postings.term_block[terms[term] + 1]
            block = next_block(postings, loaded_block[term], last, target)
            if block == last:
                doc[term] = documents
                continue
            if block != loaded_block[term]:
                loaded_block[term] = block
                loaded += 1
            at[term] = seek(postings, at[term], block, target)
            doc[term] = postings.docs[at[term]]

    positive = queue_f.scores[:size_f] > 0
    return (
        queue_f.docs[:size_f][positive], queue_f.scores[:size_f][positive], scored, read, loaded
    )  # fmt: skip
