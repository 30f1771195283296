"""The declared families, on values made so that each outcome occurs."""

import numpy as np
import pandas as pd
import pytest

from espalier.errors import EspalierError
from espalier.evaluation import comparisons
from espalier.evaluation.significance import Margin

FAMILY = {"name": "f", "baseline": "base", "systems": ["sys-*", "base"], "measures": ["AP"]}
RULES = {"alpha": 0.05, "margin": Margin(0.01, 0.02), "samples": 200, "seed": 1}


def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    base = generator.uniform(0.3, 0.7, size=100)
    systems = {
        "base": base,
        "sys-same": base,
        "sys-near": base + generator.normal(0, 0.01, size=100),
        "sys-low": base - 0.1 + generator.normal(0, 0.1, size=100),
        "sys-noisy": base + generator.normal(0, 0.3, size=100),
        "other": base,
    }
    return pd.concat(
        pd.DataFrame(
            {
                "system": name,
                "query_id": [f"q{i}" for i in range(100)],
                "measure": "AP",
                "value": values,
            }
        )
        for name, values in systems.items()
    )


def test_outcomes_and_columns() -> None:
    found = comparisons.compare(table(), [FAMILY], **RULES)
    assert list(found.columns) == list(comparisons.COLUMNS)
    outcomes = dict(zip(found["system"], found["outcome"], strict=True))
    assert outcomes == {
        "sys-low": "different",
        "sys-near": "equivalent",
        "sys-noisy": "undecided",
        "sys-same": "equivalent",
    }
    low = found.set_index("system").loc["sys-low"]
    assert low["n"] == 100
    assert low["difference"] == pytest.approx(low["mean_system"] - low["mean_baseline"])
    assert low["ci_low"] < low["difference"] < low["ci_high"] < 0
    assert found["p_bonferroni"].to_numpy() == pytest.approx(
        np.minimum(4 * found["p"].to_numpy(), 1)
    )
    assert low["effect"] == pytest.approx(low["t"] / 10)
    assert (low["queries_needed"] > 100) and (low["p_holm"] <= low["p_bonferroni"])
    near = found.set_index("system").loc["sys-near"]
    assert near["queries_needed"] < 100
    same = found.set_index("system").loc["sys-same"]
    assert (same["t"], same["p"], same["p_tost"]) == (0.0, 1.0, 0.0)


def test_no_family_no_rows_yet_all_columns() -> None:
    assert list(comparisons.compare(table(), [], **RULES).columns) == list(comparisons.COLUMNS)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"baseline": "gone"}, "baseline 'gone'"), ({"measures": ["RR"]}, "measure 'RR'")],
)
def test_a_family_that_cannot_be_computed_is_named(change, message) -> None:
    with pytest.raises(EspalierError, match=message):
        comparisons.compare(table(), [{**FAMILY, **change}], **RULES)
