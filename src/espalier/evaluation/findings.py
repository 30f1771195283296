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
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd

from espalier.evaluation import ratios, significance
from espalier.evaluation.results import Results
from espalier.evaluation.significance import Margin, Values

REPRODUCED = "reproduced"
DIRECTION = "direction only"
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
    """An absolute value, comparable only on the collection where it was published."""
    values = results.per_query(query, query["system"]).to_numpy()
    here = float(values.mean())
    interval = significance.mean_interval(
        values, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    said = f"{what(query)} of {query['system']} is {here:.4g} {level(rules)} {span(interval)}"
    test = "mean over queries"
    collection = results.require(paper_in(query))["collection"]
    elsewhere = published_elsewhere(claim["scale"], collection)
    if elsewhere:
        why = f"{elsewhere}, where {said}"
        return Finding(NOT_TESTED, why, here, interval, test)
    allowed = tolerated(claim["published"], claim["tolerance"])
    close = abs(here - claim["published"]) <= allowed
    why = f"{said}; published {claim['published']:.4g} ± {allowed:.2g}"
    return Finding(REPRODUCED if close else NOT_REPRODUCED, why, here, interval, test)


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
    published, allowed = claim["published"], tolerated(claim["published"], claim["tolerance"])
    expect = query.get("expect", "close")
    least = -np.inf if expect == "at-most" else published - allowed
    most = np.inf if expect == "at-least" else published + allowed
    wording = {"close": "", "at-least": "at least ", "at-most": "at most "}[expect]
    said = (
        f"{statistic} {what(query)}, {query['system']} over {query['baseline']}: {here:.3g} "
        f"{span((low, high))}, {len(table):,} queries; "
        f"published {wording}{published:.3g} ± {allowed:.2g}"
    )
    test = "paired bootstrap over queries"
    above = published > 1
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


def onset(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """From which point of a sweep on is every system equivalent to the family's baseline?

    Points are the numbers that end the systems' names. Equivalent from the published point (plus
    the tolerance) on: reproduced; from a later one, but in the sweep's first half: direction only.
    """
    table = results.table(f"evaluation/{query['paper']}.comparisons")
    sweep = {
        number_of(str(row.system)): str(row.outcome)
        for row in table.itertuples(index=False)
        if (row.family, row.measure) == (query["family"], query["measure"])
        and fnmatchcase(str(row.system), query["systems"])
    }
    here = first_of_rest(sweep, ("equivalent",))
    undecided = first_of_rest(sweep, ("equivalent", "undecided"))
    allowed = claim["published"] + tolerated(claim["published"], claim["tolerance"])
    test = "TOST against the baseline at each point; paired t with Bonferroni"
    said = f"{query['measure']}, {query['systems']}: "
    if not sweep:
        return Finding(NOT_TESTED, said + "this experiment has no such sweep", None, None, test)
    said += (
        "at no point equivalent to the baseline to the end"
        if here is None
        else f"equivalent to the baseline from p = {here} on"
    )
    if undecided is not None and undecided != here:
        said += f", not different from p = {undecided} on"
    said += f"; published p = {claim['published']}"
    value = None if here is None else float(here)
    if here is not None and here <= allowed:
        return Finding(REPRODUCED, said, value, None, test)
    if undecided is not None and undecided <= allowed:
        return Finding(NOT_TESTED, said + ": the points between are undecided", value, None, test)
    if here is not None and here <= max(sweep) / 2:
        return Finding(DIRECTION, said + ": later, but well before the end", value, None, test)
    return Finding(NOT_REPRODUCED, said, value, None, test)


def number_of(system: str) -> int:
    """'icf-p03' → 3."""
    return int(system[len(system.rstrip("0123456789")) :])


def first_of_rest(sweep: Mapping[int, str], outcomes: tuple[str, ...]) -> int | None:
    """The first point from which all later points have one of the outcomes."""
    first = None
    for point in sorted(sweep, reverse=True):
        if sweep[point] not in outcomes:
            break
        first = point
    return first


def rising(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Do the means rise from each system to the next, and significantly from first to last?"""
    table = results.paired(query, *query["systems"]).to_numpy()
    means = table.mean(axis=0)
    differences = table[:, -1] - table[:, 0]
    interval = significance.mean_interval(
        differences, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    _, p = significance.paired_t(differences)
    margin = rules.margin.around(float(means[0]))
    steps = ", ".join(f"{s} {m:.4g}" for s, m in zip(query["systems"], means, strict=True))
    said = f"{what(query)}: {steps}; last − first {differences.mean():+.4g} {span(interval)}"
    verdict, shown, test = wanted_difference(differences, p, margin, rules.alpha)
    if verdict == REPRODUCED and (np.diff(means) <= 0).any():
        verdict, shown = DIRECTION, f"{test}: higher at the end, but not at each step"
    return Finding(verdict, f"{said}; {shown}", float(differences.mean()), interval, test)


def skew(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Do one side's scaled weights pile up low and the other's high?

    `table` is a histogram (sparse/weights.py). Told by the medians: on either side of the middle of
    the scale as published, or only one above the other. All postings are counted, none sampled.
    """
    results.require(query["paper"])
    if query["table"] not in results.tables:
        return Finding(NOT_TESTED, f"this experiment has no {query['table']}")
    histogram = results.tables[query["table"]]
    low, high = (median_of(histogram, query[side]) for side in ("low", "high"))
    said = f"median of scaled weights: {query['low']} {low:.2f}, {query['high']} {high:.2f}"
    test = "medians of all postings' weights"
    if low < 0.5 < high:
        return Finding(REPRODUCED, f"{said}: low and high, as published", high - low, None, test)
    if low < high:
        why = f"{said}: one above the other, but on one side of the middle"
        return Finding(DIRECTION, why, high - low, None, test)
    return Finding(NOT_REPRODUCED, f"{said}: not as published", high - low, None, test)


def median_of(histogram: pd.DataFrame, side: str) -> float:
    """The middle of the bin in which half of a side's postings is reached."""
    rows = histogram[histogram["side"] == side]
    reached = rows["count"].cumsum().to_numpy() >= rows["count"].sum() / 2
    at = rows.iloc[int(np.argmax(reached))]
    return float(at["bin_low"] + at["bin_high"]) / 2


def untested(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """A claim that no stage tests yet: `untested` says why."""
    return Finding(NOT_TESTED, query["reason"])


QUERIES = {
    "mean": mean,
    "compare": compare,
    "ratio": ratio,
    "onset": onset,
    "rising": rising,
    "skew": skew,
    "untested": untested,
}
"""What may stand under `here:`, and who answers it."""


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
