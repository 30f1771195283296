"""Section 3 of the paper: bounds, rank scores, thresholds, the skipping judgment, the two queues.

Scores are sums over the query's terms of two integers, B (BM25) and L (learned). They are only
combined at the end, so no order of summation changes a score, and a bound that is no smaller in
both parts is no smaller when combined.

Two readings are fixed here, once for all tests. A queue holding fewer than k documents has the
threshold `OPEN`, which skips nothing. A document enters a full queue only with a strictly greater
score, so a bound equal to the threshold may be skipped too; as documents come in ascending order,
ties go to the smaller document number.
"""

import numba
import numpy as np

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


@numba.njit(cache=True, inline="always")
def lower(scores, docs, a, b):
    """Whether entry a ranks below entry b: smaller score, or equal and larger document number."""
    return scores[a] < scores[b] or (scores[a] == scores[b] and docs[a] > docs[b])


@numba.njit(cache=True, inline="always")
def swap(scores, docs, a, b):
    """Exchange two entries of a heap."""
    scores[a], scores[b] = scores[b], scores[a]
    docs[a], docs[b] = docs[b], docs[a]


@numba.njit(cache=True)
def offer(scores, docs, size, doc, score):
    """Offer a document to a queue (a binary heap, lowest entry first); its size afterwards.

    `scores` is float64[k] and `docs` int64[k]; `size` entries are in use. A full queue drops
    its lowest entry when the newcomer's score is strictly greater.
    """
    if size < len(scores):
        at = size
        scores[at], docs[at] = score, doc
        while at > 0 and lower(scores, docs, at, (at - 1) // 2):
            swap(scores, docs, at, (at - 1) // 2)
            at = (at - 1) // 2
        return size + 1
    if score > scores[0]:
        scores[0], docs[0] = score, doc
        at = 0
        while True:
            low = at
            for child in (2 * at + 1, 2 * at + 2):
                if child < size and lower(scores, docs, child, low):
                    low = child
            if low == at:
                break
            swap(scores, docs, at, low)
            at = low
    return size


@numba.njit(cache=True, inline="always")
def threshold(scores, size):
    """Θ: the lowest score of a full queue, `OPEN` before."""
    return scores[0] if size == len(scores) else OPEN


@numba.njit(cache=True)
def offer_uniform(scores_s, scores_f, docs, size, doc, score_s, score_f):
    """Uniform view: both queues hold the same documents; the lowest by `score_f` leaves both.

    Entries stand in no order: scores_s and scores_f float64[k], docs int64[k]. Returns the size
    afterwards.
    """
    if size < len(docs):
        scores_s[size], scores_f[size], docs[size] = score_s, score_f, doc
        return size + 1
    low = 0
    for entry in range(1, size):
        if lower(scores_f, docs, entry, low):
            low = entry
    if score_f > scores_f[low]:
        scores_s[low], scores_f[low], docs[low] = score_s, score_f, doc
    return size


@numba.njit(cache=True)
def threshold_uniform(scores, size):
    """Θ of a queue without order: its lowest score when full, `OPEN` before."""
    return np.min(scores) if size == len(scores) else OPEN
