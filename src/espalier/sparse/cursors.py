"""Moving in sorted document numbers: posting lists, or the last documents of blocks.

Places in arrays are unsigned, here and in all kernels: numba tests a signed index that it cannot
prove to be positive on every access, in case it counts from the end.
"""

import numba
import numpy as np

ONE = np.uint64(1)

BITS = np.int64(16)
"""Bits of a cursor that hold its term's place in the query."""

MASK = np.int64(2**16 - 1)

MOST_TERMS = 2**16
"""Terms that a query can have."""


@numba.njit(cache=True)
def next_geq(docs, at, end, doc):
    """The first place from `at` on whose document is `doc` or later: gallop, then halve.

    `end` is the place of the list's sentinel, whose document is not below any.
    """
    if docs[at] < doc:
        step = ONE
        while at + step < end and docs[at + step] < doc:
            at += step
            step += step
        high = min(at + step, end)
        at += ONE
        while at < high:
            middle = (at + high) >> ONE
            if docs[middle] < doc:
                at = middle + ONE
            else:
                high = middle
    return at


@numba.njit(cache=True, inline="always")
def cursor(doc, term):
    """A cursor as one number, so that cursors sort by document: they stand in one array."""
    return (np.int64(doc) << BITS) | np.int64(term)


@numba.njit(cache=True, inline="always")
def doc_of(key):
    """The document that a cursor stands at."""
    return key >> BITS


@numba.njit(cache=True, inline="always")
def term_of(key):
    """The place in the query of a cursor's term."""
    return np.uint64(key & MASK)


@numba.njit(cache=True)
def sift(keys, i):
    """Move cursor i, which went ahead, up to its place among the sorted ones after it."""
    n = len(keys)
    key = keys[i]
    while i + 1 < n and keys[i + 1] < key:
        keys[i] = keys[i + 1]
        i += 1
    keys[i] = key
