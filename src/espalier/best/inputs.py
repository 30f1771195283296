"""The cross-encoder's input: a query and a segment as word pieces, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from espalier.errors import EspalierError

Pieces = NDArray[np.int32]
"""Vocabulary ids int32[n], without special tokens."""

OFFSET = ("roberta", "longformer")
"""Types of models whose positions begin after the padding token's id."""

MARKED = 2
"""Token type of a word piece that query and segment share, where exact matches are marked."""


class Input(NamedTuple):
    """One pair to score."""

    query: Pieces
    segment: Pieces
    """The document's title and the segment's own text."""


class Batch(NamedTuple):
    """Pairs one after the other, without padding."""

    ids: torch.Tensor
    """int64[tokens]"""
    types: torch.Tensor
    """int64[tokens]: 0 up to the segment, 1 from there on, 2 for marked word pieces."""
    positions: torch.Tensor
    """int64[tokens]: from 0 on in each pair."""
    lengths: list[int]
    """Tokens of each pair, special ones counted."""
    pad: int
    """The id that fills shorter pairs, for a model that needs a rectangle."""

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        ids, types, positions = (rows.to(device) for rows in self[:3])
        return Batch(ids, types, positions, self.lengths, self.pad)


@dataclass(frozen=True)
class Layout:
    """Where a tokenizer puts its special tokens, e.g. [CLS] query [SEP] segment [SEP]."""

    before: list[int]
    between: list[int]
    after: list[int]
    pad: int

    @classmethod
    def of(cls, tokenizer: Any) -> "Layout":
        """The layout of a Hugging Face tokenizer, read off a pair of short texts.

        EspalierError when it has no padding token, or shows no text of a pair.
        """
        pair = tokenizer("a", "b")
        ids, owners = pair["input_ids"], pair.sequence_ids()
        if tokenizer.pad_token_id is None or not {0, 1} <= set(owners):
            raise EspalierError(
                f"{tokenizer.name_or_path}: its tokenizer does not join two texts to a padded "
                "pair; take a checkpoint with the tokenizer that it was trained with"
            )
        first, second = owners.index(0), owners.index(1)
        query, segment = owners.count(0), owners.count(1)
        return cls(
            ids[:first], ids[first + query : second], ids[second + segment :],
            tokenizer.pad_token_id,
        )  # fmt: skip

    @property
    def special(self) -> int:
        """Special tokens in a pair."""
        return len(self.before) + len(self.between) + len(self.after)

    def length(self, pair: Input) -> int:
        """Tokens of a pair, special ones counted."""
        return len(pair.query) + len(pair.segment) + self.special

    def collate(self, pairs: Sequence[Input], *, mark: bool) -> Batch:
        """The pairs as one batch; `mark` gives word pieces that both sides have their own type."""
        before, between, after = (
            np.array(ids, dtype=np.int32) for ids in (self.before, self.between, self.after)
        )
        ids = np.concatenate(
            [part for pair in pairs for part in (before, pair.query, between, pair.segment, after)]
        )
        lengths = [self.length(pair) for pair in pairs]
        types = np.zeros(len(ids), dtype=np.int64)
        end = 0
        for pair, length in zip(pairs, lengths, strict=True):
            query, end = end + len(before), end + length
            segment = end - len(after) - len(pair.segment)
            types[segment:end] = 1
            if mark:
                shared = pair.query[:, None] == pair.segment
                types[query : query + len(pair.query)][shared.any(axis=1)] = MARKED
                types[segment : segment + len(pair.segment)][shared.any(axis=0)] = MARKED
        positions = np.concatenate([np.arange(length) for length in lengths])
        columns = [torch.from_numpy(column) for column in (ids.astype(np.int64), types, positions)]
        return Batch(columns[0], columns[1], columns[2], lengths, self.pad)


def longest_input(config: Any) -> int:
    """Tokens of the longest pair that a model, by its config, has positions for."""
    return int(config.max_position_embeddings) - first_position(config)


def first_position(config: Any) -> int:
    """The position of a model's first token."""
    return int(config.pad_token_id) + 1 if config.model_type in OFFSET else 0


def check_length(config: Any, name: str, max_length: int) -> None:
    """EspalierError when inputs of `max_length` word pieces are too long for the model `name`."""
    limit = longest_input(config)
    if max_length > limit:
        raise EspalierError(
            f"config key 'best.segments.max_length' is {max_length}, but {name} takes {limit} "
            f"word pieces: set it to at most {limit}"
        )
