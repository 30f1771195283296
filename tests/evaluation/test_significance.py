"""Tests against the textbook formulas, scipy's and statsmodels' own, and known coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from espalier.evaluation import significance
from espalier.evaluation.significance import Margin

A = np.array([0.9, 0.5, 0.7, 0.4, 1.0, 0.6])
B = np.array([0.8, 0.5, 0.5, 0.5, 0.7, 0.4])
D = A - B


def test_paired_t_by_formula_and_scipy() -> None:
    t, p = significance.paired_t(D)
    mean, spread = sum(D) / 6, math.sqrt(sum((D - sum(D) / 6) ** 2) / 5)
    assert t == pytest.approx(mean / (spread / math.sqrt(6)))
    expected = stats.ttest_rel(A, B)
    assert (t, p) == pytest.approx((expected.statistic, expected.pvalue))
    assert significance.effect_size(D) == pytest.approx(t / math.sqrt(6))


differences = st.lists(st.floats(-1, 1), min_size=3, max_size=20).filter(
    lambda values: np.std(values) > 1e-6
)


@given(differences, st.floats(0.001, 0.5))
@settings(max_examples=50, deadline=None)
def test_equivalence_is_statsmodels_tost(values: list[float], margin: float) -> None:
    array = np.array(values)
    expected = ttost_paired(array, np.zeros_like(array), -margin, margin)[0]
    assert significance.equivalence(array, margin) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "p", "p_tost", "outcome"),
    [
        (np.zeros(8), 1.0, 0.0, "equivalent"),
        (np.array([0.1 + 0.2 - 0.3] * 7 + [0.3 - 0.2 - 0.1]), 1.0, 0.0, "equivalent"),
        (np.full(8, 0.5), 0.0, 1.0, "different"),
        (np.full(8, 0.001), 0.0, 0.0, "equivalent"),
        (np.array([0.3]), 1.0, 1.0, "undecided"),
    ],
)
def test_differences_without_spread(values, p, p_tost, outcome) -> None:
    assert significance.paired_t(values)[1] == p
    assert significance.equivalence(values, 0.01) == p_tost
    assert significance.outcome(p, p_tost, 0.05) == outcome


def test_corrections_by_hand() -> None:
    p = [0.01, 0.04, 0.03, 0.5]
    assert significance.adjusted(p, "bonferroni") == pytest.approx([0.04, 0.16, 0.12, 1.0])
    # Holm: sorted .01·4, .03·3, .04·2 (raised to .09), .5·1
    assert significance.adjusted(p, "holm") == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert significance.adjusted([], "holm") == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_corrections_by_their_definitions(p: list[float]) -> None:
    """Bonferroni: p times the family's size. Holm: stepwise, never falling."""
    size = len(p)
    assert significance.adjusted(p, "bonferroni") == pytest.approx([min(1, size * x) for x in p])
    order = sorted(range(size), key=lambda i: p[i])
    stepped = [min(1, (size - rank) * p[i]) for rank, i in enumerate(order)]
    expected = dict(zip(order, np.maximum.accumulate(stepped), strict=True))
    assert significance.adjusted(p, "holm") == pytest.approx([expected[i] for i in range(size)])


def test_effect_size_is_cohens_d_of_the_paired_differences() -> None:
    """d = t / √n (Lakens, Front. Psychol. 4, 2013), for scipy's t."""
    t = stats.ttest_rel(A, B).statistic
    assert significance.effect_size(D) == pytest.approx(t / math.sqrt(len(D)))
    assert significance.effect_size(-D) == pytest.approx(-t / math.sqrt(len(D)))
    assert significance.effect_size(np.zeros(4)) == 0


def test_margin_is_the_larger() -> None:
    assert Margin(0.01, 0.02).around(0.3) == 0.01
    assert Margin(0.01, 0.02).around(700.0) == pytest.approx(14.0)


def test_bootstrap_interval_covers_as_it_says() -> None:
    generator = np.random.default_rng(7)
    covered = 0
    for trial in range(200):
        sample = generator.normal(0.3, 1.0, size=60)
        low, high = significance.mean_interval(sample, samples=400, alpha=0.1, seed=trial)
        covered += low <= 0.3 <= high
    assert 0.83 <= covered / 200 <= 0.95


def test_bootstrap_interval_is_near_the_t_interval_and_seeded() -> None:
    sample = np.random.default_rng(1).normal(0.1, 0.2, size=300)
    found = significance.mean_interval(sample, samples=4000, alpha=0.05, seed=3)
    expected = stats.t.interval(0.95, 299, loc=sample.mean(), scale=stats.sem(sample))
    assert found == pytest.approx(expected, abs=0.003)
    assert found == significance.mean_interval(sample, samples=4000, alpha=0.05, seed=3)
    assert found != significance.mean_interval(sample, samples=4000, alpha=0.05, seed=4)


def test_bootstrap_interval_is_scipys() -> None:
    sample = np.random.default_rng(2).exponential(1.0, size=80)
    found = significance.mean_interval(sample, samples=20_000, alpha=0.1, seed=3)
    expected = stats.bootstrap(
        (sample,), np.mean, n_resamples=20_000, confidence_level=0.9, method="percentile", rng=4
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), abs=0.006)


def test_bootstrap_keeps_pairs_together() -> None:
    """Two systems that always differ by a factor of 2 have that ratio in every resample."""
    base = np.random.default_rng(5).uniform(1, 100, size=50)
    pairs = np.stack([2 * base, base], axis=1)
    low, high = significance.bootstrap(
        pairs,
        lambda drawn: drawn[..., 0].mean(axis=1) / drawn[..., 1].mean(axis=1),
        samples=200,
        alpha=0.05,
        seed=1,
    )
    assert (low, high) == pytest.approx((2.0, 2.0))


def test_queries_needed_give_the_power_promised() -> None:
    generator = np.random.default_rng(11)
    spread, margin = 0.2, 0.05
    pilot = generator.normal(0, spread, size=20_000)
    n = significance.queries_for_difference(pilot, margin, 0.05)
    found = sum(
        significance.paired_t(generator.normal(margin, spread, size=n))[1] < 0.05
        for _ in range(400)
    )
    assert 0.73 <= found / 400 <= 0.87
    n = significance.queries_for_equivalence(pilot, margin, 0.05)
    found = sum(
        significance.equivalence(generator.normal(0, spread, size=n), margin) < 0.05
        for _ in range(400)
    )
    assert 0.73 <= found / 400 <= 0.87


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_queries_needed_are_statsmodels(spread: float, alpha: float) -> None:
    """The t-test's power exactly, by statsmodels; TOST's for equal systems, twice one-sided."""
    pilot = np.array([-1.0, 1.0]) * spread / math.sqrt(2)
    margin, power = 0.02, TTestPower()
    exact = power.solve_power(margin / spread, alpha=alpha, power=0.8, alternative="two-sided")
    found = significance.queries_for_difference(pilot, margin, alpha)
    assert abs(found - math.ceil(exact)) <= 1
    exact = power.solve_power(margin / spread, alpha=alpha, power=0.9, alternative="larger")
    found = significance.queries_for_equivalence(pilot, margin, alpha)
    assert abs(found - math.ceil(exact)) <= 1


def test_a_number_of_queries_for_differences_without_spread() -> None:
    assert significance.queries_for_difference(np.full(5, 0.3), 0.01, 0.05) == 2
    assert significance.queries_for_equivalence(np.array([0.3]), 0.01, 0.05) == 2**31 - 1
