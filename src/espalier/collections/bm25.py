"""BM25 over words: the candidates that re-rankers get, and a baseline.

Robertson and Zaragoza (FnTIR 2009) in Lucene's variant (Kamphuis et al., ECIR 2020), computed by
bm25s (Lù, 2024): a term's part is ln(1 + (N − df + ½)/(df + ½)) · tf / (tf + k1·(1 − b + b·L/L̄)).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import bm25s
import numpy as np
import pandas as pd
from tqdm import tqdm

K1, B, DEPTH = 0.9, 0.4, 100

WORD = r"(?u)\b\w+\b"


def retrieve(
    docs: Iterable[Any],
    queries: Mapping[str, str],
    *,
    k1: float = K1,
    b: float = B,
    depth: int = DEPTH,
) -> pd.DataFrame:
    """Score `docs` (doc_id, title, text) for every query and keep the first `depth`.

    Words are lower-cased, English stop words left out, nothing stemmed. Ties go by doc_id; a
    document that shares no word with the query is not returned. Columns query_id, doc_id (str),
    score (float32), in the queries' order, best first.
    """
    doc_ids: list[str] = []
    texts = []
    for doc in docs:
        doc_ids.append(doc.doc_id)
        texts.append(f"{doc.title} {doc.text}")
    index = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float32")
    index.index(tokens(texts), show_progress=False)
    order = place_by_id(doc_ids)
    names = np.asarray(doc_ids, dtype=object)
    parts = []
    asked = tokens(list(queries.values()), as_ids=False)
    for query_id, words in zip(
        queries, tqdm(asked, desc="BM25", unit="query", mininterval=2), strict=True
    ):
        known = index.get_tokens_ids(words)
        if known:
            scores = index.get_scores_from_ids(known)
            best = top(scores, order, depth)
            columns = {"query_id": query_id, "doc_id": names[best], "score": scores[best]}
            parts.append(pd.DataFrame(columns))
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": np.empty(0, np.float32)})
    return pd.concat(parts, ignore_index=True) if parts else empty


def tokens(texts: list[str], *, as_ids: bool = True) -> Any:
    """bm25s's tokens: ids with their vocabulary for documents, words for queries."""
    return bm25s.tokenize(
        texts, stopwords="en", token_pattern=WORD, return_ids=as_ids, show_progress=False
    )


def place_by_id(doc_ids: list[str]) -> np.ndarray:
    """The place of each document when sorted by doc_id (int64)."""
    places = np.empty(len(doc_ids), dtype=np.int64)
    places[np.argsort(np.asarray(doc_ids, dtype=object), kind="stable")] = np.arange(len(doc_ids))
    return places


def top(scores: np.ndarray, order: np.ndarray, depth: int) -> np.ndarray:
    """Positions of the `depth` highest positive scores, ties by `order`; int64."""
    cut = max(0.0, np.partition(scores, -depth)[-depth]) if depth < len(scores) else 0.0
    (candidates,) = np.nonzero((scores >= cut) & (scores > 0))
    ranked = candidates[np.lexsort((order[candidates], -scores[candidates]))]
    return ranked[:depth]
