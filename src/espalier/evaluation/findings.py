"""What our results say about one published claim.

Each function answers one kind of query (the key under `here:` in claims/*.yaml) and returns a
`Finding`: the value measured, its interval, the test, a verdict, and why in words.

How an unclear answer is judged. A test can fail to show a difference because there is none, or
because too few queries were asked. It *lacks power* when even a difference as large as the
margin would be missed more than one time in five. Then the verdict is 'not tested at this scale',
with the number of queries that would decide; when the power was there, it is 'not reproduced'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from espalier.evaluation import ratios, significance
from espalier.evaluation.results import Absent, Results, paper_of
from espalier.evaluation.significance import Margin, Values

REPRODUCED = "reproduced"
DIRECTION = "direction holds at this scale"
NOT_REPRODUCED = "not reproduced"
NOT_TESTED = "not tested at this scale"
VERDICTS = (REPRODUCED, DIRECTION, NOT_REPRODUCED, NOT_TESTED)

Spec = Mapping[str, Any]
"""A claim, or the query under its `here:`; claims.schema.json says what it holds."""


@dataclass(frozen=True)
class Rules:
    """What all judgments share."""

    alpha: float
    margin: Margin
    samples: int
    seed: int


@dataclass(frozen=True)
class Finding:
    """One claim's answer."""

    verdict: str
    why: str
    here: float | None = None
    interval: tuple[float, float] | None = None
    test: str | None = None


def tolerated(published: float, tolerance: Mapping[str, float]) -> float:
    """How far from `published` a value may be and still count as the same."""
    if "relative" in tolerance:
        return abs(published) * tolerance["relative"]
    return tolerance["absolute"]


