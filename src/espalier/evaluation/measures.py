"""Effectiveness per query, through ir_measures.

Two conventions of trec_eval are kept: a judged query for which a system returned nothing counts
as zero, and a query without judgments is left out. Binary measures (AP, RR, R, P…) take a
document as relevant from `relevance_level` on, as `trec_eval -l` does: 2 on TREC Deep Learning
passages, 1 elsewhere. Graded measures (nDCG) keep all grades.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any

import ir_measures
import pandas as pd

from espalier.errors import EspalierError

PROVIDERS = {
    "pytrec_eval": "pytrec_eval-terrier",
    "msmarco": "ir_measures",
    "judged": "ir_measures",
}
"""Which implementation computes a measure: the first here that can; and its distribution."""


@dataclass(frozen=True)
class Chosen:
    """A measure as the config names it, as ir_measures knows it, and who computes it."""

    name: str
    measure: Any
    provider: str

    @property
    def described(self) -> dict[str, str]:
        """For the record: the full notation and the provider with its version."""
        maker = f"{self.provider} ({PROVIDERS[self.provider]} {version(PROVIDERS[self.provider])})"
        return {"measure": str(self.measure), "provider": maker}


def choose(names: Sequence[str], relevance_level: int = 1) -> list[Chosen]:
    """Parse measures such as 'nDCG@10' and 'RR@10' and settle who computes each.

    A measure that names its own level, e.g. 'AP(rel=1)', keeps it.
    """
    chosen: list[Chosen] = []
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
        except (NameError, ValueError, SyntaxError) as error:
            raise EspalierError(
                f"config key 'evaluation.measures': '{name}' is not a measure of ir_measures; "
                "see https://ir-measur.es for their names, e.g. nDCG@10"
            ) from error
        if relevance_level != 1 and "rel=" not in name and is_binary(measure):
            measure = measure(rel=relevance_level)
        able = [p for p in PROVIDERS if ir_measures.providers.registry[p].supports(measure)]
        if not able:
            raise EspalierError(
                f"config key 'evaluation.measures': none of {', '.join(PROVIDERS)} computes "
                f"'{measure}'; leave it out"
            )
        if any(str(c.measure) == str(measure) for c in chosen):
            raise EspalierError(
                f"config key 'evaluation.measures': '{name}' is there under another name too; "
                "leave one out"
            )
        chosen.append(Chosen(name, measure, able[0]))
    return chosen


def is_binary(measure: Any) -> bool:
    """Whether a measure counts relevant documents (NumRet, alone, counts all retrieved)."""
    binary = measure.SUPPORTED_PARAMS.get("rel")
    return binary is not None and isinstance(measure.params.get("rel", binary.default), int)


def level_of(split_id: str, levels: Mapping[str, int]) -> int:
    """The relevance level of a collection's split: that of the first pattern it matches, else 1."""
    return next((level for pattern, level in levels.items() if fnmatchcase(split_id, pattern)), 1)


class Evaluator:
    """Measures runs against one set of judgments (query_id, doc_id, relevance)."""

    def __init__(self, qrels: pd.DataFrame, chosen: Sequence[Chosen]) -> None:
        self.chosen = list(chosen)
        self.judged = sorted(qrels["query_id"].unique())
        judgments = nested(qrels, "relevance")
        self._evaluators = []
        for provider in dict.fromkeys(c.provider for c in self.chosen):
            names = {str(c.measure): c.name for c in self.chosen if c.provider == provider}
            measures = [c.measure for c in self.chosen if c.provider == provider]
            maker = ir_measures.providers.registry[provider]
            self._evaluators.append((names, maker.evaluator(measures, judgments)))

    def per_query(self, run: pd.DataFrame) -> pd.DataFrame:
        """One row per judged query and measure: query_id, measure, value (float64)."""
        judged = run[run["query_id"].isin(self.judged)]
        scores = nested(judged, "score")
        values = {(q, c.name): 0.0 for q in self.judged for c in self.chosen}
        for names, evaluator in self._evaluators:
            for metric in evaluator.iter_calc(scores):
                values[metric.query_id, names[str(metric.measure)]] = float(metric.value)
        rows = [(query_id, name, value) for (query_id, name), value in values.items()]
        return pd.DataFrame(rows, columns=["query_id", "measure", "value"])

    def missing(self, run: pd.DataFrame) -> int:
        """How many judged queries have no result in `run`."""
        return len(set(self.judged) - set(run["query_id"]))


def nested(frame: pd.DataFrame, value: str) -> dict[str, dict[str, Any]]:
    """{query_id: {doc_id: value}}, the layout that the providers read fastest."""
    return {
        str(query_id): dict(zip(rows["doc_id"].tolist(), rows[value].tolist(), strict=True))
        for query_id, rows in frame.groupby("query_id", sort=True)
    }


def unjudged(query_ids: Iterable[str], qrels: pd.DataFrame) -> int:
    """How many of the queries have no judgment and are left out."""
    return len(set(query_ids) - set(qrels["query_id"]))


def averaged(replicates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Each query's values (query_id, measure, value), averaged over a system's replicates."""
    by_query = pd.concat(replicates).groupby(["query_id", "measure"], sort=False)["value"]
    return by_query.mean().reset_index()


def spread(replicates: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """How a system's replicates differ: their number, and each measure's mean in every one.

    `standard_deviation` is that of these means (n − 1 in the denominator).
    """
    by_measure = [table.groupby("measure", sort=True)["value"].mean() for table in replicates]
    whole = pd.concat(by_measure, axis=1)
    return {
        "runs": len(replicates),
        "means": {str(measure): row.tolist() for measure, row in whole.iterrows()},
        "standard_deviation": {str(m): float(sd) for m, sd in whole.std(axis=1, ddof=1).items()},
    }


def means(per_query: pd.DataFrame) -> dict[str, dict[str, float]]:
    """{system: {measure: mean over the judged queries}} of a table of many systems' values."""
    table = per_query.groupby(["system", "measure"], sort=True, as_index=False)["value"].mean()
    found: dict[str, dict[str, float]] = {}
    for row in table.itertuples(index=False):
        found.setdefault(str(row.system), {})[str(row.measure)] = float(row.value)
    return found
