"""The k best documents so far: a binary heap in two arrays, the lowest-ranking one first.

A document ranks below another with a smaller score, or with an equal score and a larger number.
Documents are offered in ascending order and enter a full heap only with a strictly greater score,
so what is kept at the end are the first k of the documented order, ties included.
"""

import numba
import numpy as np

ONE = np.uint64(1)

OPEN = -1.0
"""Threshold of a heap that is not full: below every score."""


@numba.njit(cache=True, inline="always")
def lower(score, doc, other_score, other_doc):
    """Whether (score, doc) ranks below the other."""
    return score < other_score or (score == other_score and doc > other_doc)


@numba.njit(cache=True)
def offer(scores, docs, size, score, doc):
    """Offer a document to a heap of `size` documents; its size afterwards."""
    n = np.uint64(size)
    if n < np.uint64(len(docs)):
        at = n
        while at > 0:
            parent = (at - ONE) >> ONE
            if not lower(score, doc, scores[parent], docs[parent]):
                break
            scores[at], docs[at] = scores[parent], docs[parent]
            at = parent
        scores[at], docs[at] = score, doc
        return size + 1
    if score <= scores[0]:
        return size
    at, child = np.uint64(0), ONE
    while child < n:
        other = child + ONE
        if other < n:  # adding the outcome: no branch on what nobody can foresee
            child += np.uint64(lower(scores[other], docs[other], scores[child], docs[child]))
        if not lower(scores[child], docs[child], score, doc):
            break
        scores[at], docs[at] = scores[child], docs[child]
        at, child = child, child + child + ONE
    scores[at], docs[at] = score, doc
    return size
