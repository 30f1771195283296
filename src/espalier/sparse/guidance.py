"""Section 3 of the paper: bounds and rank scores, the skipping judgment, the two queues.

Bound(d, α) and RankScore(d, β) are sums over the query's terms, so a share is given to the query's
weights, once: share · BM25 + (1 − share) · learned. Shares are thousandths and weights integers,
so that every sum is an integer: no order of summation changes a score, and a bound is never
smaller than the score it bounds. Scores are divided by
`UNITS` at the end.

Two readings are fixed here, once for all tests. A queue holding fewer than k documents has the
threshold `OPEN`, which skips nothing. A document enters a full queue only with a strictly greater
score, so a bound equal to the threshold may be skipped too; as documents come in ascending order,
ties go to the smaller document number.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from espalier.sparse.heap import lower
from espalier.sparse.postings import Query

UNITS = 1000
"""Parts that α and β are given in."""


class Guidance(NamedTuple):
    """How to skip and to rank. α = β, F = 1 and a single threshold are safe."""

    alpha: float
    beta: float
    f_s: float = 1.0
    f_f: float = 1.0
    dual: bool = False
    uniform: bool = False


class Mixed(NamedTuple):
    """A query's weights [n] under one share, BM25's and the learned, times `UNITS`.

    int64, or float64 where posting weights are floats.
    """

    bm25: npt.NDArray[Any]
    learned: npt.NDArray[Any]


def mixed(query: Query, share: float, kind: type[np.int64] | type[np.float64]) -> Mixed:
    """The weights that make sums share · BM25 + (1 − share) · learned."""
    part = round(share * UNITS)
    return Mixed((query.bm25 * part).astype(kind), (query.learned * (UNITS - part)).astype(kind))


@numba.njit(cache=True, inline="always")
def skipped(bound_s, bound_f, over_s, over_f, dual):
    """The judgment on a document's two bounds: by a single threshold, or by either of the two.

    `over_s` is F_s · Θ_s and `over_f` is F_f · Θ_f.
    """
    return bound_s <= over_s or (dual and bound_f <= over_f)


class Queue(NamedTuple):
    """A queue of the uniform view: k slots, and a binary heap of the slots in use."""

    scores: npt.NDArray[np.float64]
    """[k]: a slot's score."""
    docs: npt.NDArray[np.int64]
    """[k]: a slot's document."""
    heap: npt.NDArray[np.int64]
    """[k]: slots, the lowest-ranking one first."""
    place: npt.NDArray[np.int64]
    """[k]: where in the heap a slot stands."""


@numba.njit(cache=True)
def empty_queue(k):
    """A queue with room for k documents."""
    return Queue(
        np.zeros(k, np.float64), np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    )


@numba.njit(cache=True)
def ranks_lower(queue, a, b):
    """Whether slot a ranks below slot b."""
    return lower(queue.scores[a], queue.docs[a], queue.scores[b], queue.docs[b])


@numba.njit(cache=True)
def put(queue, size, slot, at, doc, score):
    """Fill `slot`, which stands at `at` in the heap of `size` slots, and restore the heap."""
    queue.scores[slot], queue.docs[slot] = score, doc
    while at > 0 and ranks_lower(queue, slot, queue.heap[(at - 1) // 2]):
        above = queue.heap[(at - 1) // 2]
        queue.heap[at], queue.place[above] = above, at
        at = (at - 1) // 2
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and ranks_lower(queue, queue.heap[child + 1], queue.heap[child]):
            child += 1
        below = queue.heap[child]
        if not ranks_lower(queue, below, slot):
            break
        queue.heap[at], queue.place[below] = below, at
        at = child
    queue.heap[at], queue.place[slot] = slot, at


@numba.njit(cache=True)
def offer_uniform(queue_s, queue_f, size, doc, score_s, score_f):
    """Uniform view: both queues hold the same documents; the lowest of Q_f leaves both.

    A document has the same slot in both queues. Returns their size afterwards.
    """
    slot = queue_f.heap[0] if size == len(queue_f.docs) else size
    if slot < size and score_f <= queue_f.scores[slot]:
        return size
    at_s, at_f = (queue_s.place[slot], 0) if slot < size else (size, size)
    after = max(size, slot + 1)
    put(queue_s, after, slot, at_s, doc, score_s)
    put(queue_f, after, slot, at_f, doc, score_f)
    return after
