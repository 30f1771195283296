"""The comparisons that an experiment declares: each system of a family against its baseline.

A family is what one paper compares on one measure. Bonferroni and Holm adjust over the systems of
a family for each measure on its own, as the papers' tool (PyTerrier's Experiment) does. TOST's p
is not adjusted: each equivalence is judged as a statement of its own. `queries_needed` is how many
queries would decide: with so many, TOST finds equal systems equivalent four times in five.
"""

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd

from espalier.errors import EspalierError
from espalier.evaluation import significance
from espalier.evaluation.significance import Margin

OUTCOMES = ("different", "equivalent", "undecided")

log = logging.getLogger("espalier")

COLUMNS = {
    "family": "str", "system": "str", "baseline": "str", "measure": "str", "n": "int64",
    "mean_system": "float64", "mean_baseline": "float64", "difference": "float64",
    "ci_low": "float64", "ci_high": "float64", "t": "float64", "p": "float64",
    "p_bonferroni": "float64", "p_holm": "float64", "effect": "float64", "margin": "float64",
    "p_tost": "float64", "outcome": "str", "queries_needed": "int64",
}  # fmt: skip


def compare(
    per_query: pd.DataFrame,
    families: Sequence[Mapping[str, Any]],
    *,
    alpha: float,
    margin: Margin,
    samples: int,
    seed: int,
) -> pd.DataFrame:
    """All declared comparisons, one row each (the columns are `COLUMNS`).

    `per_query` has the columns system, query_id, measure and value; every system has a value for
    every judged query. `outcome` uses the Bonferroni-adjusted p, and TOST's p.
    """
    rows: list[dict[str, Any]] = []
    for family in families:
        for measure in family["measures"]:
            table = values_of(per_query, family, measure)
            log_unmatched(family, list(table.columns))
            systems = members(family, list(table.columns))
            rows += [
                row | {"family": family["name"], "measure": measure}
                for row in against_baseline(
                    table, family["baseline"], systems, alpha, margin, samples, seed
                )
            ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def values_of(per_query: pd.DataFrame, family: Mapping[str, Any], measure: str) -> pd.DataFrame:
    """Values of one measure, float64[queries, systems]; EspalierError for what is not there."""
    chosen = per_query[per_query["measure"] == measure]
    table = chosen.pivot_table(index="query_id", columns="system", values="value")
    name, baseline = family["name"], family["baseline"]
    if chosen.empty:
        raise EspalierError(
            f"config key 'evaluation.families': family '{name}' names the measure '{measure}', "
            "which is not among 'evaluation.measures'; add it there"
        )
    if baseline not in table.columns:
        raise EspalierError(
            f"config key 'evaluation.families': baseline '{baseline}' of family '{name}' has no "
            f"run; there are {', '.join(map(str, table.columns))}"
        )
    return table


def members(family: Mapping[str, Any], systems: Sequence[str]) -> list[str]:
    """The systems that a family's patterns name, sorted, without its baseline."""
    found = {s for pattern in family["systems"] for s in systems if fnmatchcase(s, pattern)}
    return sorted(found - {family["baseline"]})


def log_unmatched(family: Mapping[str, Any], systems: Sequence[str]) -> None:
    """Say which of a family's patterns name no system of this experiment."""
    for pattern in family["systems"]:
        if not any(fnmatchcase(s, pattern) for s in systems):
            log.info("family %s: no system matches '%s'", family["name"], pattern)


def against_baseline(
    table: pd.DataFrame,
    baseline: str,
    systems: Sequence[str],
    alpha: float,
    margin: Margin,
    samples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """The comparisons of one family on one measure."""
    reference = table[baseline].to_numpy()
    allowed = margin.around(reference.mean())
    rows: list[dict[str, Any]] = []
    for system in systems:
        values = table[system].to_numpy()
        differences = values - reference
        low, high = significance.mean_interval(differences, samples=samples, alpha=alpha, seed=seed)
        t, p = significance.paired_t(differences)
        rows.append(
            {
                "system": system,
                "baseline": baseline,
                "n": len(values),
                "mean_system": values.mean(),
                "mean_baseline": reference.mean(),
                "difference": differences.mean(),
                "ci_low": low,
                "ci_high": high,
                "t": t,
                "p": p,
                "effect": significance.effect_size(differences),
                "margin": allowed,
                "p_tost": significance.equivalence(differences, allowed),
                "queries_needed": significance.queries_for_equivalence(differences, allowed, alpha),
            }
        )
    ps = [row["p"] for row in rows]
    for row, bonferroni, holm in zip(
        rows,
        significance.adjusted(ps, "bonferroni"),
        significance.adjusted(ps, "holm"),
        strict=True,
    ):
        row |= {"p_bonferroni": bonferroni, "p_holm": holm}
        row["outcome"] = significance.outcome(bonferroni, row["p_tost"], alpha)
    return rows
