"""Encoded queries: a table with the weights of each query's terms on both sides, as integers.

A posting's two weights fill the same range (index.py), and so do a query's: on the learned side a
term weighs what the model says, on the BM25 side its frequency in the query, stretched so that
the query's largest is the largest learned one, times `scale`. A factor common to all terms
changes no BM25 ranking; it fixes how much α and β weigh, which the paper leaves open.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from espalier.sparse import quantize, shards
from espalier.sparse.traversal import Query

COLUMNS = ["query_id", "term", "bm25", "learned"]


def encoded(pieces: Sequence[int], learned: shards.Sparse, scale: float) -> Query:
    """A query from its word pieces, repeated ones merged, and its learned weights.

    Terms that weigh 0 on both sides are left out. Raises EspalierError for negative, NaN or
    infinite weights.
    """
    terms, frequency, weights = shards.aligned(pieces, learned)
    learned_side = quantize.query(weights)
    stretch = scale * (weights.max() if weights.any() else 1.0) / frequency.max(initial=1)
    bm25_side = quantize.query(frequency * stretch)
    kept = (bm25_side > 0) | (learned_side > 0)
    return terms[kept].astype(np.int64), bm25_side[kept], learned_side[kept]


def table(by_id: dict[str, Query]) -> pd.DataFrame:
    """Queries as a table with one row per query and term; a query without terms has no row."""
    ids = np.repeat(np.array(list(by_id), dtype=object), [len(q[0]) for q in by_id.values()])
    columns: list[npt.NDArray[np.int64]] = [
        np.concatenate([query[side] for query in by_id.values()] or [np.zeros(0, np.int64)])
        for side in range(3)
    ]
    return pd.DataFrame(dict(zip(COLUMNS, [ids, *columns], strict=True)))


def by_query(encoded_queries: pd.DataFrame) -> dict[str, Query]:
    """The queries of such a table, in its order."""
    return {
        str(query_id): (
            rows["term"].to_numpy(dtype=np.int64),
            rows["bm25"].to_numpy(dtype=np.int64),
            rows["learned"].to_numpy(dtype=np.int64),
        )
        for query_id, rows in encoded_queries.groupby("query_id", sort=False)
    }
