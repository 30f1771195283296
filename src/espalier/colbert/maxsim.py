"""Exact late interaction: the sum over query embeddings of the best match in a document.

Khattab and Zaharia, SIGIR 2020, equation (3); on documents of unequal length, without padding.
"""

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

CHUNK_TOKENS = 3072
"""Embeddings gathered, widened and multiplied at a time: they stay in a core's cache."""


def maxsim(
    query: NDArray[np.float32],
    embeddings: NDArray[np.float16],
    offsets: NDArray[np.int64],
    docs: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Scores float32[docs] of the documents named, against all query embeddings.

    `query` is float32[m, dimensions], `embeddings` float16[n, dimensions]; document i owns rows
    offsets[i] to offsets[i + 1]. A document without embeddings scores -inf.
    """
    scores = np.empty(len(docs), dtype=np.float32)
    if len(embeddings) == 0:
        scores.fill(-np.inf)
        return scores
    table, columns = torch.from_numpy(embeddings), torch.from_numpy(query).T
    lengths = offsets[docs + 1] - offsets[docs]
    ends = np.cumsum(lengths)
    start = 0
    while start < len(docs):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + CHUNK_TOKENS, side="right")))
        rows = token_rows(offsets, docs[start:stop], int(ends[stop - 1] - done))
        gathered = table.index_select(0, torch.from_numpy(rows)).float()
        segment_sums(torch.mm(gathered, columns).numpy(), lengths[start:stop], scores[start:stop])
        start = stop
    return scores


@njit(cache=True)  # type: ignore[untyped-decorator]
def token_rows(
    offsets: NDArray[np.int64], docs: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The rows of all embeddings of `docs`, int64[count]."""
    rows = np.empty(count, dtype=np.int64)
    at = 0
    for doc in docs:
        for row in range(offsets[doc], offsets[doc + 1]):
            rows[at] = row
            at += 1
    return rows


@njit(cache=True)  # type: ignore[untyped-decorator]
def segment_sums(
    similarity: NDArray[np.float32], lengths: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Column maxima of consecutive segments of float32[tokens, m], summed into `scores`."""
    best = np.empty(similarity.shape[1], dtype=np.float32)
    at = 0
    for i, length in enumerate(lengths):
        best[:] = -np.inf
        for row in range(at, at + length):
            for column in range(len(best)):
                best[column] = max(best[column], similarity[row, column])
        at += length
        total = np.float32(0.0)
        for value in best:
            total += value
        scores[i] = total
