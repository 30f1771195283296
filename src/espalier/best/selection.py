"""Scoring all segments of documents, and choosing the one that a ranker scores highest.

Kim et al. 2021, equations for i(1) and i(n+1): argmax_j f_θ(q, d_j).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.best.inputs import Input, Layout, Pieces
from espalier.best.ranker import Ranker
from espalier.best.scoring import Scores, score
from espalier.errors import EspalierError
from espalier.models.checkpoints import Checkpoint

BLOCK = 256
"""Pairs that are put into batches together. What a pair's neighbours in its batch are can change
the last bits of its scores, so blocks are the same however the pairs are divided over jobs."""


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
    return Spread(inputs, starts(documents))


def starts(documents: Sequence[Sequence[Pieces]]) -> NDArray[np.int64]:
    """int64[pairs]: where each document's segments begin when all stand one after the other."""
    sizes = np.array([len(segments) for segments in documents], dtype=np.int64)
    return np.cumsum(sizes) - sizes


def best_segments(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[pairs]: number of each pair's highest score, the first of equal ones.

    scores float32[segments], starts as in `Spread`.
    """
    parts = np.split(scores, starts[1:]) if len(starts) else []
    return np.array([np.argmax(part) for part in parts], dtype=np.int64)


def select(
    ranker: Ranker,
    layout: Layout,
    queries: Sequence[Pieces],
    documents: Sequence[Sequence[Pieces]],
    tokens: int,
) -> NDArray[np.int64]:
    """The best segment of each of a few pairs by `ranker`."""
    everything = spread(queries, documents)
    return best_segments(score(ranker, layout, everything.inputs, tokens), everything.starts)


def shard(pairs: int, number: int, shards: int) -> range:
    """The consecutive pairs of one of several jobs, counted from 0: whole blocks of them."""
    blocks = -(-pairs // BLOCK)
    first, last = (blocks * i // shards * BLOCK for i in (number, number + 1))
    return range(min(first, pairs), min(last, pairs))


def score_blocks(
    ranker: Ranker,
    layout: Layout,
    queries: Sequence[Pieces],
    documents: Sequence[Sequence[Pieces]],
    tokens: int,
    checkpoint: Checkpoint,
    progress: str,
) -> Scores:
    """float32[segments]: the scores of `spread`, block by block, going on from the checkpoint.

    Raises EspalierError for a score that is not a number.
    """
    found = checkpoint.load() or {"pairs": 0, "scores": torch.empty(0)}
    scores, pairs = [found["scores"].numpy()], len(queries)
    for start in tqdm(
        range(found["pairs"], pairs, BLOCK), progress, -(-pairs // BLOCK),
        initial=found["pairs"] // BLOCK, unit=f"{BLOCK} pairs", mininterval=2,
    ):  # fmt: skip
        stop = start + BLOCK
        inputs = spread(queries[start:stop], documents[start:stop]).inputs
        scores.append(score(ranker, layout, inputs, tokens))
        if not np.isfinite(scores[-1]).all():
            raise EspalierError(
                f"{progress}: the ranker gives a score that is not a number; train it with a lower "
                "config key 'best.training.learning_rate'"
            )
        if checkpoint.due:
            scores = [np.concatenate(scores)]
            checkpoint.save({"pairs": stop, "scores": torch.from_numpy(scores[0])})
    return np.concatenate(scores)
