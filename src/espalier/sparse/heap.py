"""The k best documents so far: a binary heap in two arrays, the lowest-ranking one first.

A document ranks below another with a smaller score, or with an equal score and a larger number.
Documents are offered in ascending order and enter a full heap only with a strictly greater score,
so what is kept at the end are the first k of the documented order, ties included.
"""

import numba

OPEN = -1.0
"""Threshold of a heap that is not full: below every score."""


@numba.njit(cache=True, inline="always")
def lower(score, doc, other_score, other_doc):
    """Whether (score, doc) ranks below the other."""
    return score < other_score or (score == other_score and doc > other_doc)


@numba.njit(cache=True)
def offer(scores, docs, size, score, doc):
    """Offer a document to a heap of `size` documents; its size afterwards."""
    if size < len(docs):
        at = size
        while at > 0 and lower(score, doc, scores[(at - 1) // 2], docs[(at - 1) // 2]):
            scores[at], docs[at] = scores[(at - 1) // 2], docs[(at - 1) // 2]
            at = (at - 1) // 2
        scores[at], docs[at] = score, doc
        return size + 1
    if score <= scores[0]:
        return size
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and lower(
            scores[child + 1], docs[child + 1], scores[child], docs[child]
        ):
            child += 1
        if not lower(scores[child], docs[child], score, doc):
            break
        scores[at], docs[at] = scores[child], docs[child]
        at = child
    scores[at], docs[at] = score, doc
    return size
