"""Blocks of posting lists and their maxima, one for each of the two weights.

Blocks have a fixed size, or variable ones as in Mallia, Ottaviano, Porciani, Tonellotto and
Venturini, "Faster BlockMax WAND with Variable-sized Blocks" (SIGIR 2017).
"""

import numba
import numpy as np
import numpy.typing as npt

from espalier.sparse.postings import Weights

EPSILON_1 = 0.01
"""No window is wider than (cost of a block) / EPSILON_1."""

EPSILON_2 = 0.4
"""A window's cost bound is 1 + EPSILON_2 times that of the one before it."""

WINDOWS = 1 + int(np.ceil(np.log(1 / EPSILON_1) / np.log1p(EPSILON_2)))
"""Cost bounds between the cost of a block and that / EPSILON_1."""

SAMPLE = 1_000_000
"""Postings on which the cost of a block is tuned."""

PIECE = 128
"""Mean blocks in the pieces that long lists are sampled by: cutting the list there adds at most
one block to so many."""

TOLERANCE = 0.005
"""Relative distance from the wanted mean block length at which tuning stops."""

SPAN = 40
"""Powers of two below the largest cost of a block among which tuning looks for one."""

FINEST = 2**-10
"""Power of two by which costs differ when tuning stops in any case: where many blocks are worth a
cut at one cost, the mean length jumps past the wanted one."""


