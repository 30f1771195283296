"""Encoded queries: a table with the weights of each query's terms on both sides, as integers.

A posting's two weights fill the same range (index.py), and so do a query's: on the learned side a
term weighs what the model says, on the BM25 side its frequency in the query, stretched so that
the query's largest is the largest learned one, times `scale`. A factor common to all terms
changes no BM25 ranking; it fixes how much α and β weigh, which the paper leaves open.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from espalier.sparse import quantize
from espalier.sparse.postings import Query
from espalier.sparse.shards import Text

COLUMNS = ["query_id", "term", "bm25", "learned"]


def table(queries: Mapping[str, Text], scale: float) -> pd.DataFrame:
    """Queries as a table with one row per query and term; a query without terms has no row.

    Columns query_id, term (str), bm25, learned (int64). Terms that weigh 0 on both sides are left
    out. Raises EspalierError for negative, NaN or infinite weights.
    """
    rows = []
    for query_id, text in queries.items():
        terms = sorted(text.frequency.keys() | text.learned.keys())
        frequency = np.array([text.frequency.get(term, 0) for term in terms], np.float64)
        learned = np.array([text.learned.get(term, 0.0) for term in terms], np.float64)
        learned_side = quantize.query(learned)
        stretch = scale * (learned.max(initial=0) or 1.0) / frequency.max(initial=1)
        bm25_side = quantize.query(frequency * stretch)
        rows += [
            (query_id, term, b, w)
            for term, b, w in zip(terms, bm25_side.tolist(), learned_side.tolist(), strict=True)
            if b > 0 or w > 0
        ]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"bm25": "int64", "learned": "int64"})


def by_query(encoded: pd.DataFrame, lexicon: Mapping[str, int]) -> dict[str, Query]:
    """The queries of such a table, in its order, with an index's term numbers.

    Terms that the index does not have are left out; a query may lose all its terms.
    """
    numbers = encoded["term"].map(lexicon)
    known = encoded[numbers.notna()].assign(number=numbers.dropna().astype("int64"))
    nothing = np.zeros(0, np.int64)
    found = {
        str(query_id): Query(nothing, nothing, nothing) for query_id in encoded["query_id"].unique()
    }
    for query_id, rows in known.groupby("query_id", sort=False):
        found[str(query_id)] = Query(
            *(rows[column].to_numpy(dtype=np.int64) for column in ("number", "bm25", "learned"))
        )
    return found
