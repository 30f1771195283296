"""Block-max WAND under dual guidance: the paper's DTHS on VBMW.

The traversal is that of `wand`; every bound, threshold and queue is the guidance's.
"""

import numba
import numpy as np

from espalier.sparse.cursors import ONE, ZERO, cursor, doc_of, next_geq, sift, term_of
from espalier.sparse.guidance import empty_queue, offer_uniform, skipped
from espalier.sparse.heap import OPEN, offer


@numba.njit(cache=True)
def dths(
    lists, bm25, learned, terms, skip, rank, documents, k, f_s, f_f, dual, uniform
):  # fmt: skip
    """The top k under dual guidance.

    `lists` is a `Lists`, `bm25` and `learned` are its `Side`s; terms int64[n]; `skip` and `rank`
    are the query `Mixed` by α and by β. Returns documents int64[≤k] and final scores [≤k] in no
    order, and the numbers of documents scored, postings read and blocks loaded.
    """
    n = len(terms)
    at = np.empty(n, np.uint64)
    end = np.empty(n, np.uint64)
    block = np.empty(n, np.uint64)
    last_block = np.empty(n, np.uint64)
    loaded_block = np.empty(n, np.uint64)
    kind = skip.learned.dtype
    bound_s = np.empty(n, kind)
    bound_f = np.empty(n, kind)
    # Of the block that bounds a term's score, and of that where its cursor stands: the last
    # documents, since most documents lie in the same blocks as the one before.
    block_end = np.empty(n, np.int64)
    loaded_end = np.empty(n, np.int64)
    block_s = np.zeros(n, kind)
    block_f = np.zeros(n, kind)
    below_s = np.zeros(n + 1, kind)  # sums of the bounds of the cursors before each
    below_f = np.zeros(n + 1, kind)
    keys = np.empty(n, np.int64)  # cursors, sorted
    loaded = 0
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        end[i] = lists.term_begin[terms[i] + 1] - 1
        block[i] = loaded_block[i] = lists.term_block[terms[i]]
        last_block[i] = lists.term_block[terms[i] + 1] - 1
        block_end[i], loaded_end[i] = -1, lists.block_last[block[i]]
        loaded += block[i] < last_block[i]
        top_b, top_l = bm25.term_max[terms[i]], learned.term_max[terms[i]]
        bound_s[i] = skip.bm25[i] * top_b + skip.learned[i] * top_l
        bound_f[i] = rank.bm25[i] * top_b + rank.learned[i] * top_l
        keys[i] = cursor(lists.docs[at[i]], i)
    for i in range(n - 2, -1, -1):
        sift(keys, np.uint64(i))

    # Bounds, scores and thresholds are of one type: conversions would cost a tenth of the time.
    scores_s, docs_s = np.empty(k, kind), np.empty(k, np.int64)
    scores_f, docs_f = np.empty(k, kind), np.empty(k, np.int64)
    queue_s, queue_f = empty_queue(k if uniform else 0), empty_queue(k if uniform else 0)
    size_s = size_f = scored = read = 0
    zero = kind.type(0)
    over_s = over_f = kind.type(OPEN)

    count = np.uint64(n)
    pivot = ZERO
    while True:
        # The pivot: the first document that the terms' maxima do not let us skip. The sums up to
        # the cursor that was moved are known.
        reach_s, reach_f = below_s[pivot], below_f[pivot]
        while pivot < count:
            term = term_of(keys[pivot])
            reach_s += bound_s[term]
            below_s[pivot + ONE] = reach_s
            if dual:
                reach_f += bound_f[term]
                below_f[pivot + ONE] = reach_f
            if not skipped(reach_s, reach_f, over_s, over_f, dual):
                break
            pivot += ONE
        if pivot == count:
            break
        candidate = doc_of(keys[pivot])
        if candidate == documents:
            break
        behind = doc_of(keys[0]) < candidate
        reached = pivot
        while pivot + ONE < count and doc_of(keys[pivot + ONE]) == candidate:
            pivot += ONE

        # Its bounds by blocks.
        reach_s = reach_f = largest = zero
        moved = ZERO
        target = doc_of(keys[pivot + ONE]) if pivot + ONE < count else np.int64(documents)
        for i in range(pivot + ONE):
            term = term_of(keys[i])
            if block_end[term] < candidate:
                b = next_geq(lists.block_last, block[term], last_block[term], candidate)
                block[term], block_end[term] = b, lists.block_last[b]
                top_b, top_l = bm25.block_max[b], learned.block_max[b]
                block_s[term] = skip.bm25[term] * top_b + skip.learned[term] * top_l
                block_f[term] = rank.bm25[term] * top_b + rank.learned[term] * top_l
            reach_s += block_s[term]
            if dual:
                reach_f += block_f[term]
            target = min(target, block_end[term] + 1)
            moved = np.uint64(i) if bound_s[term] > largest else moved
            largest = max(largest, bound_s[term])
        passed = skipped(reach_s, reach_f, over_s, over_f, dual)

        # Skipped: beyond the first of these blocks to end, by the cursor with the largest bound.
        if behind and not passed:
            # The last cursor before the pivot: those before it stay, with the sums of their bounds.
            moved, target = pivot, candidate
            while doc_of(keys[moved]) == candidate:
                moved -= ONE
        elif not passed:
            score_s = score_f = zero
            for i in range(np.int64(pivot), -1, -1):
                place = np.uint64(i)
                term = term_of(keys[place])
                weight_b, weight_l = bm25.weights[at[term]], learned.weights[at[term]]
                score_s += skip.bm25[term] * weight_b + skip.learned[term] * weight_l
                score_f += rank.bm25[term] * weight_b + rank.learned[term] * weight_l
                at[term] += ONE
                doc = np.int64(lists.docs[at[term]])
                if loaded_end[term] < doc:
                    loaded_block[term] += ONE
                    loaded_end[term] = lists.block_last[loaded_block[term]]
                    loaded += doc < documents
                keys[place] = cursor(doc, term)
                sift(keys, place)
            read += np.int64(pivot) + 1
            scored += 1
            if uniform:
                size_f = offer_uniform(queue_s, queue_f, size_f, candidate, score_s, score_f)
                if size_f == k:
                    over_s = kind.type(queue_s.scores[queue_s.heap[0]] * f_s)
                    over_f = kind.type(queue_f.scores[queue_f.heap[0]] * f_f)
            else:
                size_s = offer(scores_s, docs_s, size_s, score_s, candidate)
                size_f = offer(scores_f, docs_f, size_f, score_f, candidate)
                if size_f == k:
                    over_s, over_f = kind.type(scores_s[0] * f_s), kind.type(scores_f[0] * f_f)
            pivot = ZERO
            continue

        term = term_of(keys[moved])
        if loaded_end[term] < target:
            b = next_geq(lists.block_last, loaded_block[term], last_block[term], target)
            loaded_block[term], loaded_end[term] = b, lists.block_last[b]
            loaded += b < last_block[term]
            at[term] = lists.block_begin[b]
        at[term] = next_geq(lists.docs, at[term], end[term], target)
        keys[moved] = cursor(lists.docs[at[term]], term)
        sift(keys, moved)
        pivot = min(moved, reached)

    if uniform:
        docs_f[:] = queue_f.docs
        scores_f[:] = queue_f.scores.astype(kind)
    positive = scores_f[:size_f] > 0
    return docs_f[:size_f][positive], scores_f[:size_f][positive], scored, read, loaded
