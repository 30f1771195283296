"""How texts are laid out for the encoder: ColBERT's input format (Khattab and Zaharia, 2020).

A query is `[CLS] [Q] word pieces [SEP]`, filled with `[MASK]` to a fixed length; a document is
`[CLS] [D] word pieces [SEP]`. The markers [Q] and [D] are the unused vocabulary entries
`[unused0]` and `[unused1]`, unless a checkpoint was trained with others.
"""

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.errors import EspalierError

SPECIAL_IN_QUERY = 3
"""[CLS], [Q], [SEP]; a document has as many."""

MARKERS = ("[unused0]", "[unused1]")
"""The vocabulary entries that stand for [Q] and [D]."""


class Layout:
    """Vocabulary ids of the special tokens, and the two formats built from them."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        query_length: int,
        doc_maxlen: int,
        drop_punctuation: bool,
        markers: Sequence[str] = MARKERS,
        skiplist: Sequence[str] = string.punctuation,
        attend_to_masks: bool = False,
    ) -> None:
        """`drop_punctuation` drops documents' embeddings of the `skiplist`'s vocabulary entries.

        `attend_to_masks` says whether a query's word pieces attend to its masks.
        """
        self.tokenizer = tokenizer
        self.query_length = query_length
        self.doc_maxlen = doc_maxlen
        self.drop_punctuation = drop_punctuation
        self.markers = markers
        self.skiplist = skiplist
        self.attend_to_masks = attend_to_masks
        vocabulary = tokenizer.get_vocab()
        names = ("[CLS]", "[SEP]", "[MASK]", "[PAD]", *markers)
        missing = [name for name in names if name not in vocabulary]
        if missing:
            raise EspalierError(
                f"models.encoder: its vocabulary lacks {', '.join(missing)}; name a BERT model"
            )
        self.cls, self.sep, self.mask, self.pad, self.query, self.doc = (
            vocabulary[name] for name in names
        )
        self.dropped = np.array(
            sorted(vocabulary[mark] for mark in skiplist if mark in vocabulary)
            if drop_punctuation
            else [],
            dtype=np.int64,
        )

    def described(self) -> dict[str, Any]:
        """The arguments that make this layout of its tokenizer; ColBERT's own are left out."""
        described: dict[str, Any] = {
            "query_length": self.query_length,
            "doc_maxlen": self.doc_maxlen,
            "drop_punctuation": self.drop_punctuation,
        }
        if tuple(self.markers) != MARKERS:
            described["markers"] = list(self.markers)
        if list(self.skiplist) != list(string.punctuation):
            described["skiplist"] = list(self.skiplist)
        if self.attend_to_masks:
            described["attend_to_masks"] = True
        return described

    def queries(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Token ids int64[queries, query_length]; longer queries lose their last word pieces."""
        ids = np.full((len(texts), self.query_length), self.mask, dtype=np.int64)
        pieces = self.word_pieces(texts, self.query_length - SPECIAL_IN_QUERY)
        for row, text in zip(ids, pieces, strict=True):
            row[: len(text) + SPECIAL_IN_QUERY] = [self.cls, self.query, *text, self.sep]
        return ids

    def docs(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Token ids int64[at most doc_maxlen] of each document.

        A text without word pieces to keep has no tokens at all: special tokens alone say
        nothing, and such a document is never retrieved.
        """
        docs = []
        for pieces in self.word_pieces(texts, self.doc_maxlen - SPECIAL_IN_QUERY):
            ids = np.array([self.cls, self.doc, *pieces, self.sep], dtype=np.int64)
            docs.append(ids if self.kept(ids).sum() > SPECIAL_IN_QUERY else ids[:0])
        return docs

    def word_pieces(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """Vocabulary ids of each text without special tokens, at most `longest`."""
        if not texts:
            return []
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,  # "[MASK]" in a text is text
            truncation=True,
            max_length=longest,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def kept(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which tokens' embeddings are indexed: all but padding and, if dropped, punctuation."""
        kept: NDArray[np.bool_] = ~np.isin(ids, self.dropped) & (ids != self.pad)
        return kept

    def padded(self, docs: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Documents as one array int64[docs, longest], filled with [PAD]."""
        ids = np.full((len(docs), max(map(len, docs))), self.pad, dtype=np.int64)
        for row, doc in zip(ids, docs, strict=True):
            row[: len(doc)] = doc
        return ids
