"""Exact MaxSim over documents of any length, straight from the store.

Tonellotto and Macdonald (CIKM 2021), equation 1: s(q, d) = sum_i max_j phi_i . psi_j. Documents
are taken in chunks of a few thousand tokens, which stay in the cache: gather the half-precision
rows, widen them, multiply them with the whole query at once, reduce each document's rows.
"""

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

CHUNK_TOKENS = 4096


def maxsim(
    query: NDArray[np.float32],
    embeddings: NDArray[np.float16],
    offsets: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Scores float32[n] of `documents` int64[n]: sums of maxima, in single precision.

    `query` float32[q, d]; `embeddings` float16[tokens, d], memory-mapped or not; document i has
    the rows offsets[i] to offsets[i + 1]. A document without embeddings scores -inf.
    """
    scores = np.empty(len(documents), dtype=np.float32)
    starts = offsets[documents]
    ends = offsets[documents + 1]
    bounds = chunks(ends - starts, CHUNK_TOKENS)
    room = int(max((np.sum((ends - starts)[a:b]) for a, b in bounds), default=0))
    narrow = np.empty((room, embeddings.shape[1]), dtype=np.float16)
    wide = torch.empty(narrow.shape, dtype=torch.float32)
    similarity = torch.empty((room, len(query)), dtype=torch.float32)
    transposed = torch.from_numpy(np.ascontiguousarray(query)).T
    for a, b in bounds:
        rows = rows_of(starts[a:b], ends[a:b])
        n = len(rows)
        # The rows are in range by construction; mode "clip" spares the buffer of mode "raise".
        np.take(embeddings, rows, axis=0, out=narrow[:n], mode="clip")
        wide[:n].copy_(torch.from_numpy(narrow[:n]))
        torch.mm(wide[:n], transposed, out=similarity[:n])
        sum_of_maxima(similarity[:n].numpy(), ends[a:b] - starts[a:b], scores[a:b])
    return scores


def chunks(lengths: NDArray[np.int64], tokens: int) -> list[tuple[int, int]]:
    """Cut documents into runs [a, b) of at most `tokens` tokens; a longer one stands alone."""
    bounds = []
    total = np.concatenate([[0], np.cumsum(lengths)])
    a = 0
    while a < len(lengths):
        b = max(int(np.searchsorted(total, total[a] + tokens, side="right")) - 1, a + 1)
        bounds.append((a, b))
        a = b
    return bounds


@njit(cache=True)  # type: ignore[untyped-decorator]
def rows_of(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers int64 of consecutive documents, each from its start to its end."""
    rows = np.empty((ends - starts).sum(), dtype=np.int64)
    place = 0
    for i in range(len(starts)):
        for row in range(starts[i], ends[i]):
            rows[place] = row
            place += 1
    return rows


@njit(cache=True)  # type: ignore[untyped-decorator]
def sum_of_maxima(
    similarity: NDArray[np.float32], lengths: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Reduce similarity float32[tokens, q], `lengths` rows per document, into scores[n]."""
    best = np.empty(similarity.shape[1], dtype=np.float32)
    row = 0
    for i in range(len(lengths)):
        best[:] = -np.inf
        for _ in range(lengths[i]):
            for j in range(len(best)):
                best[j] = max(best[j], similarity[row, j])
            row += 1
        total = np.float32(0.0)
        for j in range(len(best)):
            total += best[j]
        scores[i] = total
