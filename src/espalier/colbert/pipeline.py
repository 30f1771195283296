"""The whole pipeline for one query, with a clock between its stages.

Gathering the candidates' embeddings is no stage of its own: each row is read from the store right
before it is scored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from espalier.colbert import pruning
from espalier.colbert.encoder import Encoder
from espalier.colbert.retrieval import Dedupe, nearest, score, top
from espalier.colbert.store import Store
from espalier.colbert.systems import System, parsed


class Answer(NamedTuple):
    """What one query retrieves, best first, and the nanoseconds of each stage."""

    documents: NDArray[np.int64]
    scores: NDArray[np.float32]
    times: dict[str, int]


@dataclass(frozen=True)
class Pipeline:
    """Everything that stands ready when a query comes in."""

    encoder: Encoder
    indexes: Mapping[float, Any]
    """By the share of embeddings that they keep."""
    store: Store
    frequency: NDArray[np.int64]
    """In the collection, of each vocabulary id."""
    orders: Mapping[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]]
    dedupe: Dedupe
    k_prime: int
    depth: int
    score_masks: bool
    """Whether a query's masks score documents, as its other embeddings do."""
    clock: Callable[[], int] = perf_counter_ns
    """Nanoseconds; a thread's own on a busy machine."""

    def searched(self, system: System, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many embeddings a system searches of each query: int64[queries]."""
        if system.share is not None:
            return pruning.selective(ids, self.encoder.layout, self.frequency, system.share)
        return np.full(len(ids), system.p, dtype=np.int64)

    def scoring(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which embeddings of each query score documents: bool[queries, length]."""
        scoring: NDArray[np.bool_] = self.score_masks | (ids != self.encoder.layout.mask)
        return scoring

    def answer(self, text: str, system: str) -> Answer:
        """Encode, search the system's embeddings, unite their documents, score these."""
        chosen = parsed(system)
        times = [self.clock()]
        ids = self.encoder.layout.queries([text])
        query = self.encoder.encode(ids)[0]
        positions = self.orders[chosen.order](ids)[0, : self.searched(chosen, ids)[0]]
        times.append(self.clock())
        hits = nearest(self.indexes[chosen.kept], query[positions], self.k_prime)
        times.append(self.clock())
        found = self.dedupe(hits).documents
        times.append(self.clock())
        all_scores = score(self.store, query[self.scoring(ids)[0]], found)
        times.append(self.clock())
        documents, scores = top(found, all_scores, self.depth)
        times.append(self.clock())
        stages = ("encode_ns", "ann_ns", "dedupe_ns", "score_ns", "top_ns")
        taken = dict(zip(stages, np.diff(times).tolist(), strict=True))
        return Answer(documents, scores, {**taken, "total_ns": times[-1] - times[0]})
