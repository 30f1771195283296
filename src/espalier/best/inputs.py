"""The cross-encoder's input: a query and a segment as word pieces, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Pieces = NDArray[np.int32]
"""Vocabulary ids int32[n], without special tokens."""

MARKED = 2
"""Token type of a word piece that query and segment share, where exact matches are marked."""


class Input(NamedTuple):
    """One pair to score."""

    query: Pieces
    segment: Pieces
    """The document's title and the segment's own text."""


class Batch(NamedTuple):
    """Padded pairs: ids, token types, mask (false at the padding), each [pairs, longest]."""

    ids: torch.Tensor
    types: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True)
class Layout:
    """Where a tokenizer puts its special tokens, e.g. [CLS] query [SEP] segment [SEP]."""

    before: list[int]
    between: list[int]
    after: list[int]
    pad: int

    @classmethod
    def of(cls, tokenizer: Any) -> "Layout":
        """The layout of a Hugging Face tokenizer, read off a pair of one-piece texts."""
        (left,) = tokenizer("a", add_special_tokens=False)["input_ids"]
        (right,) = tokenizer("b", add_special_tokens=False)["input_ids"]
        pair = tokenizer("a", "b")["input_ids"]
        first, second = pair.index(left), pair.index(right)
        return cls(
            pair[:first], pair[first + 1 : second], pair[second + 1 :], tokenizer.pad_token_id
        )

    @property
    def special(self) -> int:
        """Special tokens in a pair."""
        return len(self.before) + len(self.between) + len(self.after)

    def length(self, pair: Input) -> int:
        """Tokens of a pair, special ones counted."""
        return len(pair.query) + len(pair.segment) + self.special

    def collate(self, pairs: Sequence[Input], *, mark: bool) -> Batch:
        """Pad pairs to the longest. Types: 0 query, 1 segment, and, if asked, 2 in both."""
        longest = max(map(self.length, pairs))
        ids = np.full((len(pairs), longest), self.pad, dtype=np.int64)
        types = np.zeros_like(ids)
        mask = np.zeros_like(ids, dtype=bool)
        for row, pair in enumerate(pairs):
            query = slice(len(self.before), len(self.before) + len(pair.query))
            start = query.stop + len(self.between)
            segment = slice(start, start + len(pair.segment))
            end = segment.stop + len(self.after)
            ids[row, :end] = np.concatenate(
                [self.before, pair.query, self.between, pair.segment, self.after]
            )
            types[row, start:end] = 1
            mask[row, :end] = True
            if mark:
                types[row, query][np.isin(pair.query, pair.segment)] = MARKED
                types[row, segment][np.isin(pair.segment, pair.query)] = MARKED
        return Batch(torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(mask))