def fixed(
    term_begin: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut every list into blocks of `size` postings, the last one shorter.

    Every list ends with a sentinel, which is a block of its own. Returns where each term's blocks
    begin, int64[V+1], and where each block's postings begin, int64[M].
    """
    counts = -(-(np.diff(term_begin) - 1) // size)
    term_block = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    within = np.arange(term_block[-1]) - np.repeat(term_block[:-1], counts)
    begin = np.repeat(term_begin[:-1], counts) + within * size
    return with_sentinels(term_block, begin, term_begin)


def with_sentinels(
    term_block: npt.NDArray[np.int64],
    block_begin: npt.NDArray[np.int64],
    term_begin: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Blocks of the lists without their sentinels -> the same with a block for each sentinel."""
    begin = np.insert(block_begin, term_block[1:], term_begin[1:] - 1)
    return term_block + np.arange(len(term_block)), begin.astype(np.int64)


def maxima(weights: Weights, begin: npt.NDArray[np.int64]) -> Weights:
    """Largest weight from each begin[i] to the next, the last one to the end: [len(begin)].

    No two may be equal.
    """
    if not len(begin):
        return np.zeros(0, dtype=weights.dtype)
    largest: Weights = np.maximum.reduceat(weights, begin)
    return largest


def variable(
    weights: Weights, term_begin: npt.NDArray[np.int64], mean: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut every list where it lowers Σ over blocks of (length · maximum − Σ weights) + λ.

    λ, the cost of a block, is one for all lists. It is tuned on a fixed sample so that blocks
    have `mean` postings; a run of equal weights costs nothing to keep together, and no block
    spans two lists, so the mean stays above the length of such runs and at most that of lists.
    A mean of 1 or less gives every posting its own block.

    Takes weights [P] and where each term's postings begin, int64[V+1], each list ending with a
    sentinel. Returns where each term's blocks begin, int64[V+1], and where each block's postings
    begin, int64[M], the sentinels' blocks among them.
    """
    if mean <= 1:
        return fixed(term_begin, 1)
    # The lists without their sentinels, which are blocks of their own in the end.
    lists = term_begin - np.arange(len(term_begin))
    kept: Weights = np.delete(weights, term_begin[1:] - 1)
    cost = tuned_cost(*sample(kept, lists, mean), mean)
    starts = np.zeros(len(kept), dtype=np.bool_)
    partition_all(kept, lists, cost, starts)
    block_begin = np.flatnonzero(starts)
    term_block = np.searchsorted(block_begin, lists).astype(np.int64)
    sentinels_before = np.repeat(np.arange(len(lists) - 1), np.diff(term_block))
    return with_sentinels(term_block, block_begin + sentinels_before, term_begin)


def sample(
    weights: Weights, term_begin: npt.NDArray[np.int64], mean: float
) -> tuple[Weights, npt.NDArray[np.int64]]:
    """About `SAMPLE` postings as lists of their own: weights and where each list begins.

    Everything when there is no more. Otherwise long lists are cut into pieces of `PIECE` mean
    blocks, and of all pieces, ordered by length, every n-th is taken: each posting is equally
    likely to be in the sample, and all lengths have their share of it.
    """
    if len(weights) <= SAMPLE:
        return weights, term_begin
    begin = pieces(term_begin, round(PIECE * mean))
    by_length = np.argsort(np.diff(begin), kind="stable")
    step = len(weights) / SAMPLE
    first = np.random.default_rng(0).random() * step
    drawn = by_length[np.arange(first, len(by_length), step).astype(np.int64)]
    sampled: Weights = np.concatenate([weights[begin[i] : begin[i + 1]] for i in drawn])
    sizes = begin[drawn + 1] - begin[drawn]
    return sampled, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def pieces(begin: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Where pieces of at most `size` postings of each list begin, and where the last one ends."""
    counts = -(-np.diff(begin) // size)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(np.repeat(begin[:-1], counts) + within * size, begin[-1]).astype(np.int64)


def tuned_cost(weights: Weights, term_begin: npt.NDArray[np.int64], mean: float) -> float:
    """The cost of a block at which blocks have `mean` postings, or the nearest that is found."""
    starts = np.zeros(len(weights), dtype=np.bool_)
    filled = term_begin[:-1][np.diff(term_begin) > 0]
    if not len(filled):
        return 1.0
    # Above the cost of the worst list as one block, no list is worth a cut; twice that is tried.
    sums = np.add.reduceat(weights, filled, dtype=np.float64)
    sizes = np.diff(np.append(filled, len(weights)))
    worst = float((np.maximum.reduceat(weights, filled) * sizes.astype(np.float64) - sums).max())
    high = np.log2(worst) + 1 if worst > 0 else 0.0
    low = high - SPAN
    best, nearest = 2.0**high, np.inf
    while high - low > FINEST and nearest > TOLERANCE:
        middle = (low + high) / 2
        found = len(weights) / partition_all(weights, term_begin, 2.0**middle, starts)
        if abs(found / mean - 1) < nearest:
            best, nearest = 2.0**middle, abs(found / mean - 1)
        low, high = (middle, high) if found < mean else (low, middle)
    return float(best)


@numba.njit(cache=True)
def partition_all(
    weights: Weights,
    term_begin: npt.NDArray[np.int64],
    cost: float,
    starts: npt.NDArray[np.bool_],
) -> int:
    """Mark in `starts` bool[P] the postings that begin a block; the number of blocks."""
    blocks = 0
    for term in range(len(term_begin) - 1):
        if term_begin[term] < term_begin[term + 1]:
            blocks += partition(weights, term_begin[term], term_begin[term + 1], cost, starts)
    return blocks


@numba.njit(cache=True)
def partition(
    weights: Weights, begin: int, end: int, cost: float, starts: npt.NDArray[np.bool_]
) -> int:
    """Cut the non-empty list [begin, end); mark `starts` there, and count the blocks.

    The sparsified shortest path of Ottaviano and Venturini, "Partitioned Elias-Fano Indexes"
    (SIGIR 2014): from each posting, for each bound cost · (1 + ε₂)^i, only the longest block
    within the bound is considered. A block's cost grows with it, so that path costs at most
    1 + ε₂ times the best one of blocks within the last bound, and cutting a dearer block into
    such blocks costs at most 1 + 2ε₁ / (1 − ε₁) times as much.
    """
    size = end - begin
    total = np.zeros(size + 1, dtype=np.float64)
    for i in range(size):
        total[i + 1] = total[i] + weights[begin + i]
    # From a window's first posting, this chain leads to its largest. A window walks no link twice,
    # as in a monotone queue, and all windows share the chain.
    larger = next_larger(weights[begin:end])
    stop = np.zeros(WINDOWS, dtype=np.int64)
    largest = np.zeros(WINDOWS, dtype=np.int64)
    bound = cost * (1 + EPSILON_2) ** np.arange(WINDOWS)
    windows = WINDOWS
    best = np.full(size + 1, np.inf)
    best[0] = 0
    previous = np.zeros(size + 1, dtype=np.int64)
    for start in range(size):
        for w in range(windows):
            at, top = stop[w], largest[w]
            if at <= start:
                at, top = start + 1, start
            elif top < start:
                top = start
                while larger[top] < at:
                    top = larger[top]
            maximum = np.float64(weights[begin + top])
            while at < size:
                weight = np.float64(weights[begin + at])
                peak = max(maximum, weight)
                if cost + peak * (at + 1 - start) - (total[at + 1] - total[start]) > bound[w]:
                    break
                if weight >= maximum:
                    maximum, top = weight, at
                at += 1
            stop[w], largest[w] = at, top
            reached = best[start] + cost + maximum * (at - start) - (total[at] - total[start])
            if reached < best[at]:
                best[at] = reached
                previous[at] = start
            if at == size:
                # Larger windows end there too, now and from every later start.
                windows = w + 1
                break

    starts[begin:end] = False
    blocks = 0
    at = size
    while at > 0:
        at = previous[at]
        starts[begin + at] = True
        blocks += 1
    return blocks


@numba.njit(cache=True)
def next_larger(weights: Weights) -> npt.NDArray[np.int64]:
    """Index of the next larger weight, int64[n]; n where there is none."""
    larger = np.empty(len(weights), dtype=np.int64)
    for i in range(len(weights) - 1, -1, -1):
        after = i + 1
        while after < len(weights) and weights[after] <= weights[i]:
            after = larger[after]
        larger[i] = after
    return larger
