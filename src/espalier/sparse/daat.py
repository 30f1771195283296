"""Exhaustive retrieval, document at a time."""

import numba
import numpy as np

from espalier.sparse.cursors import ONE
from espalier.sparse.heap import OPEN, offer


@numba.njit(cache=True)
def daat(lists, first, second, terms, w_first, w_second, documents, k):
    """Score every document that has a term of the query.

    `lists` is a `Lists`, `first` a `Side`, `second` another or None; terms int64[n], [n] query
    weights of each side. Returns documents int64[≤k] and scores float64[≤k] in no order, and the
    numbers of documents scored, postings read and blocks loaded (all of them).
    """
    n = len(terms)
    at = np.empty(n, np.uint64)
    doc = np.empty(n, np.int64)
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        doc[i] = lists.docs[at[i]]
    scores, docs = np.empty(k, np.float64), np.empty(k, np.int64)
    size = scored = read = 0
    lowest = OPEN
    zero = w_first.dtype.type(0)

    candidate = np.int64(documents)
    for i in range(n):
        candidate = min(candidate, doc[i])
    while candidate < documents:
        following = np.int64(documents)
        score = zero
        for i in range(n):
            if doc[i] == candidate:
                score += w_first[i] * first.weights[at[i]]
                if second is not None:
                    score += w_second[i] * second.weights[at[i]]
                read += 1
                at[i] += ONE
                doc[i] = lists.docs[at[i]]
            following = min(following, doc[i])
        scored += 1
        if score > lowest and score > 0:
            size = offer(scores, docs, size, np.float64(score), candidate)
            if size == k:
                lowest = scores[0]
        candidate = following
    loaded = 0
    for i in range(n):
        loaded += lists.term_block[terms[i] + 1] - lists.term_block[terms[i]] - 1
    return docs[:size], scores[:size], scored, read, loaded
