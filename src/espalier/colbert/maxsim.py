"""Exact MaxSim over documents of any length, straight from the store.

Tonellotto and Macdonald (CIKM 2021), equation 1: s(q, d) = sum_i max_j phi_i . psi_j. Document by
document: widen its half-precision rows, or read compressed ones back, which then lie in the
nearest cache; multiply a few at a time with the whole query; keep the maxima.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from espalier.colbert.compression import Packed, unpack
from espalier.colbert.tiles import TOKENS, WIDTH, raise_maxima

SIGN = np.int32(-(2**31))
"""The bit of the sign, which widening to int32 has copied to its place."""


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
def widen(narrow: NDArray[np.int16], wide: NDArray[np.float32]) -> None:
    """Finite half-precision numbers' bits into the first elements of `wide`, both contiguous.

    Exponent and fraction moved to their places in single precision are the number over 2^112, the
    difference of the two biases. Plain operations: not every processor converts half precision.
    """
    bits, numbers = narrow.ravel(), wide.ravel()
    for i in range(len(bits)):
        half = np.int32(bits[i])
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
    rows = room(starts, ends, query.shape[1])
    best = np.empty(WIDTH, dtype=np.float32)
    for i in range(len(starts)):
        widen(embeddings[starts[i] : ends[i]], rows)
        scores[i] = sum_of_maxima(query, rows, ends[i] - starts[i], best)


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
    rows = room(starts, ends, query.shape[1])
    best = np.empty(WIDTH, dtype=np.float32)
    for i in range(len(starts)):
        unpack(embeddings[starts[i] : ends[i]], centroids, table, rows)
        scores[i] = sum_of_maxima(query, rows, ends[i] - starts[i], best)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def room(
    starts: NDArray[np.int64], ends: NDArray[np.int64], dimensions: int
) -> NDArray[np.float32]:
    """Space for the longest document's rows and a tile more, float32[rows, dimensions]."""
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    return np.empty((longest + TOKENS, dimensions), dtype=np.float32)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sum_of_maxima(
    query: NDArray[np.float32], rows: NDArray[np.float32], n: int, best: NDArray[np.float32]
) -> np.float32:
    """Equation 1 for a document of the first `n` rows; those after are overwritten, as is `best`.

    -inf for n = 0.
    """
    if n > 0:
        for row in range(n, -(-n // TOKENS) * TOKENS):
            rows[row] = rows[n - 1]  # fills the last tile and changes no maximum
    score = np.float32(0.0)
    for panel in query:
        best[:] = -np.inf
        for first in range(0, n, TOKENS):
            raise_maxima(rows, first, panel, best)
        for maximum in best:
            score += maximum
    return score
