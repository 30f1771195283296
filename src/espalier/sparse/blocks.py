"""Blocks of posting lists and their maxima, one for each of the two weights."""

import numpy as np
import numpy.typing as npt


def fixed(
    term_begin: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut every list into blocks of `size` postings, the last one shorter.

    Returns where each term's blocks begin, int64[V+1], and where each block's postings begin,
    int64[M+1] (the last entry closes the last block).
    """
    counts = -(-np.diff(term_begin) // size)
    term_block = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    within = np.arange(term_block[-1]) - np.repeat(term_block[:-1], counts)
    begin = np.repeat(term_begin[:-1], counts) + within * size
    return term_block, np.append(begin, term_begin[-1]).astype(np.int64)


def maxima(weights: npt.NDArray[np.uint8], begin: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Largest weight of each non-empty range [begin[i], begin[i+1]), uint8[len(begin) − 1]."""
    if len(begin) < 2:
        return np.zeros(0, dtype=np.uint8)
    largest: npt.NDArray[np.uint8] = np.maximum.reduceat(weights, begin[:-1])
    return largest
