"""Choosing a segment of each document: the one that a ranker scores highest.

Kim et al. 2021, equations for i(1) and i(n+1): argmax_j f_θ(q, d_j).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espalier.best.inputs import Input, Layout, Pieces
from espalier.best.ranker import Ranker
from espalier.best.scoring import Scores, score


class Spread(NamedTuple):
    """All segments of several (query, document) pairs, one after the other."""

    inputs: list[Input]
    starts: NDArray[np.int64]
    """int64[pairs]: where each pair's segments begin."""


def spread(queries: Sequence[Pieces], documents: Sequence[Sequence[Pieces]]) -> Spread:
    """Pair each query with every segment of its document (each has at least one)."""
    inputs = [
        Input(query, segment)
        for query, segments in zip(queries, documents, strict=True)
        for segment in segments
    ]
    sizes = np.array([len(segments) for segments in documents], dtype=np.int64)
    return Spread(inputs, np.cumsum(sizes) - sizes)


def best_segments(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[pairs]: number of each pair's highest score, the first of equal ones.

    scores float32[segments], starts as in `Spread`; NaN counts as highest, as in numpy.
    """
    parts = np.split(scores, starts[1:]) if len(starts) else []
    return np.array([np.argmax(part) for part in parts], dtype=np.int64)


def select(
    ranker: Ranker,
    layout: Layout,
    queries: Sequence[Pieces],
    documents: Sequence[Sequence[Pieces]],
    tokens: int,
    progress: str | None = None,
) -> NDArray[np.int64]:
    """The best segment of each pair by `ranker`."""
    everything = spread(queries, documents)
    scores = score(ranker, layout, everything.inputs, tokens, progress)
    return best_segments(scores, everything.starts)
