"""Which query embeddings take part in the nearest-neighbour stage, and in which order.

Tonellotto and Macdonald, "Query Embedding Pruning for Dense Retrieval" (CIKM 2021), sections 2
and 3: the first p embeddings of an order are used, equation (4).
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from espalier.colbert.tokens import Layout


def collection_frequency(
    shards: Iterable[NDArray[np.integer]], vocabulary: int
) -> NDArray[np.int64]:
    """How often each token occurs among the indexed embeddings: int64[vocabulary].

    `shards` gives the token ids of the embeddings, after cutting and dropping.
    """
    frequency = np.zeros(vocabulary, dtype=np.int64)
    for token_ids in shards:
        frequency += np.bincount(token_ids, minlength=vocabulary)
    return frequency


def first(token_ids: NDArray[np.integer]) -> NDArray[np.int64]:
    """The order in which the query stands: positions int64[query_length]."""
    return np.arange(len(token_ids), dtype=np.int64)


def icf(
    token_ids: NDArray[np.integer], frequency: NDArray[np.int64], layout: Layout
) -> NDArray[np.int64]:
    """Word pieces by ascending collection frequency, then [CLS], [Q], [SEP], then masks.

    Positions int64[query_length]; ties by position. A word piece that the collection lacks
    comes after those it has: it cannot match a token exactly.
    """
    seen = frequency[token_ids]
    group = np.where(seen > 0, 0, 1)
    for number, special in enumerate((layout.cls, layout.query, layout.sep, layout.mask), start=2):
        group[token_ids == special] = number
    rarity = np.where(group == 0, seen, 0)
    return np.lexsort((np.arange(len(token_ids)), rarity, group)).astype(np.int64)


def order(
    name: str, token_ids: NDArray[np.integer], frequency: NDArray[np.int64], layout: Layout
) -> NDArray[np.int64]:
    """The order named in the config: `first` or `icf`."""
    return first(token_ids) if name == "first" else icf(token_ids, frequency, layout)
