"""Section 3 of the paper: bounds, rank scores, thresholds, the skipping judgment, the two queues.

Scores are sums over the query's terms of two integers, B (BM25) and L (learned). They are only
combined at the end, so no order of summation changes a score, and a bound that is no smaller in
both parts is no smaller when combined.

Two readings are fixed here, once for all tests. A queue holding fewer than k documents has the
threshold `OPEN`, which skips nothing. A document enters a full queue only with a strictly greater
score, so a bound equal to the threshold may be skipped too; as documents come in ascending order,
ties go to the smaller document number.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

OPEN = -1.0
"""Threshold of a queue that is not full: below every score."""


@numba.njit(cache=True, inline="always")
def combined(bm25: int, learned: int, share: float) -> float:
    """Bound(d, α) and RankScore(d, β): share · BM25 + (1 − share) · learned."""
    return share * bm25 + (1.0 - share) * learned


@numba.njit(cache=True, inline="always")
def skipped(bm25, learned, alpha, beta, over_s, over_f, dual):
    """The judgment on a bound (B, L): single threshold, or either of the two.

    `over_s` is F_s · Θ_s and `over_f` is F_f · Θ_f.
    """
    if combined(bm25, learned, alpha) <= over_s:
        return True
    return dual and combined(bm25, learned, beta) <= over_f


class Queue(NamedTuple):
    """A queue of the k best documents: k slots, and a binary heap of the slots in use."""

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
    """Whether slot a ranks below slot b: smaller score, or equal and larger document number."""
    if queue.scores[a] == queue.scores[b]:
        return queue.docs[a] > queue.docs[b]
    return queue.scores[a] < queue.scores[b]


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
def offer(queue, size, doc, score):
    """Offer a document to a queue of `size` documents; its size afterwards.

    A full queue drops its lowest document when the newcomer's score is strictly greater.
    """
    if size < len(queue.docs):
        put(queue, size + 1, size, size, doc, score)
        return size + 1
    lowest = queue.heap[0]
    if score > queue.scores[lowest]:
        put(queue, size, lowest, 0, doc, score)
    return size


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


@numba.njit(cache=True)
def threshold(queue, size):
    """Θ: the lowest score of a full queue, `OPEN` before."""
    return queue.scores[queue.heap[0]] if size == len(queue.docs) else OPEN
