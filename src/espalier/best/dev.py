"""The dev split's reciprocal rank: what training stops by."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from espalier.best.inputs import Layout, Pieces
from espalier.best.ranker import Ranker
from espalier.best.scoring import Scores, score
from espalier.best.selection import Spread, spread
from espalier.models import parallel


@dataclass(frozen=True)
class Dev:
    """The dev candidates' segments, and which candidates are relevant."""

    layout: Layout
    tokens: int
    """Padded tokens of a batch."""
    everything: Spread
    group: NDArray[np.int64]
    """int64[candidates]: number of each candidate's query, ascending."""
    relevant: NDArray[np.bool_]
    queries: int
    """All queries of the split: one without a relevant candidate counts as 0."""

    @classmethod
    def of(
        cls,
        queries: dict[str, Pieces],
        candidates: pd.DataFrame,
        documents: dict[str, list[Pieces]],
        layout: Layout,
        tokens: int,
    ) -> "Dev":
        """From the queries' word pieces and a `Store`'s tables."""
        ordered = candidates.sort_values(["query_id", "rank"])
        everything = spread(
            [queries[query_id] for query_id in ordered["query_id"]],
            [documents[doc_id] for doc_id in ordered["doc_id"]],
        )
        group = np.asarray(ordered.groupby("query_id").ngroup(), dtype=np.int64)
        relevant = ordered["relevance"].to_numpy() > 0
        return cls(layout, tokens, everything, group, relevant, len(queries))

    def reciprocal_rank(self, ranker: Ranker) -> float:
        """Mean over the queries, each document scored by its best segment."""
        best = np.maximum.reduceat(self.scores(ranker), self.everything.starts)
        return float(reciprocal_ranks(best, self.group, self.relevant).sum() / self.queries)

    def scores(self, ranker: Ranker) -> Scores:
        """float32[segments]; several processes score a part each."""
        inputs = self.everything.inputs
        own = parallel.share(range(len(inputs)))
        scores = torch.zeros(1, len(inputs))
        scores[0, own] = torch.from_numpy(
            score(ranker, self.layout, [inputs[i] for i in own], self.tokens)
        )
        whole = parallel.gathered(scores.to(ranker.head.weight.device)).sum(0)
        result: Scores = whole.cpu().numpy()
        return result


def reciprocal_ranks(
    scores: Scores, group: NDArray[np.int64], relevant: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """float64[groups]: 1 / rank of the first relevant document, 0 without any.

    Of equal scores the relevant document's is taken as the lower one.
    """
    found = np.zeros(int(group.max(initial=-1)) + 1)
    for number in np.unique(group[relevant]):
        own = group == number
        above = scores[own & ~relevant] >= scores[own & relevant].max()
        found[number] = 1 / (1 + above.sum())
    return found
