"""Orders of query embeddings: which of them the nearest-neighbour stage uses first.

Tonellotto and Macdonald (CIKM 2021), section 3. An order is a permutation of the query's
positions; pruning to p keeps its first p. Special tokens stand in no document's text, so the
frequency order puts them last: [CLS], [Q], [SEP], then the masks.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from espalier.colbert.tokens import Layout

LAST = np.iinfo(np.int64).max
"""Rank of a word piece that no document has: it can match nothing exactly."""


def first(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions as they stand, for token ids int64[queries, length]; same shape."""
    return np.broadcast_to(np.arange(ids.shape[1], dtype=np.int64), ids.shape)


def by_frequency(
    ids: NDArray[np.int64], layout: Layout, frequency: NDArray[np.int64], unseen: int = LAST
) -> NDArray[np.int64]:
    """Word pieces by ascending `frequency` int64[vocabulary], ties by position; specials last.

    With the frequency in the collection this is ICF, with that in documents IDF. `unseen` is the
    rank of a word piece that no document has: the definition's would be its frequency, 0.
    """
    kind = np.zeros_like(ids)
    for rank, special in enumerate((layout.cls, layout.query, layout.sep, layout.mask), start=1):
        kind[ids == special] = rank
    count = frequency[ids]
    count[count == 0] = unseen
    count[kind > 0] = 0
    return np.lexsort((first(ids), count, kind), axis=1)


def as_published_code(
    ids: NDArray[np.int64], layout: Layout, frequency: NDArray[np.int64]
) -> NDArray[np.int64]:
    """All tokens by ascending frequency, ties by position; those of frequency 0 last.

    So the authors' code orders them: [CLS] and [SEP], which every document has, by their frequency;
    [Q], the masks and unseen word pieces, which none has, last.
    """
    count = frequency[ids]
    count[np.isin(ids, (layout.query, layout.mask)) | (count == 0)] = LAST
    return np.lexsort((first(ids), count), axis=1)


def random(ids: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A control: every position equally likely; decided by a query's tokens and `seed`."""
    orders = [np.random.default_rng([seed, *row]).permutation(len(row)) for row in ids.tolist()]
    return np.array(orders, dtype=np.int64).reshape(ids.shape)


def selective(
    ids: NDArray[np.int64], layout: Layout, frequency: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """How many embeddings of ICF order each query searches: int64[queries], at least 1.

    The paper (section 5) leaves p chosen by query to future work; this rule is ours. The paper
    takes a token's importance as inversely proportional to its frequency in the collection
    (section 3). So p(q) is the smallest p whose word pieces hold `share` (0 to 1) of the sum of
    1 / frequency over the query's word pieces: one where a single rare piece outweighs the
    others, more where several are alike. Special tokens and unseen word pieces weigh nothing, and
    a query of no others searches one embedding.
    """
    order = by_frequency(ids, layout, frequency)
    special = np.isin(ids, (layout.cls, layout.query, layout.sep, layout.mask))
    count = np.where(special, 0, frequency[ids])
    weight = np.divide(1.0, count, out=np.zeros(ids.shape), where=count > 0)
    reached = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    p: NDArray[np.int64] = (reached < share * reached[:, -1:]).sum(axis=1) + 1
    return p


def orders(
    layout: Layout,
    collection_frequency: NDArray[np.int64],
    document_frequency: NDArray[np.int64],
    seed: int,
) -> dict[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]]:
    """Every order by its name in the config."""
    return {
        "first": first,
        "icf": lambda ids: by_frequency(ids, layout, collection_frequency),
        "idf": lambda ids: by_frequency(ids, layout, document_frequency),
        "icf-unseen": lambda ids: by_frequency(ids, layout, collection_frequency, unseen=0),
        "icf-code": lambda ids: as_published_code(ids, layout, collection_frequency),
        "random": lambda ids: random(ids, seed),
    }


def kinds(ids: NDArray[np.int64], layout: Layout) -> dict[str, NDArray[np.int64]]:
    """Masks, other tokens (the paper's word pieces) and word pieces of queries: int64[queries]."""
    masks = (ids == layout.mask).sum(axis=1)
    special = np.isin(ids, [layout.cls, layout.query, layout.sep]).sum(axis=1)
    return {
        "masks": masks,
        "tokens_without_masks": ids.shape[1] - masks,
        "word_pieces": ids.shape[1] - masks - special,
    }
