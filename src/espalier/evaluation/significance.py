"""Is a paired difference real, and is it small enough not to matter?

All functions take `differences`: system minus baseline, one value per query. Student's paired
t-test, as the papers use it, answers the first question; two one-sided tests (TOST; Schuirmann,
J. Pharmacokinet. Biopharm. 15, 1987; Lakens, Soc. Psychol. Pers. Sci. 8, 2017) the second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

Values = NDArray[np.float64]

POWER = 0.8
"""A test that would find less than this share of the effects in question lacks power."""


NOISE = 1e-12
"""Differences as small as this are rounding errors."""


@dataclass(frozen=True)
class Margin:
    """How large a difference still does not matter: the larger of the two."""

    absolute: float
    relative: float
    """Share of the baseline's mean."""

    def around(self, baseline_mean: float) -> float:
        """The margin in the measure's own unit."""
        return max(self.absolute, self.relative * abs(baseline_mean))


def paired_t(differences: Values) -> tuple[float, float]:
    """Student's t and two-sided p; (0, 1) for identical systems, where the formula gives NaN."""
    if len(differences) < 2 or nothing(differences):
        return 0.0, 1.0
    if constant(differences):
        return float(np.sign(differences[0]) * np.inf), 0.0
    result = stats.ttest_1samp(differences, 0.0)
    return float(result.statistic), float(result.pvalue)


def not_below(differences: Values, margin: float) -> float:
    """One-sided p of 'lower by `margin` or more': small when that can be ruled out."""
    if len(differences) < 2:
        return 1.0
    if constant(differences):
        return 0.0 if differences[0] > -margin else 1.0
    return float(stats.ttest_1samp(differences, -margin, alternative="greater").pvalue)


def equivalence(differences: Values, margin: float) -> float:
    """TOST's p: small when a difference of `margin` or more, either way, can be ruled out."""
    return max(not_below(differences, margin), not_below(-differences, margin))


def effect_size(differences: Values) -> float:
    """Cohen's d_z: mean over standard deviation; 0 for identical systems."""
    if len(differences) < 2 or nothing(differences):
        return 0.0
    if constant(differences):
        return float(np.sign(differences[0]) * np.inf)
    return float(np.mean(differences) / np.std(differences, ddof=1))


def nothing(differences: Values) -> bool:
    """Whether there is no difference at all."""
    return bool(np.abs(differences).max() <= NOISE)


def constant(differences: Values) -> bool:
    """Whether all differences are the same, which leaves no spread to test against."""
    return bool(np.ptp(differences) <= NOISE)


def bootstrap(
    values: Values,
    statistic: Callable[[Values], Values],
    *,
    samples: int,
    alpha: float,
    seed: int,
) -> tuple[float, float]:
    """Percentile interval at level 1 − alpha of a statistic, over resampled queries.

    `values` has one row per query, float64[queries] or [queries, systems], so that what is paired
    stays paired; `statistic` maps [samples, queries, …] to [samples].
    """
    generator = np.random.default_rng(seed)
    n = len(values)
    batch = max(1, 4_000_000 // max(1, values.size))
    drawn = []
    for first in range(0, samples, batch):
        rows = generator.integers(0, n, size=(min(batch, samples - first), n))
        drawn.append(statistic(values[rows]))
    low, high = np.quantile(np.concatenate(drawn), [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def mean_interval(
    differences: Values, *, samples: int, alpha: float, seed: int
) -> tuple[float, float]:
    """Bootstrap interval of the mean difference."""
    return bootstrap(
        differences, lambda drawn: drawn.mean(axis=1), samples=samples, alpha=alpha, seed=seed
    )


def adjusted(p_values: Sequence[float], method: str) -> list[float]:
    """p-values adjusted over their family: method 'bonferroni' or 'holm'."""
    if not len(p_values):
        return []
    return [float(p) for p in multipletests(p_values, method=method)[1]]


def outcome(p: float, p_tost: float, alpha: float) -> str:
    """'equivalent', 'different' or 'undecided'.

    Equivalence is the stronger statement: with many queries a difference can be significant and
    yet surely smaller than the margin; that is called equivalent.
    """
    if p_tost < alpha:
        return "equivalent"
    return "different" if p < alpha else "undecided"


def queries_for_equivalence(differences: Values, margin: float, alpha: float) -> int:
    """Queries with which TOST would find two equal systems equivalent, with power 0.8.

    For a spread like that of `differences`.
    """
    return needed(differences, margin, 1 - alpha, (1 + POWER) / 2)


def queries_for_difference(differences: Values, margin: float, alpha: float) -> int:
    """Queries with which the t-test would find a difference of `margin`, with power 0.8."""
    return needed(differences, margin, 1 - alpha / 2, POWER)


def needed(differences: Values, margin: float, level: float, power: float) -> int:
    """Queries with which a one-sided t-test at 1 − `level` finds `margin` so often; at least 2.

    Normal approximation, with Guenther's correction for Student's t (Am. Stat. 35, 1981). A single
    query tells nothing of the spread, so that no number can be given: the largest one.
    """
    if len(differences) < 2:
        return 2**31 - 1
    z = float(stats.norm.ppf(level))
    standard_errors = z + float(stats.norm.ppf(power))
    if constant(differences):
        return 2
    spread = float(np.std(differences, ddof=1))
    n = (standard_errors * spread / margin) ** 2 + z**2 / 2
    return max(2, ceil(n)) if isfinite(n) and n < 2**31 - 1 else 2**31 - 1
