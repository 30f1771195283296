"""Measures of reproduction against repro_eval 0.5.0 (its figures stored here) and by hand."""

import ir_measures
import numpy as np
import pandas as pd
import pytest

from espalier.evaluation import reproduction, significance

QUERIES = [f"q{q}" for q in range(1, 6)]
STEPS = {"original base": 3, "original advanced": 7, "our base": 9, "our advanced": 11}


def ranking(query: str, step: int) -> list[str]:
    """Twelve of twenty documents in an order made by arithmetic."""
    return [f"d{(step * i + int(query[1:])) % 20:02}" for i in range(12)]


def run_of(step: int) -> pd.DataFrame:
    rows = [(q, d, i + 1) for q in QUERIES for i, d in enumerate(ranking(q, step))]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "rank"])


def values_of(step: int) -> pd.DataFrame:
    """AP and nDCG@10 per query; five documents of each query are relevant."""
    qrels = {
        q: {f"d{(3 * int(q[1:]) + j * j) % 20:02}": 1 + j % 2 for j in range(5)} for q in QUERIES
    }
    run = {q: {d: 100.0 - i for i, d in enumerate(ranking(q, step))} for q in QUERIES}
    measures = [ir_measures.parse_measure(name) for name in ("AP", "nDCG@10")]
    found = pd.DataFrame(0.0, index=QUERIES, columns=["AP", "nDCG@10"])
    for metric in ir_measures.iter_calc(measures, qrels, run):
        found.loc[metric.query_id, str(metric.measure)] = metric.value
    return found


REPRO_EVAL = {
    ("base", "kendall_tau_union"): [
        0.18181818181818, 0.0, 0.0, -0.21212121212121, -0.24242424242424,
    ],
    ("advanced", "kendall_tau_union"): [
        0.03030303030303, 0.03030303030303, 0.15151515151515, 0.06060606060606, 0.06060606060606,
    ],
    ("base", "rank_biased_overlap"): [0.5522632834191766] * 5,
    ("advanced", "rank_biased_overlap"): [0.45022500941217236] * 5,
    ("base", "rmse"): {"AP": 0.12400769298152658, "nDCG@10": 0.13777730754819803},
    ("advanced", "rmse"): {"AP": 0.17402669636275941, "nDCG@10": 0.2436248643028585},
    ("base", "p"): {"AP": 0.10229971884081863, "nDCG@10": 0.29216242056764874},
    ("advanced", "p"): {"AP": 0.08826065561973986, "nDCG@10": 0.17289919396479772},
    "effect_ratio": {"AP": -3.188743541826976, "nDCG@10": -3.669335306828343},
    "delta_relative_improvement": {"AP": -1.3708960643911214, "nDCG@10": -0.8824172532233103},
}  # fmt: skip
"""RBO at p = .95 and depth 12, Kendall's tau union, and the rest, as repro_eval gives them."""


@pytest.mark.parametrize("name", ["base", "advanced"])
def test_orders_are_repro_evals(name) -> None:
    first, second = STEPS[f"original {name}"], STEPS[f"our {name}"]
    for statistic in ("kendall_tau_union", "rank_biased_overlap"):
        function = getattr(reproduction, statistic)
        found = [function(ranking(q, first), ranking(q, second)) for q in QUERIES]
        assert found == pytest.approx(REPRO_EVAL[name, statistic])
        (row,) = [
            row
            for row in reproduction.orders(run_of(first), [run_of(second)])
            if row["statistic"] == statistic
        ]
        assert row["value"] == pytest.approx(np.mean(REPRO_EVAL[name, statistic]))
        assert row["n"] == 5


@pytest.mark.parametrize("name", ["base", "advanced"])
@pytest.mark.parametrize("measure", ["AP", "nDCG@10"])
def test_values_are_repro_evals(name, measure) -> None:
    first, second = (values_of(STEPS[f"{whose} {name}"])[measure] for whose in ("original", "our"))
    rows = {r["statistic"]: r["value"] for r in reproduction.scores(first, second)}
    assert rows["rmse"] == pytest.approx(REPRO_EVAL[name, "rmse"][measure])
    assert rows["p"] == pytest.approx(REPRO_EVAL[name, "p"][measure])


@pytest.mark.parametrize("measure", ["AP", "nDCG@10"])
def test_effects_are_repro_evals(measure) -> None:
    original, ours = (
        pd.concat([values_of(STEPS[f"{whose} {x}"])[measure] for x in ("advanced", "base")], axis=1)
        for whose in ("original", "our")
    )
    for row in reproduction.effects(original, ours):
        assert row["value"] == pytest.approx(REPRO_EVAL[row["statistic"]][measure])


def test_rankings_by_hand() -> None:
    # Union a b c d: places 0 1 2 and 0 1 3, the same order.
    assert reproduction.kendall_tau_union(["a", "b", "c"], ["a", "b", "d"]) == 1
    assert reproduction.kendall_tau_union(["a", "b", "c"], ["c", "b", "a", "x"]) == -1
    assert reproduction.kendall_tau_union(["a"], ["a", "b"]) == 1
    assert reproduction.kendall_tau_union(["a"], ["b"]) == 0
    # Agreement at depths 1, 2, 3: 0, 1, 1.
    weights = [1, 0.95, 0.95**2]
    found = reproduction.rank_biased_overlap(["a", "b", "c"], ["b", "a", "c"])
    assert found == pytest.approx((weights[1] + weights[2]) / sum(weights))
    assert reproduction.rank_biased_overlap(["a", "b"], ["a", "b"]) == pytest.approx(1)
    assert reproduction.rank_biased_overlap(["a"], ["b", "c"]) == 0


def test_identical_runs_and_effects_that_are_not_there() -> None:
    run, values = run_of(3), values_of(3)
    table = reproduction.compare(
        {"a": (run, [run]), "b": (run, [run])},
        {"a": (values, values), "b": (values, values)},
        [("a", "b")],
    )
    assert list(table.columns) == list(reproduction.COLUMNS)
    found = table.set_index(["system", "baseline", "measure", "statistic"])["value"]
    assert found["a", "", "", "rank_biased_overlap"] == pytest.approx(1)
    assert found["a", "", "AP", "p"] == significance.paired_t(np.zeros(5))[1] == 1
    assert np.isnan(found["a", "b", "AP", "effect_ratio"])
    assert found["a", "b", "AP", "delta_relative_improvement"] == 0
