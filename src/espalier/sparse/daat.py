"""Exhaustive retrieval, document at a time."""

import numba
import numpy as np

from espalier.sparse.heap import OPEN, offer


@numba.njit(cache=True)
def daat(lists, first, second, terms, w_first, w_second, documents, k):
    """Score every document that has a term of the query.

    `lists` is a `Lists`, `first` a `Side`, `second` another or None; terms int64[n], [n] query
    weights of each side. Returns documents int64[≤k] and scores float64[≤k] in no order, and the
    numbers of documents scored, postings read and blocks loaded (all of both).
    """
    n = len(terms)
    at = np.empty(n, np.uint64)
    doc = np.empty(n, np.uint32)
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        doc[i] = lists.docs[at[i]]
    scores, docs = np.empty(k, w_first.dtype), np.empty(k, np.int64)
    size = scored = 0
    zero = w_first.dtype.type(0)
    lowest = w_first.dtype.type(OPEN)

    # Every list is read in every round, whether its document is the one or not: what is added for
    # nothing costs less than branches that nobody can foresee.
    candidate = np.uint32(documents)
    for i in range(n):
        candidate = min(candidate, doc[i])
    while candidate < documents:
        following = np.uint32(documents)
        score = zero
        for i in range(n):
            place = at[i]
            here = doc[i] == candidate
            weight = w_first[i] * first.weights[place]
            if second is not None:
                weight += w_second[i] * second.weights[place]
            score += weight if here else zero
            place += np.uint64(here)
            at[i] = place
            doc[i] = lists.docs[place]
            following = min(following, doc[i])
        scored += 1
        if score > lowest and score > 0:
            size = offer(scores, docs, size, score, np.int64(candidate))
            if size == k:
                lowest = scores[0]
        candidate = following
    read = loaded = 0
    for i in range(n):
        read += lists.term_begin[terms[i] + 1] - lists.term_begin[terms[i]] - 1
        loaded += lists.term_block[terms[i] + 1] - lists.term_block[terms[i]] - 1
    return docs[:size], scores[:size], scored, read, loaded
