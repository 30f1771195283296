"""Block-max WAND under dual guidance: the paper's DTHS on VBMW.

The traversal is that of `wand`; every bound, threshold and queue is the guidance's.
"""

import numba
import numpy as np

from espalier.sparse.cursors import ONE, cursor, doc_of, next_geq, sift, term_of
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
    keys = np.empty(n, np.int64)  # cursors, sorted
    loaded = 0
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        end[i] = lists.term_begin[terms[i] + 1] - 1
        block[i] = loaded_block[i] = lists.term_block[terms[i]]
        last_block[i] = lists.term_block[terms[i] + 1] - 1
        loaded += block[i] < last_block[i]
        top_b, top_l = bm25.term_max[terms[i]], learned.term_max[terms[i]]
        bound_s[i] = skip.bm25[i] * top_b + skip.learned[i] * top_l
        bound_f[i] = rank.bm25[i] * top_b + rank.learned[i] * top_l
        keys[i] = cursor(lists.docs[at[i]], i)
    for i in range(n - 2, -1, -1):
        sift(keys, i)

    # Bounds, scores and thresholds are of one type: conversions would cost a tenth of the time.
    scores_s, docs_s = np.empty(k, kind), np.empty(k, np.int64)
    scores_f, docs_f = np.empty(k, kind), np.empty(k, np.int64)
    queue_s, queue_f = empty_queue(k if uniform else 0), empty_queue(k if uniform else 0)
    size_s = size_f = scored = read = 0
    zero = kind.type(0)
    over_s = over_f = kind.type(OPEN)

    while True:
        # The pivot: the first document that the terms' maxima do not let us skip.
        reach_s = reach_f = zero
        pivot = -1
        for i in range(n):
            term = term_of(keys[i])
            reach_s += bound_s[term]
            if dual:
                reach_f += bound_f[term]
            if not skipped(reach_s, reach_f, over_s, over_f, dual):
                pivot = i
                break
        if pivot < 0:
            break
        candidate = doc_of(keys[pivot])
        if candidate == documents:
            break
        while pivot + 1 < n and doc_of(keys[pivot + 1]) == candidate:
            pivot += 1

        # Its bounds by blocks.
        reach_s = reach_f = zero
        for i in range(pivot + 1):
            term = term_of(keys[i])
            b = next_geq(lists.block_last, block[term], last_block[term], candidate)
            block[term] = b
            top_b, top_l = bm25.block_max[b], learned.block_max[b]
            reach_s += skip.bm25[term] * top_b + skip.learned[term] * top_l
            if dual:
                reach_f += rank.bm25[term] * top_b + rank.learned[term] * top_l

        if skipped(reach_s, reach_f, over_s, over_f, dual):
            # Beyond the first of these blocks to end, by the cursor with the largest bound.
            moved = 0
            target = doc_of(keys[pivot + 1]) if pivot + 1 < n else np.int64(documents)
            for i in range(pivot + 1):
                term = term_of(keys[i])
                target = min(target, np.int64(lists.block_last[block[term]]) + 1)
                if bound_s[term] > bound_s[term_of(keys[moved])]:
                    moved = i
        elif doc_of(keys[0]) < candidate:
            # The cursor before the pivot with the largest bound: rare terms go far.
            moved, target, i = 0, candidate, 1
            while doc_of(keys[i]) < candidate:
                if bound_s[term_of(keys[i])] > bound_s[term_of(keys[moved])]:
                    moved = i
                i += 1
        else:
            score_s = score_f = zero
            for i in range(pivot, -1, -1):
                term = term_of(keys[i])
                weight_b, weight_l = bm25.weights[at[term]], learned.weights[at[term]]
                score_s += skip.bm25[term] * weight_b + skip.learned[term] * weight_l
                score_f += rank.bm25[term] * weight_b + rank.learned[term] * weight_l
                at[term] += ONE
                doc = np.int64(lists.docs[at[term]])
                if lists.block_last[loaded_block[term]] < doc:
                    loaded_block[term] += ONE
                    loaded += doc < documents
                keys[i] = cursor(doc, term)
                sift(keys, i)
            read += pivot + 1
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
            continue

        term = term_of(keys[moved])
        b = next_geq(lists.block_last, loaded_block[term], last_block[term], target)
        if b != loaded_block[term]:
            loaded_block[term] = b
            loaded += b < last_block[term]
            at[term] = max(at[term], np.uint64(lists.block_begin[b]))
        at[term] = next_geq(lists.docs, at[term], end[term], target)
        keys[moved] = cursor(lists.docs[at[term]], term)
        sift(keys, moved)

    if uniform:
        docs_f[:] = queue_f.docs
        scores_f[:] = queue_f.scores.astype(kind)
    positive = scores_f[:size_f] > 0
    return docs_f[:size_f][positive], scores_f[:size_f][positive], scored, read, loaded
