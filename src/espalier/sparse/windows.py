"""Retrieval in windows of documents, whose accumulators stay in the processor's cache.

Within a window, posting lists are added term at a time to the accumulators. Without pruning this
is exhaustive. With it, it is MaxScore (Turtle and Flood 1995): the terms with the smallest bounds
whose sum cannot lift a document over the threshold are non-essential, and only the documents that
the other terms bring near the threshold are followed through them, from the largest bound to the
smallest. With the block maxima of each window in place of the lists' maxima (after Ding and Suel
2011), the choice is made anew in every window, and windows that cannot hold a result are skipped.
"""

import numba
import numpy as np

from espalier.sparse.cursors import ONE, next_geq
from espalier.sparse.heap import OPEN

CHUNK = 128
"""Accumulators that are compared with the threshold at once."""

NONE = np.uint64(2**64 - 1)

LARGEST = 2**31 - 1
"""A limit that 32 bits hold; `retrieval.accumulators` are wider where scores pass it."""

FREQUENT = 4
"""A list is non-essential only if it has one in so many documents: to add shorter ones costs less
than to pick the documents that are worth following."""

LOOKUP = 128
"""A document looked up in a list costs about as much as so many postings added in a row."""


@numba.njit(cache=True)
def add(docs, weights, at, low, high, weight, sums):
    """Add a list's postings below document `high` to the accumulators; where the list then is."""
    doc = np.int64(docs[at])
    while doc < high:
        sums[np.uint64(doc - low)] += weight * weights[at]
        at += ONE
        doc = np.int64(docs[at])
    return at


@numba.njit(cache=True)
def add_both(lists, first, second, at, end, low, high, w_first, w_second, sums):
    """Add a list's postings of documents low … high − 1: where they begin, and where they end."""
    start = next_geq(lists.docs, at, end, low)
    at = add(lists.docs, first.weights, start, low, high, w_first, sums)
    if second is not None:
        add(lists.docs, second.weights, start, low, high, w_second, sums)
    return start, at


@numba.njit(cache=True)
def window_bound(lists, first, second, block, high, w_first, w_second):
    """A term's bound from `block` on, up to the block that holds document `high` − 1."""
    bound = w_first * first.block_max[block]
    if second is not None:
        bound += w_second * second.block_max[block]
    while lists.block_last[block] < high - 1:
        block += ONE
        other = w_first * first.block_max[block]
        if second is not None:
            other += w_second * second.block_max[block]
        bound = max(bound, other)
    return bound


@numba.njit(cache=True, inline="always")
def newly_loaded(lists, counted, block, last_block, first, last):
    """Blocks with documents first … last of a list, from `block` on, less the one `counted` last.

    Their number, and the last of them.
    """
    start = next_geq(lists.block_last, block if counted == NONE else counted, last_block, first)
    stop = next_geq(lists.block_last, start, last_block, last)
    return np.int64(stop - start) + np.int64(start != counted), stop


@numba.njit(cache=True)
def above(sums, limit):
    """How many sums are above the limit. Written so that the compiler takes several at once."""
    found = 0
    for i in range(len(sums)):
        found += sums[i] > limit
    return found


@numba.njit(cache=True)
def near(sums, limit, slots):
    """Slots whose sum is above the limit, into `slots`; how many."""
    found = 0
    for chunk in range(0, len(sums), CHUNK):
        if above(sums[chunk : chunk + CHUNK], limit) > 0:
            for slot in range(chunk, chunk + CHUNK):  # no branch, which would be mispredicted
                slots[found] = slot
                found += sums[slot] > limit
    return found