def mean(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """An absolute value, comparable only on the collection where it was published.

    What another system has is taken off with `less`, and the rest divided by `per`: a number, or a
    column whose mean is the divisor.
    """
    values = results.per_query(query, query["system"])
    if "less" in query:
        values = (values - results.per_query(query, query["less"])).dropna()
    divisor = query.get("per", 1.0)
    if isinstance(divisor, str):
        below = results.per_query({**query, "column": divisor}, query["system"])[values.index]
    else:
        below = values * 0 + float(divisor)
    pair = np.stack([values.to_numpy(), below.to_numpy()], axis=1)
    here = float(ratios.quotient(pair, "mean"))
    interval = ratios.interval(
        pair, "mean", samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    whose = " less ".join(query[key] for key in ("system", "less") if key in query)
    unit = f" per {divisor}".replace("_", " ") if "per" in query else ""
    said = f"{what(query)}{unit} of {whose} is {here:.4g} {level(rules)} {span(interval)}"
    elsewhere = published_elsewhere(claim["scale"], results.require(paper_in(query))["collection"])
    return held_against(claim, query.get("expect", "close"), here, said, elsewhere, interval)


def size(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """A number of the test set: its queries, or the judgments that each has."""
    summary = results.require(query["paper"])
    counts = summary["queries"]
    here = float(counts["judged"])
    if query["quantity"] == "judgments-per-query":
        here = counts["judgments"] / counts["judged"]
    said = f"{here:.4g} {query['quantity'].replace('-', ' ')}"
    elsewhere = published_elsewhere(claim["scale"], summary["collection"])
    return held_against(claim, "close", here, said, elsewhere, None)


def described(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """A figure of the collection: the `column` of a table's row for a `quantity`."""
    table, quantity, column = (query[key] for key in ("table", "quantity", "column"))
    rows = results.table(table)
    rows = rows[rows["quantity"] == quantity]
    if rows.empty:
        raise Absent(f"this experiment's collection has no {quantity.replace('_', ' ')}")
    here = float(rows[column].iloc[0])
    said = f"{column} of {quantity.replace('_', ' ')} is {here:.4g}"
    elsewhere = published_elsewhere(claim["scale"], results.require(paper_of(table))["collection"])
    return held_against(claim, "close", here, said, elsewhere, None, test=None)


def held_against(
    claim: Spec,
    expect: str,
    here: float,
    said: str,
    elsewhere: str,
    interval: tuple[float, float] | None,
    test: str | None = "mean over queries",
) -> Finding:
    """An absolute value here against the published one, unless that is from `elsewhere`."""
    if elsewhere:
        return Finding(NOT_TESTED, f"{elsewhere}, where {said}", here, interval, test)
    least, most, wording = bounds(claim, expect)
    verdict = REPRODUCED if least <= here <= most else NOT_REPRODUCED
    return Finding(verdict, f"{said}; published {wording}", here, interval, test)


def bounds(claim: Spec, expect: str) -> tuple[float, float, str]:
    """Between what a value counts as the published one, and that in words."""
    published = claim["published"]
    allowed = tolerated(published, claim["tolerance"])
    least = -np.inf if expect == "at-most" else published - allowed
    most = np.inf if expect == "at-least" else published + allowed
    wording = {"close": "", "at-least": "at least ", "at-most": "at most "}[expect]
    return least, most, f"{wording}{published:.4g} ± {allowed:.2g}"


def published_elsewhere(scale: Spec, collection: Spec) -> str:
    """Why an absolute value cannot be held against this collection; empty when it can."""
    if collection["split"] not in scale["collections"]:
        return f"published on {scale['name']}; this run is on {collection['split']}"
    documents = scale.get("documents", collection["docs_count"])
    if collection["docs_count"] != documents:
        return (
            f"published on {documents:,} documents; this run has {collection['docs_count']:,} "
            f"of them"
        )
    return ""


def compare(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """A paired comparison: `expect` greater, less, equivalent or not-less."""
    table = results.paired(query, query["system"], query["baseline"]).to_numpy()
    differences = table[:, 0] - table[:, 1]
    alpha = claim.get("alpha", rules.alpha)
    margin = rules.margin.around(float(table[:, 1].mean()))
    interval = significance.mean_interval(
        differences, samples=rules.samples, alpha=alpha, seed=rules.seed
    )
    _, p = significance.paired_t(differences)
    said = (
        f"{what(query)}: {query['system']} {table[:, 0].mean():.4g}, "
        f"{query['baseline']} {table[:, 1].mean():.4g}, difference {differences.mean():+.4g} "
        f"{span(interval)}, {len(table):,} queries"
    )
    judge = {
        "greater": wanted_difference,
        "less": wanted_difference,
        "equivalent": wanted_equivalence,
        "not-less": wanted_no_loss,
    }[query["expect"]]
    sign = -1.0 if query["expect"] == "less" else 1.0
    verdict, shown, test = judge(sign * differences, p, margin, alpha)
    why = f"{said}; {shown}"
    return Finding(verdict, why, float(differences.mean()), interval, test)


def wanted_difference(
    differences: Values, p: float, margin: float, alpha: float
) -> tuple[str, str, str]:
    """Is the mean above zero?"""
    test = f"paired t, p = {p:.2g}"
    if p < alpha:
        rises = differences.mean() > 0
        shown = f"{test}: a difference, {'as' if rises else 'but not as'} published"
        return REPRODUCED if rises else NOT_REPRODUCED, shown, test
    wanting = significance.queries_for_difference(differences, margin, alpha)
    return unclear(test, "no difference shown", len(differences), wanting, margin)


def wanted_equivalence(
    differences: Values, p: float, margin: float, alpha: float
) -> tuple[str, str, str]:
    """Is the mean surely within ± margin?"""
    p_tost = significance.equivalence(differences, margin)
    test = f"TOST ± {margin:.2g}, p = {p_tost:.2g}; paired t, p = {p:.2g}"
    outcome = significance.outcome(p, p_tost, alpha)
    if outcome == "equivalent":
        return REPRODUCED, f"{test}: equivalent", test
    if outcome == "different":
        return NOT_REPRODUCED, f"{test}: different", test
    wanting = significance.queries_for_equivalence(differences, margin, alpha)
    return unclear(test, "neither different nor equivalent", len(differences), wanting, margin)


def wanted_no_loss(
    differences: Values, p: float, margin: float, alpha: float
) -> tuple[str, str, str]:
    """Is the mean surely above − margin?"""
    p_lower = significance.not_below(differences, margin)
    test = f"one-sided t against −{margin:.2g}, p = {p_lower:.2g}; paired t, p = {p:.2g}"
    if p_lower < alpha:
        return REPRODUCED, f"{test}: not lower", test
    if p < alpha and differences.mean() < 0:
        return NOT_REPRODUCED, f"{test}: lower", test
    wanting = significance.queries_for_equivalence(differences, margin, alpha)
    return unclear(test, "a loss is not ruled out", len(differences), wanting, margin)


def unclear(test: str, shown: str, n: int, wanting: int, margin: float) -> tuple[str, str, str]:
    """The verdict where the test decided nothing: did it have the power to?"""
    if n < wanting:
        why = f"{test}: {shown}; about {wanting:,} queries would decide at a margin of {margin:.2g}"
        return NOT_TESTED, why, test
    return NOT_REPRODUCED, f"{test}: {shown}, though {n:,} queries suffice to tell", test


def ratio(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Ratio of two systems' mean or 95th percentile, queries resampled in pairs."""
    table = results.paired(query, query["system"], query["baseline"]).to_numpy()
    statistic = query.get("statistic", "mean")
    here = float(ratios.quotient(table, statistic))
    low, high = ratios.interval(
        table, statistic, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    least, most, wording = bounds(claim, query.get("expect", "close"))
    said = (
        f"{statistic} {what(query)}, {query['system']} over {query['baseline']}: {here:.3g} "
        f"{span((low, high))}, {len(table):,} queries; published {wording}"
    )
    test = "paired bootstrap over queries"
    above = claim["published"] > 1
    if low <= 1 <= high:
        if low <= most and high >= least:
            verdict, shown = NOT_TESTED, "both no effect and the published one fit the interval"
        else:
            verdict, shown = NOT_REPRODUCED, "no effect shown"
    elif (here > 1) != above:
        verdict, shown = NOT_REPRODUCED, "the effect goes the other way"
    elif least <= here <= most:
        verdict, shown = REPRODUCED, "as published"
    else:
        verdict, shown = DIRECTION, "same direction, another size"
    return Finding(verdict, f"{said}: {shown}", here, (low, high), test)


def untested(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """A claim that no stage tests yet: `untested` says why."""
    return Finding(NOT_TESTED, query["reason"])


def number_of(system: str) -> int:
    """'icf-p03' → 3."""
    return int(system[len(system.rstrip("0123456789")) :])


def what(query: Spec) -> str:
    """The quantity that a query is about, in words."""
    return str(query.get("measure") or query["column"].replace("_", " "))


def paper_in(query: Spec) -> str:
    """The paper whose results a query reads."""
    return str(query.get("paper") or query["table"].split("/")[0])


def level(rules: Rules) -> str:
    """'(95% interval)' of the rules' alpha."""
    return f"with {100 * (1 - rules.alpha):.3g}% interval"


def span(interval: tuple[float, float]) -> str:
    """'[low, high]'."""
    return f"[{interval[0]:.4g}, {interval[1]:.4g}]"
