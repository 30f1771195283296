"""BM25 over words: the candidates that re-rankers get, and a baseline.

Robertson and Zaragoza (FnTIR 2009) in Lucene's variant (Kamphuis et al., ECIR 2020), computed by
bm25s (Lù, 2024): a term's part is ln(1 + (N − df + ½)/(df + ½)) · tf / (tf + k1·(1 − b + b·L/L̄)).
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import bm25s
import numpy as np
import pandas as pd
from tqdm import tqdm

# bm25s sets itself to DEBUG when imported.
logging.getLogger("bm25s").setLevel(logging.WARNING)

K1, B, DEPTH = 0.9, 0.4, 100

WORD = r"(?u)\b\w+\b"


class Bm25:
    """An index of documents (doc_id, title, text)."""

    def __init__(self, docs: Iterable[Any], *, k1: float = K1, b: float = B):
        """Index the documents' titles and texts: words lower-cased, English stop words left out."""
        self.doc_ids = []
        texts = []
        for doc in docs:
            self.doc_ids.append(doc.doc_id)
            texts.append(f"{doc.title} {doc.text}")
        self.index = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float32")
        self.index.index(tokens(texts), show_progress=False)
        self.places = place_by_id(self.doc_ids)

    def retrieve(self, queries: Mapping[str, str], depth: int = DEPTH) -> pd.DataFrame:
        """Score all documents for every query (text by query_id) and keep the first `depth`.

        Ties go by doc_id; a document that shares no word with the query is not returned. Columns
        query_id, doc_id (str), score (float32), in the queries' order, best first.
        """
        names = np.asarray(self.doc_ids, dtype=object)
        asked = tqdm(queries.items(), desc="BM25", unit="query", mininterval=2)
        query_ids: list[str] = []
        found: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
        scores: list[np.ndarray] = [np.empty(0, dtype=np.float32)]
        for query_id, text in asked:
            all_scores = self.scores(text)
            best = top(all_scores, self.places, depth)
            query_ids += [query_id] * len(best)
            found.append(best)
            scores.append(all_scores[best])
        columns = {"query_id": query_ids, "doc_id": names[np.concatenate(found)]}
        return pd.DataFrame(columns | {"score": np.concatenate(scores)})

    def scores(self, query: str) -> np.ndarray:
        """The score of every document for one query (float32), in the documents' order."""
        (words,) = tokens([query], as_ids=False)
        known = self.index.get_tokens_ids(words)
        if not known:
            return np.zeros(len(self.doc_ids), dtype=np.float32)
        return np.asarray(self.index.get_scores_from_ids(known))


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
