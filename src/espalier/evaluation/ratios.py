"""Ratios of what two systems cost, query by query.

A statistic is taken of values float64[…, queries, 2], a system's beside its baseline's. Queries
are resampled as pairs, so that what makes a query costly under both falls out of the ratio.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from espalier.errors import EspalierError
from espalier.evaluation import comparisons, significance
from espalier.evaluation.significance import Values

STATISTICS = ("mean", "p95", "paired")
"""Ratio of the means, of the 95th percentiles; geometric mean of each query's own ratio."""

COLUMNS = {
    "family": "str", "system": "str", "baseline": "str", "column": "str", "statistic": "str",
    "n": "int64", "value_system": "float64", "value_baseline": "float64", "ratio": "float64",
    "ci_low": "float64", "ci_high": "float64",
}  # fmt: skip


def summarised(values: Values, statistic: str) -> NDArray[np.float64]:
    """Values float64[…, queries, systems] → float64[…, systems]."""
    if statistic == "mean":
        found = values.mean(axis=-2)
    elif statistic == "p95":
        found = np.quantile(values, 0.95, axis=-2)
    else:
        with np.errstate(divide="ignore"):
            found = np.exp(np.log(values).mean(axis=-2))
    return np.asarray(found, dtype=np.float64)


def quotient(values: Values, statistic: str) -> NDArray[np.float64]:
    """Ratio of a statistic of two systems: float64[…, queries, 2] → float64[…]; inf over zero."""
    top, bottom = np.moveaxis(summarised(values, statistic), -1, 0)
    found: NDArray[np.float64] = np.full_like(top, np.inf)
    np.divide(top, bottom, out=found, where=bottom != 0)
    return found


def interval(
    values: Values, statistic: str, *, samples: int, alpha: float, seed: int
) -> tuple[float, float]:
    """Bootstrap interval of a ratio; `values` is float64[queries, 2]."""
    return significance.bootstrap(
        values,
        lambda drawn: quotient(drawn, statistic),
        samples=samples,
        alpha=alpha,
        seed=seed,
    )


def compare(
    costs: pd.DataFrame,
    families: Sequence[Mapping[str, Any]],
    *,
    alpha: float,
    samples: int,
    seed: int,
) -> pd.DataFrame:
    """Every declared ratio, one row per system, column and statistic (columns as `COLUMNS`).

    `costs` has the columns system, query_id and those that families name (ns, bytes, counts); a
    pair is compared on the queries that both have.
    """
    rows: list[dict[str, Any]] = []
    for family in families:
        for column in family["columns"]:
            table = by_system(costs, family, column)
            for system in comparisons.members(family, list(table.columns)):
                pair = table[[system, family["baseline"]]].dropna().to_numpy()
                rows += [
                    {
                        "family": family["name"],
                        "system": system,
                        "baseline": family["baseline"],
                        "column": column,
                        **row,
                    }
                    for row in against_baseline(pair, alpha, samples, seed)
                ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def by_system(costs: pd.DataFrame, family: Mapping[str, Any], column: str) -> pd.DataFrame:
    """One cost, float64[queries, systems]; EspalierError for what is not there."""
    where = f"config key 'evaluation.latencies': family '{family['name']}'"
    if column not in costs.columns:
        known = ", ".join(c for c in costs.columns if c not in ("system", "query_id"))
        raise EspalierError(f"{where} names the column '{column}'; there are {known}")
    table = costs.pivot_table(index="query_id", columns="system", values=column)
    if family["baseline"] not in table.columns:
        raise EspalierError(
            f"{where}: baseline '{family['baseline']}' was not timed; there are "
            f"{', '.join(map(str, table.columns))}"
        )
    return table


def against_baseline(pair: Values, alpha: float, samples: int, seed: int) -> list[dict[str, Any]]:
    """The ratio of one pair, float64[queries, 2], by each statistic."""
    rows = []
    for statistic in STATISTICS:
        system, baseline = summarised(pair, statistic).tolist()
        low, high = interval(pair, statistic, samples=samples, alpha=alpha, seed=seed)
        rows.append(
            {
                "statistic": statistic,
                "n": len(pair),
                "value_system": system,
                "value_baseline": baseline,
                "ratio": float(quotient(pair, statistic)),
                "ci_low": low,
                "ci_high": high,
            }
        )
    return rows
