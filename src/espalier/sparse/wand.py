"""WAND (Broder et al. 2003) and block-max WAND (Ding and Suel 2011), document at a time.

With the variable-size partition the latter is VBMW (Mallia et al. 2017).
"""

import numba
import numpy as np

from espalier.sparse.cursors import ONE, cursor, doc_of, next_geq, sift, term_of
from espalier.sparse.heap import OPEN, offer


@numba.njit(cache=True)
def wand(lists, first, second, terms, w_first, w_second, documents, k, by_block, factor):
    """The top k; `by_block`: block-max WAND. `factor` over-estimates the threshold (1 is safe).

    `lists` is a `Lists`, `first` a `Side`, `second` another or None; terms int64[n], [n] query
    weights of each side. Returns documents int64[≤k] and scores float64[≤k] in no order,
    and the numbers of documents scored, postings read and blocks loaded (all without `by_block`).
    """
    n = len(terms)
    at = np.empty(n, np.uint64)
    end = np.empty(n, np.uint64)
    block = np.empty(n, np.uint64)
    last_block = np.empty(n, np.uint64)
    loaded_block = np.empty(n, np.uint64)
    bound = np.zeros(n, w_first.dtype)
    keys = np.empty(n, np.int64)  # cursors, sorted
    loaded = 0
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        end[i] = lists.term_begin[terms[i] + 1] - 1
        block[i] = loaded_block[i] = lists.term_block[terms[i]]
        last_block[i] = lists.term_block[terms[i] + 1] - 1
        loaded += by_block and block[i] < last_block[i]
        bound[i] = w_first[i] * first.term_max[terms[i]]
        if second is not None:
            bound[i] += w_second[i] * second.term_max[terms[i]]
        keys[i] = cursor(lists.docs[at[i]], i)
    for i in range(n - 2, -1, -1):
        sift(keys, i)
    # Bounds, scores and threshold are of one type: conversions would cost a tenth of the time.
    scores, docs = np.empty(k, w_first.dtype), np.empty(k, np.int64)
    size = scored = read = 0
    zero = w_first.dtype.type(0)
    lowest = over = w_first.dtype.type(OPEN)

    while True:
        # The pivot: the first document that the terms' maxima can lift over the threshold.
        reach = zero
        pivot = -1
        for i in range(n):
            reach += bound[term_of(keys[i])]
            if reach > over:
                pivot = i
                break
        if pivot < 0:
            break
        candidate = doc_of(keys[pivot])
        if candidate == documents:
            break
        while pivot + 1 < n and doc_of(keys[pivot + 1]) == candidate:
            pivot += 1

        skipped = False
        if by_block:
            reach = zero
            for i in range(pivot + 1):
                term = term_of(keys[i])
                b = next_geq(lists.block_last, block[term], last_block[term], candidate)
                block[term] = b
                reach += w_first[term] * first.block_max[b]
                if second is not None:
                    reach += w_second[term] * second.block_max[b]
            skipped = reach <= over
        if skipped:
            # Beyond the first of these blocks to end, by the cursor with the largest bound.
            moved = 0
            target = doc_of(keys[pivot + 1]) if pivot + 1 < n else np.int64(documents)
            for i in range(pivot + 1):
                term = term_of(keys[i])
                target = min(target, np.int64(lists.block_last[block[term]]) + 1)
                if bound[term] > bound[term_of(keys[moved])]:
                    moved = i
        elif doc_of(keys[0]) < candidate:
            # The cursor before the pivot with the largest bound: rare terms go far.
            moved, target, i = 0, candidate, 1
            while doc_of(keys[i]) < candidate:
                if bound[term_of(keys[i])] > bound[term_of(keys[moved])]:
                    moved = i
                i += 1
        else:
            score = zero
            for i in range(pivot, -1, -1):
                term = term_of(keys[i])
                score += w_first[term] * first.weights[at[term]]
                if second is not None:
                    score += w_second[term] * second.weights[at[term]]
                at[term] += ONE
                doc = np.int64(lists.docs[at[term]])
                if by_block and lists.block_last[loaded_block[term]] < doc:
                    loaded_block[term] += ONE
                    loaded += doc < documents
                keys[i] = cursor(doc, term)
                sift(keys, i)
            read += pivot + 1
            scored += 1
            if score > lowest and score > 0:
                size = offer(scores, docs, size, score, candidate)
                if size == k:
                    lowest = scores[0]
                    over = w_first.dtype.type(lowest * factor)
            continue

        term = term_of(keys[moved])
        if by_block:
            b = next_geq(lists.block_last, loaded_block[term], last_block[term], target)
            if b != loaded_block[term]:
                loaded_block[term] = b
                loaded += b < last_block[term]
                at[term] = max(at[term], np.uint64(lists.block_begin[b]))
        at[term] = next_geq(lists.docs, at[term], end[term], target)
        keys[moved] = cursor(lists.docs[at[term]], term)
        sift(keys, moved)
    if not by_block:
        for i in range(n):
            loaded += np.int64(last_block[i]) - lists.term_block[terms[i]]
    return docs[:size], scores[:size], scored, read, loaded
