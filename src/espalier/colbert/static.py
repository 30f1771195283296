"""Static pruning: document embeddings that the nearest-neighbour index leaves out.

Tonellotto and Macdonald (CIKM 2021), section 5, name it as future work: static pruning (Carmel et
al., SIGIR 2001) of document embeddings "before approximate nearest neighbour search". The rule is
ours, and mirrors ICF: of each document [CLS] stays, and those tokens that are rarest in the
collection. The store keeps all embeddings, so that scores stay exact; only the index shrinks, and
a document can be missed, never scored otherwise.
"""

import numpy as np
from numpy.typing import NDArray

DOCUMENTS = 1 << 14
"""Documents that are sorted at once, so that memory does not grow with the shard."""


def kept(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    frequency: NDArray[np.int64],
    share: float,
) -> NDArray[np.bool_]:
    """Which of a shard's embeddings are indexed, bool[embeddings].

    A document with n embeddings keeps ceil(share n): its first, which is [CLS], and then by
    ascending `frequency` int64[vocabulary] of their tokens, ties by position.
    """
    chosen = np.ones(len(tokens), dtype=np.bool_)
    if share < 1:
        for start in range(0, len(offsets) - 1, DOCUMENTS):
            own = offsets[start : start + DOCUMENTS + 1]
            count = frequency[tokens[own[0] : own[-1]]]
            chosen[own[0] : own[-1]] = rarest(count, np.diff(own), share)
    return chosen


def count(offsets: NDArray[np.int64], share: float) -> int:
    """How many of a shard's embeddings are `kept`."""
    return int(stay(np.diff(offsets), share).sum())


def stay(lengths: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    """How many embeddings documents of these lengths keep: float64[n], whole numbers.

    The product is rounded, as 0.07 of 100 must be 7.
    """
    return np.ceil(np.round(share * lengths, 9))


def rarest(count: NDArray[np.int64], lengths: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """`kept` of documents one after another: frequencies int64[n], their lengths in embeddings."""
    document = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(count)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.lexsort((position, count, position > 0, document))
    chosen = np.zeros(len(count), dtype=np.bool_)
    # Sorted by document, so that the n-th of a document is where its n-th embedding was.
    chosen[order] = position < stay(lengths, share)[document]
    return chosen
