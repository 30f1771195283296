"""WAND (Broder et al. 2003) and block-max WAND (Ding and Suel 2011), document at a time.

With the variable-size partition the latter is VBMW (Mallia et al. 2017).
"""

import numba
import numpy as np

from espalier.sparse.cursors import ONE, ZERO, cursor, doc_of, next_geq, sift, term_of
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
    # Of the block that bounds a term's score, and of that where its cursor stands: the last
    # documents, since most documents lie in the same blocks as the one before.
    block_end = np.empty(n, np.int64)
    loaded_end = np.empty(n, np.int64)
    block_bound = np.zeros(n, w_first.dtype)
    below = np.zeros(n + 1, w_first.dtype)  # sums of the bounds of the cursors before each
    keys = np.empty(n, np.int64)  # cursors, sorted
    loaded = 0
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        end[i] = lists.term_begin[terms[i] + 1] - 1
        block[i] = loaded_block[i] = lists.term_block[terms[i]]
        last_block[i] = lists.term_block[terms[i] + 1] - 1
        block_end[i], loaded_end[i] = -1, lists.block_last[block[i]]
        loaded += by_block and block[i] < last_block[i]
        bound[i] = w_first[i] * first.term_max[terms[i]]
        if second is not None:
            bound[i] += w_second[i] * second.term_max[terms[i]]
        keys[i] = cursor(lists.docs[at[i]], i)
    for i in range(n - 2, -1, -1):
        sift(keys, np.uint64(i))
    # Bounds, scores and threshold are of one type: conversions would cost a tenth of the time.
    scores, docs = np.empty(k, w_first.dtype), np.empty(k, np.int64)
    size = scored = read = 0
    zero = w_first.dtype.type(0)
    lowest = over = w_first.dtype.type(OPEN)

    count = np.uint64(n)
    pivot = moved = ZERO
    target = np.int64(0)
    while True:
        # The pivot: the first document that the terms' maxima can lift over the threshold. The
        # sums up to the cursor that was moved are known.
        reach = below[pivot]
        while pivot < count:
            reach += bound[term_of(keys[pivot])]
            below[pivot + ONE] = reach
            if reach > over:
                break
            pivot += ONE
        if pivot == count:
            break
        candidate = doc_of(keys[pivot])
        if candidate == documents:
            break
        behind = doc_of(keys[0]) < candidate
        reached = pivot
        if by_block or not behind:
            while pivot + ONE < count and doc_of(keys[pivot + ONE]) == candidate:
                pivot += ONE

        skipped = False
        if by_block:
            reach = zero
            moved, largest = ZERO, zero
            target = doc_of(keys[pivot + ONE]) if pivot + ONE < count else np.int64(documents)
            for i in range(pivot + ONE):
                term = term_of(keys[i])
                if block_end[term] < candidate:
                    b = next_geq(lists.block_last, block[term], last_block[term], candidate)
                    block[term], block_end[term] = b, lists.block_last[b]
                    block_bound[term] = w_first[term] * first.block_max[b]
                    if second is not None:
                        block_bound[term] += w_second[term] * second.block_max[b]
                reach += block_bound[term]
                target = min(target, block_end[term] + 1)
                moved = np.uint64(i) if bound[term] > largest else moved
                largest = max(largest, bound[term])
            skipped = reach <= over
        # Skipped: beyond the first of these blocks to end, by the cursor with the largest bound.
        if behind and not skipped:
            # The last cursor before the pivot: those before it stay, with the sums of their bounds.
            moved, target = pivot, candidate
            while doc_of(keys[moved]) == candidate:
                moved -= ONE
        elif not skipped:
            score = zero
            for i in range(np.int64(pivot), -1, -1):
                place = np.uint64(i)
                term = term_of(keys[place])
                score += w_first[term] * first.weights[at[term]]
                if second is not None:
                    score += w_second[term] * second.weights[at[term]]
                at[term] += ONE
                doc = np.int64(lists.docs[at[term]])
                if by_block and loaded_end[term] < doc:
                    loaded_block[term] += ONE
                    loaded_end[term] = lists.block_last[loaded_block[term]]
                    loaded += doc < documents
                keys[place] = cursor(doc, term)
                sift(keys, place)
            read += np.int64(pivot) + 1
            scored += 1
            if score > lowest and score > 0:
                size = offer(scores, docs, size, score, candidate)
                if size == k:
                    lowest = scores[0]
                    over = w_first.dtype.type(lowest * factor)
            pivot = ZERO
            continue

        term = term_of(keys[moved])
        if by_block and loaded_end[term] < target:
            b = next_geq(lists.block_last, loaded_block[term], last_block[term], target)
            loaded_block[term], loaded_end[term] = b, lists.block_last[b]
            loaded += b < last_block[term]
            at[term] = lists.block_begin[b]
        at[term] = next_geq(lists.docs, at[term], end[term], target)
        keys[moved] = cursor(lists.docs[at[term]], term)
        sift(keys, moved)
        pivot = min(moved, reached)
    if not by_block:
        for i in range(n):
            loaded += np.int64(last_block[i]) - lists.term_block[terms[i]]
    return docs[:size], scores[:size], scored, read, loaded
