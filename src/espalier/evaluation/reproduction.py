"""How near our runs come to the original run files of a paper, where somebody has these.

The measures of Breuer, Ferro, Fuhr, Maistro, Sakai, Schaer and Soboroff, 'How to measure the
reproducibility of system-oriented IR experiments' (SIGIR 2020), as its authors' tool repro_eval
computes them: from the order of documents to the effect over a baseline.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from espalier.evaluation import significance
from espalier.evaluation.significance import Values

DEPTH = 1000
"""Documents of a ranking that are compared."""

PERSISTENCE = 0.95
"""RBO's probability of going on to the next rank."""

COLUMNS = {
    "system": "str", "baseline": "str", "measure": "str", "statistic": "str", "n": "int64",
    "value": "float64",
}  # fmt: skip


def kendall_tau_union(original: Sequence[str], ours: Sequence[str]) -> float:
    """Kendall's tau between two rankings, each written as places in the union of their documents.

    The union is sorted by doc_id, as repro_eval has it: for rankings that share few documents the
    value depends on their names, and rank-biased overlap says more. The longer ranking is cut;
    rankings of one document agree (1) or not (0).
    """
    length = min(len(original), len(ours), DEPTH)
    first, second = list(original[:length]), list(ours[:length])
    if length < 2:
        return float(first == second)
    place = {doc: i for i, doc in enumerate(sorted({*first, *second}))}
    return float(stats.kendalltau([place[d] for d in first], [place[d] for d in second]).statistic)


def rank_biased_overlap(original: Sequence[str], ours: Sequence[str]) -> float:
    """Σ p^(d−1) · (documents shared by both top d) / d, over the same sum for full agreement.

    d runs to the length of the longer ranking, `DEPTH` at most (Webber, Moffat, Zobel, TOIS 2010;
    truncated and normalised as Clarke, Vtyurina, Smucker, TOIS 2021).
    """
    depth = min(max(len(original), len(ours)), DEPTH)
    seen: dict[str, int] = {}
    shared = np.zeros(depth)
    for d in range(depth):
        for ranking in (original, ours):
            if d < len(ranking):
                seen[ranking[d]] = seen.get(ranking[d], 0) + 1
                shared[d] += seen[ranking[d]] == 2
    weights = PERSISTENCE ** np.arange(depth)
    return float(weights @ (shared.cumsum() / np.arange(1, depth + 1)) / weights.sum())


def rmse(original: Values, ours: Values) -> float:
    """Root mean square error of per-query values, both float64[queries]."""
    return float(np.sqrt(np.mean((original - ours) ** 2)))


def effect_ratio(original: NDArray[np.float64], ours: NDArray[np.float64]) -> float:
    """Our mean improvement over the original one: 1 is the same effect, below 0 the reverse.

    Both float64[queries, 2]: an advanced system's values beside its baseline's. NaN where the
    original has no effect.
    """
    effects = [float(np.mean(pair[:, 0] - pair[:, 1])) for pair in (ours, original)]
    return effects[0] / effects[1] if effects[1] else float("nan")


def delta_relative_improvement(original: NDArray[np.float64], ours: NDArray[np.float64]) -> float:
    """Original relative improvement less ours: 0 is the same, above 0 is smaller here.

    Both float64[queries, 2], as for `effect_ratio`; NaN where a baseline's mean is zero.
    """
    improvements = []
    for pair in (original, ours):
        advanced, baseline = pair.mean(axis=0).tolist()
        improvements.append((advanced - baseline) / baseline if baseline else float("nan"))
    return improvements[0] - improvements[1]


def rankings(run: pd.DataFrame) -> dict[str, list[str]]:
    """Each query's documents, best first."""
    ordered = run.sort_values(["query_id", "rank"])
    groups = ordered.groupby("query_id", sort=True)["doc_id"]
    return {str(query_id): docs.tolist() for query_id, docs in groups}


def orders(original: pd.DataFrame, ours: Sequence[pd.DataFrame]) -> list[dict[str, Any]]:
    """How alike runs order documents: the mean over the queries that both have, and replicates."""
    first = rankings(original)
    shared = [
        (query_id, ranking)
        for replicate in ours
        for query_id, ranking in rankings(replicate).items()
        if query_id in first
    ]
    found = []
    for name, function in (
        ("kendall_tau_union", kendall_tau_union),
        ("rank_biased_overlap", rank_biased_overlap),
    ):
        values = [function(first[query_id], ranking) for query_id, ranking in shared]
        value = float(np.mean(values)) if values else float("nan")
        count = len({query_id for query_id, _ in shared})
        found.append({"statistic": name, "n": count, "value": value})
    return found


def scores(original: pd.Series, ours: pd.Series) -> list[dict[str, Any]]:
    """How alike two systems' values of one measure are, query by query (the same index)."""
    first, second = original.to_numpy(), ours.to_numpy()
    found = {
        "mean_original": float(first.mean()),
        "mean_here": float(second.mean()),
        "rmse": rmse(first, second),
        "p": significance.paired_t(second - first)[1],
    }
    return [{"statistic": name, "n": len(first), "value": value} for name, value in found.items()]


def effects(original: pd.DataFrame, ours: pd.DataFrame) -> list[dict[str, Any]]:
    """How alike two improvements over a baseline are; columns system and baseline."""
    first, second = original.to_numpy(), ours.to_numpy()
    found = {
        "effect_ratio": effect_ratio(first, second),
        "delta_relative_improvement": delta_relative_improvement(first, second),
    }
    return [{"statistic": name, "n": len(first), "value": value} for name, value in found.items()]


def compare(
    runs: Mapping[str, tuple[pd.DataFrame, Sequence[pd.DataFrame]]],
    values: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    pairs: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    """All measures of reproduction, one row each (columns as `COLUMNS`).

    `runs` has, by system, the original run and our replicates; `values` the original's values per
    query and ours (float64[queries, measures]); `pairs` systems with their baselines, both among
    the runs.
    """
    rows: list[dict[str, Any]] = []
    for system, (original_run, our_runs) in runs.items():
        rows += [{"system": system, **row} for row in orders(original_run, our_runs)]
        first, second = values[system]
        for measure in first.columns:
            name = {"system": system, "measure": str(measure)}
            rows += [{**name, **row} for row in scores(first[measure], second[measure])]
    for system, baseline in pairs:
        for measure in values[system][0].columns:
            original, ours = (
                pd.concat([values[system][i][measure], values[baseline][i][measure]], axis=1)
                for i in (0, 1)
            )
            name = {"system": system, "baseline": baseline, "measure": str(measure)}
            rows += [{**name, **row} for row in effects(original, ours)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.fillna({"baseline": "", "measure": ""}).astype(COLUMNS)
