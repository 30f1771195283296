"""What our results say about the shape of a figure's curve.

A curve is a family of systems that differ in one number, the one that ends their names, such as
the p of `icf-p03`. As in `findings`, each function answers one kind of query.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from espalier.evaluation import significance
from espalier.evaluation.findings import (
    DIRECTION,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    Finding,
    Rules,
    Spec,
    number_of,
    paper_in,
    span,
    tolerated,
    wanted_difference,
    what,
)
from espalier.evaluation.results import Absent, Results
from espalier.evaluation.significance import Values

GOOD = 0.5
"""Spearman's correlation above which two costs go well together."""


def onset(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """From which point of a sweep on is every system equivalent to the family's baseline?

    Points are the numbers that end the systems' names. Equivalent from the published point (plus
    the tolerance) on: reproduced; from a later one, but in the sweep's first half: the direction
    holds.
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


def above(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Does one curve of quality against cost lie above another, at equal cost?

    Between its points the lower curve is interpolated. Reproduced when the mean distance over the
    points of the upper curve, where the costs of both overlap, is surely positive and no point is
    lower by the margin or more; otherwise, when it is surely positive, the direction holds.
    """
    upper, lower = (curve(query, results, name) for name in (query["system"], query["baseline"]))
    cost = {"table": query["table"], "column": query["column"]}
    systems = [*upper, *lower]
    quality = results.paired({k: query[k] for k in ("paper", "measure")}, *systems)
    costs = results.paired(cost, *systems)
    shared = quality.index.intersection(costs.index)
    values = np.concatenate([quality.loc[shared], costs.loc[shared]], axis=1)

    def distances(means: NDArray[np.float64]) -> NDArray[np.float64]:
        """One mean of each point's quality, then cost: float64[2 · systems] → float64[points]."""
        (top, bottom), (x_top, x_bottom) = (
            np.split(part, [len(upper)]) for part in np.split(means, 2)
        )
        order = np.argsort(x_bottom, kind="stable")
        within = (x_top >= x_bottom[order][0]) & (x_top <= x_bottom[order][-1])
        found: NDArray[np.float64] = top - np.interp(x_top, x_bottom[order], bottom[order])
        kept: NDArray[np.float64] = found[within]
        return kept

    def distance(drawn: Values) -> Values:
        """float64[samples, queries, 2 · systems] → float64[samples]."""
        found = [distances(means) for means in drawn.mean(axis=1)]
        return np.array([each.mean() if len(each) else 0.0 for each in found])

    at_points = distances(values.mean(axis=0))
    if not len(at_points):
        raise Absent(f"{query['system']} and {query['baseline']} share no range of costs")
    here, worst = float(at_points.mean()), float(at_points.min())
    low, high = significance.bootstrap(
        values, distance, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    margin = rules.margin.around(float(quality[list(lower)].to_numpy().mean()))
    said = (
        f"{query['measure']} at equal {what(cost)}, {query['system']} less {query['baseline']}: "
        f"mean distance {here:+.4g} {span((low, high))}, at the worst of {len(at_points)} points "
        f"{worst:+.4g}"
    )
    test = "bootstrap over queries of the distance between curves"
    if low > 0 and worst > -margin:
        verdict, shown = REPRODUCED, "above throughout"
    elif low > 0:
        verdict, shown = DIRECTION, f"above on the whole, but below by {margin:.2g} or more at one"
    elif high < margin:
        verdict, shown = NOT_REPRODUCED, "not above"
    else:
        verdict, shown = NOT_TESTED, "too few queries to tell which is above"
    return Finding(verdict, f"{said}: {shown}", here, (low, high), test)


def curve(query: Spec, results: Results, pattern: str) -> list[str]:
    """The systems of a curve, in the order of the number that ends their names."""
    known = results.require(paper_in(query))["systems"]
    found = sorted((s for s in known if fnmatchcase(s, pattern)), key=number_of)
    if not found:
        raise Absent(f"this experiment has no system like '{pattern}'")
    return found


def fewer_different(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Does one curve differ from the family's baseline at fewer points than another does?"""
    table = results.table(f"evaluation/{query['paper']}.comparisons")
    rows = table[(table["family"] == query["family"]) & (table["measure"] == query["measure"])]
    counts = []
    for pattern in (query["system"], query["baseline"]):
        points = rows[[fnmatchcase(str(s), pattern) for s in rows["system"]]]
        if points.empty:
            raise Absent(f"this experiment has no comparison of '{pattern}'")
        counts.append((int((points["p_bonferroni"] < rules.alpha).sum()), len(points)))
    (ours, all_ours), (theirs, all_theirs) = counts
    said = (
        f"{query['measure']}: {query['system']} differs from the baseline at {ours} of {all_ours} "
        f"points, {query['baseline']} at {theirs} of {all_theirs}"
    )
    verdict = REPRODUCED if ours < theirs else NOT_REPRODUCED
    return Finding(verdict, said, float(ours - theirs), None, "paired t with Bonferroni per point")


def flattening(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Does a curve rise faster, per step, before its knee than after it?

    `systems` are a first point, the knee and a last one. Each query has a contrast, the slope
    before less the slope after, which a paired t-test holds against zero.
    """
    points = [number_of(system) for system in query["systems"]]
    table = results.paired(query, *query["systems"]).to_numpy()
    before, after = (np.diff(table, axis=1) / np.diff(points)).T
    contrast = before - after
    interval = significance.mean_interval(
        contrast, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    _, p = significance.paired_t(contrast)
    margin = rules.margin.around(float(table[:, -1].mean())) / (points[1] - points[0])
    verdict, shown, test = wanted_difference(contrast, p, margin, rules.alpha)
    said = (
        f"{what(query)} per step: {before.mean():+.4g} from {points[0]} to {points[1]}, "
        f"{after.mean():+.4g} from there to {points[2]}; less of it by {span(interval)}"
    )
    return Finding(verdict, f"{said}; {shown}", float(contrast.mean()), interval, test)


def together(query: Spec, claim: Spec, results: Results, rules: Rules) -> Finding:
    """Do two columns go together over systems? Spearman's correlation of the systems' means."""
    tables = [results.paired(query[axis], *query["systems"]) for axis in ("x", "y")]
    shared = tables[0].index.intersection(tables[1].index)
    values = np.stack([table.loc[shared].to_numpy() for table in tables], axis=2)

    def correlation(drawn: Values) -> Values:
        """float64[samples, queries, systems, 2] → float64[samples]; 0 where all systems tie."""
        ranks = stats.rankdata(drawn.mean(axis=1), axis=1)
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).sum(axis=1).prod(axis=1))
        shared = centred.prod(axis=2).sum(axis=1)
        found: Values = np.divide(shared, spread, out=np.zeros_like(spread), where=spread > 0)
        return found

    here = float(correlation(values[None])[0])
    low, high = significance.bootstrap(
        values, correlation, samples=rules.samples, alpha=rules.alpha, seed=rules.seed
    )
    names = " and ".join(what(query[axis]) for axis in ("x", "y"))
    said = f"Spearman's correlation of {names} over {len(query['systems'])} systems: {here:.3g}"
    test = "bootstrap over queries of the rank correlation of means"
    if low > GOOD:
        verdict, shown = REPRODUCED, f"above {GOOD:g}"
    elif low > 0:
        verdict, shown = DIRECTION, f"positive, not surely above {GOOD:g}"
    elif high >= 0:
        verdict, shown = NOT_TESTED, "neither sign is ruled out"
    else:
        verdict, shown = NOT_REPRODUCED, "not positive"
    return Finding(verdict, f"{said} {span((low, high))}; {shown}", here, (low, high), test)


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