@numba.njit(cache=True)
def kth_largest(values, size, k, spare):
    """The k-th largest of the first `size` values; both arrays are overwritten.

    Selection by pivots, as in quicksort, copying instead of branching.
    """
    while True:
        first, middle, last = values[0], values[size // 2], values[size - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        larger = smaller = equal = 0
        for i in range(size):
            value = values[i]
            spare[larger] = value
            larger += value > pivot
            equal += value == pivot
        if k <= larger:
            values, spare, size = spare, values, larger
        elif k <= larger + equal:
            return pivot
        else:
            for i in range(size):
                value = values[i]
                values[smaller] = value
                smaller += value < pivot
            k -= larger + equal
            size = smaller


@numba.njit(cache=True)
def keep_best(docs, scores, scratch, size, k):
    """Keep the k best of `size` documents in ascending order, ties to the smaller; the lowest."""
    scratch[0, :size] = scores[:size]
    lowest = kth_largest(scratch[0], size, k, scratch[1])
    ties = k
    for i in range(size):
        ties -= scores[i] > lowest
    kept = 0
    for i in range(size):
        score = scores[i]
        docs[kept], scores[kept] = docs[i], score
        kept += (score > lowest) | ((score == lowest) & (ties > 0))
        ties -= score == lowest
    return lowest


@numba.njit(cache=True)
def windows(
    lists, first, second, terms, w_first, w_second, sums, documents, k, pruned, by_block, factor
):  # fmt: skip
    """The top k. `sums` are zeros of the scores' type, one for each document of a window.

    Their number is a multiple of CHUNK. `lists` is a `Lists`, `first` a `Side`, `second` another
    or None; terms int64[n], [n] query weights of each side. `pruned`: MaxScore; `by_block`: with
    block maxima. `factor` over-estimates the threshold (1 is safe). Returns documents int64[≤k],
    ascending, their scores float64[≤k], and the numbers of documents scored, postings read and
    blocks loaded.
    """
    n = len(terms)
    window = len(sums)
    at = np.empty(n, np.uint64)
    end = np.empty(n, np.uint64)
    block = np.empty(n, np.uint64)
    counted = np.full(n, NONE)  # the last block that was loaded
    last_block = np.empty(n, np.uint64)
    size_of = np.empty(n, np.int64)
    bound = np.zeros(n, w_first.dtype)
    below = np.zeros(n + 1, w_first.dtype)  # sum of the bounds of the first i terms in order
    order = np.arange(n).astype(np.uint64)
    for i in range(n):
        at[i] = lists.term_begin[terms[i]]
        end[i] = lists.term_begin[terms[i] + 1] - 1
        size_of[i] = lists.term_begin[terms[i] + 1] - 1 - lists.term_begin[terms[i]]
        block[i] = lists.term_block[terms[i]]
        last_block[i] = lists.term_block[terms[i] + 1] - 1
        bound[i] = w_first[i] * first.term_max[terms[i]]
        if second is not None:
            bound[i] += w_second[i] * second.term_max[terms[i]]
    room = 2 * k + window
    docs, scores, scratch = np.empty(room, np.int64), np.empty(room), np.empty((2, room))
    slots = np.empty(window + 1, np.uint64)
    limit = np.zeros(1, sums.dtype)
    size = scored = read = loaded = 0
    over = OPEN
    top = np.float64(LARGEST)  # of any sum

    for low in range(0, documents, window):
        high = min(low + window, documents)
        if by_block:
            for i in range(n):
                block[i] = next_geq(lists.block_last, block[i], last_block[i], low)
                bound[i] = window_bound(
                    lists, first, second, block[i], high, w_first[i], w_second[i]
                )
        essential = 0
        if pruned:
            for i in range(1, n):
                j, moved = i, order[i]
                while j > 0 and bound[order[j - 1]] > bound[moved]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moved
            for i in range(n):
                below[i + 1] = below[i] + bound[order[i]]
            while essential < n and below[essential + 1] <= over:
                essential += 1
            if essential == n:
                continue
            while essential > 0 and FREQUENT * size_of[order[essential - 1]] < documents:
                essential -= 1

        for j in range(essential, n):
            i = order[j]
            start, at[i] = add_both(
                lists, first, second, at[i], end[i], low, high, w_first[i], w_second[i], sums
            )
            if at[i] > start and pruned:
                read += np.int64(at[i] - start)
                more, counted[i] = newly_loaded(
                    lists,
                    counted[i],
                    block[i],
                    last_block[i],
                    lists.docs[start],
                    lists.docs[at[i] - ONE],
                )
                loaded += more
        if not pruned:
            scored += above(sums, limit[0])
        # Sums are integers or floats; a limit between two integers is as good as the lower one.
        limit[0] = min(max(over - below[essential], 0), top)
        count = near(sums, limit[0], slots)
        limit[0] = 0
        for j in range(essential - 1, -1, -1):
            if count == 0:
                break
            i = order[j]
            if count * LOOKUP * documents > size_of[i] * window:
                start, at[i] = add_both(
                    lists, first, second, at[i], end[i], low, high, w_first[i], w_second[i], sums
                )
                if at[i] > start:
                    read += np.int64(at[i] - start)
                    more, counted[i] = newly_loaded(
                        lists,
                        counted[i],
                        block[i],
                        last_block[i],
                        lists.docs[start],
                        lists.docs[at[i] - ONE],
                    )
                    loaded += more
            else:
                for s in range(count):
                    doc = low + np.int64(slots[s])
                    at[i] = next_geq(lists.docs, at[i], end[i], doc)
                    if lists.docs[at[i]] == doc:
                        sums[slots[s]] += w_first[i] * first.weights[at[i]]
                        if second is not None:
                            sums[slots[s]] += w_second[i] * second.weights[at[i]]
                        read += 1
                        more, counted[i] = newly_loaded(
                            lists, counted[i], block[i], last_block[i], doc, doc
                        )
                        loaded += more
            kept = 0
            for s in range(count):
                slots[kept] = slots[s]
                kept += np.int64(sums[slots[s]] + below[j] > over)
            count = kept
        scored += count if pruned else 0
        for s in range(count):
            docs[size], scores[size] = low + np.int64(slots[s]), sums[slots[s]]
            size += 1
        sums[:] = 0
        if size >= 2 * k or (size >= k and over == OPEN):
            over = keep_best(docs, scores, scratch, size, k) * factor
            size = k
    if size > k:
        keep_best(docs, scores, scratch, size, k)
        size = k
    if not pruned:
        read = size_of.sum()
        for i in range(n):
            loaded += np.int64(last_block[i]) - lists.term_block[terms[i]]
    return docs[:size], scores[:size], scored, read, loaded
