"""Moving in sorted document numbers: posting lists, or the last documents of blocks.

Cursors move a few postings at a time by amounts that nobody can foresee, and a mispredicted branch
costs as much as twenty instructions: so the next few postings are compared all at once, and sorted
cursors are kept so by minima and maxima.

Places in arrays are unsigned, here and in all kernels: numba tests a signed index that it cannot
prove to be positive on every access, in case it counts from the end.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

ZERO = np.uint64(0)
ONE = np.uint64(1)

BITS = np.int64(16)
"""Bits of a cursor that hold its term's place in the query."""

MASK = np.int64(2**16 - 1)

MOST_TERMS = 2**16
"""Terms that a query can have."""

LANES = 8
NEAR = np.uint64(LANES)
"""Postings that are compared at once."""

SHIFTED = np.uint64(8)
"""Cursors that are moved up before it is asked whether the place is found."""


@intrinsic
def smaller(_: Any, docs: Any, at: Any, doc: Any) -> Any:
    """How many of docs[at : at + LANES] come before the first that is `doc` or later.

    `docs` uint32, contiguous.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, word = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(lane, LANES)
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        found = builder.load(builder.bitcast(place, vector.as_pointer()))
        found.align = 4
        alone = builder.insert_element(
            ir.Constant(vector, ir.Undefined), builder.trunc(args[2], lane), ir.Constant(lane, 0)
        )
        everywhere = ir.Constant(vector, [0] * LANES)
        wanted = builder.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), everywhere)
        reached = builder.bitcast(builder.icmp_unsigned(">=", found, wanted), ir.IntType(LANES))
        bits = builder.or_(builder.zext(reached, word), ir.Constant(word, 1 << LANES))
        return builder.cttz(bits, ir.Constant(ir.IntType(1), 1))

    return types.uint64(docs, types.uint64, types.int64), lower


@numba.njit(cache=True)
def next_geq(docs, at, end, doc):
    """The first place from `at` on whose document is `doc` or later: look near, gallop, halve.

    `end` is the place of the list's sentinel, whose document is not below any.
    """
    if at + NEAR <= np.uint64(len(docs)):
        steps = smaller(docs, at, doc)
        at += steps
        if steps < NEAR:
            return at
    if docs[at] < doc:
        step = NEAR
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
    """Move cursor i (uint64), which went ahead, up to its place among the sorted ones after it."""
    n = np.uint64(len(keys))
    key = keys[i]
    after = i + ONE
    while after < n:
        stop = min(after + SHIFTED, n)
        while after < stop:
            keys[i] = min(key, keys[after])
            key = max(key, keys[after])
            i = after
            after += ONE
        if after < n and key <= keys[after]:
            break
    keys[i] = key
