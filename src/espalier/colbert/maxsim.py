"""Exact MaxSim over documents of any length, straight from the store.

Tonellotto and Macdonald (CIKM 2021), equation 1: s(q, d) = sum_i max_j phi_i . psi_j. A few rows at
a time: widen them from half precision, so that they lie in the nearest cache; multiply them with
the whole query; keep each document's maxima. Compressed rows are read back document by document.
No gathering comes before.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from espalier.colbert.compression import Packed, unpack
from espalier.colbert.tiles import (
    CONVERTS,
    LANES,
    TOKENS,
    WIDTH,
    convert,
    prefetch,
    raise_maxima,
)

SIGN = np.int32(-(2**31))
"""The bit of the sign, which widening to int32 has copied to its place."""

AHEAD = 24
"""Rows between that which is scored and that which is asked for from memory."""

LINE = 32
"""Half-precision numbers that come from memory at once."""


def maxsim(
    query: NDArray[np.float32],
    embeddings: NDArray[np.float16] | Packed,
    offsets: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Scores float32[n] of `documents` int64[n]: sums of maxima, in single precision.

    `query` float32[q, d]; `embeddings` [tokens, d], memory-mapped or not; document i has the rows
    offsets[i] to offsets[i + 1]. A document without embeddings scores -inf. Torch's
    number of threads holds here too.
    """
    if query.shape[1] != embeddings.shape[1]:  # the kernel would read past the end
        raise ValueError(f"{query.shape[1]} dimensions against {embeddings.shape[1]}")
    scores = np.empty(len(documents), dtype=np.float32)
    starts, ends = offsets[documents], offsets[documents + 1]
    laid = panels(query)

    def part(a: int, b: int) -> None:
        bounds = starts[a:b], ends[a:b], scores[a:b]
        if isinstance(embeddings, Packed):
            codec = embeddings.codec
            score_packed(laid, embeddings.rows, codec.centroids, codec.table, *bounds)
        else:
            score_halves(laid, embeddings.view(np.int16), *bounds)

    bounds = shares(ends - starts, torch.get_num_threads())
    if len(bounds) == 2:
        part(*bounds)
    else:
        with ThreadPoolExecutor(len(bounds) - 1) as pool:
            list(pool.map(part, bounds[:-1], bounds[1:]))
    return scores


def panels(query: NDArray[np.float32]) -> NDArray[np.float32]:
    """A query float32[q, d] as float32[panels, d, WIDTH], filled up with zeros.

    Zeros add nothing to a score.
    """
    q, d = query.shape
    padded = np.zeros((-(-q // WIDTH) * WIDTH, d), dtype=np.float32)
    padded[:q] = query
    return np.ascontiguousarray(padded.reshape(-1, WIDTH, d).swapaxes(1, 2))


def shares(lengths: NDArray[np.int64], threads: int) -> list[int]:
    """Bounds that cut documents of so many tokens into `threads` parts of about equal tokens."""
    total = np.cumsum(lengths)
    tokens = total[-1] if len(total) else 0
    inner = np.searchsorted(total, tokens * np.arange(1, threads) / threads)
    return [0, *inner.tolist(), len(lengths)]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def widen(halves: NDArray[np.int16], start: int, stop: int, numbers: NDArray[np.float32]) -> None:
    """Finite half-precision numbers, bits int16[n] from `start` to `stop`, to the front of others.

    A vector at a time where the processor can.
    """
    converted = (stop - start) // LANES * LANES if CONVERTS else 0
    for i in range(0, converted, LANES):
        convert(halves, start + i, numbers, i)
    if start + converted < stop:
        widen_each(halves, start + converted, stop, numbers[converted:])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def widen_each(
    halves: NDArray[np.int16], start: int, stop: int, numbers: NDArray[np.float32]
) -> None:
    """`widen` by plain operations.

    Exponent and fraction moved to their places in single precision are the number over 2^112, the
    difference of the two biases.
    """
    for i in range(stop - start):
        half = np.int32(halves[start + i])
        moved = np.int32((half & 0x7FFF) << 13 | (half & SIGN))
        numbers[i] = moved.view(np.float32) * np.float32(2.0**112)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def score_halves(
    query: NDArray[np.float32],
    embeddings: NDArray[np.int16],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> None:
    """Equation 1 for documents of the rows starts[i] to ends[i] into scores[n].

    `query` as `panels` gives it; `embeddings` int16[tokens, d], the bits of half precision.
    """
    width = embeddings.shape[1]
    halves = embeddings.ravel()
    rows = np.empty((TOKENS, width), dtype=np.float32)
    numbers = rows.ravel()
    best = np.empty((len(query), WIDTH), dtype=np.float32)
    for i in range(len(starts)):
        best[:] = -np.inf
        for first in range(starts[i], ends[i], TOKENS):
            last = min(first + TOKENS, ends[i])
            look_ahead(halves, width, first, i, starts, ends)
            widen(halves, first * width, last * width, numbers)
            raise_all(query, rows, 0, last - first, best)
        scores[i] = total(best)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def score_packed(
    query: NDArray[np.float32],
    embeddings: NDArray[np.uint8],
    centroids: NDArray[np.float32],
    table: NDArray[np.float32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> None:
    """`score_halves` of compressed embeddings uint8[tokens, width] and their codec's arrays."""
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    rows = np.empty((longest + TOKENS, query.shape[1]), dtype=np.float32)
    best = np.empty((len(query), WIDTH), dtype=np.float32)
    for i in range(len(starts)):
        unpack(embeddings[starts[i] : ends[i]], centroids, table, rows)
        scores[i] = sum_of_maxima(query, rows, ends[i] - starts[i], best)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sum_of_maxima(
    query: NDArray[np.float32], rows: NDArray[np.float32], n: int, best: NDArray[np.float32]
) -> np.float32:
    """Equation 1 for a document of the first `n` rows; those after, and `best`, are overwritten."""
    best[:] = -np.inf
    for first in range(0, n, TOKENS):
        raise_all(query, rows, first, min(n - first, TOKENS), best)
    score: np.float32 = total(best)
    return score


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def look_ahead(
    halves: NDArray[np.int16],
    width: int,
    first: int,
    i: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Ask for the tile that comes AHEAD rows after row `first` of document i, or of the next.

    Candidates lie apart, and a processor does not see by itself where the next one begins.
    `halves` holds rows of `width`, one after another.
    """
    row = first + AHEAD
    if row >= ends[i] and i + 1 < len(starts):
        row += starts[i + 1] - ends[i]
    for place in range(row * width, (row + TOKENS) * width, LINE):
        prefetch(halves, place)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def raise_all(
    query: NDArray[np.float32],
    rows: NDArray[np.float32],
    first: int,
    n: int,
    best: NDArray[np.float32],
) -> None:
    """Raise best float32[panels, WIDTH] to the largest product of `n` > 0 rows from `first` on.

    Those that make up a tile with them are overwritten.
    """
    last = first + n - 1
    for row in range(last + 1, first + TOKENS):  # fills the tile and changes no maximum
        for j in range(rows.shape[1]):
            rows[row, j] = rows[last, j]
    for panel in range(len(query)):
        raise_maxima(rows, first, query, panel, best)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def total(best: NDArray[np.float32]) -> np.float32:
    """The sum of maxima float32[panels, WIDTH]."""
    score = np.float32(0.0)
    for panel in range(len(best)):
        for i in range(WIDTH):
            score += best[panel, i]
    return score
