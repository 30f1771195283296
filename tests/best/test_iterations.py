import numpy as np
import pandas as pd
import pytest

from espalier.best import iterations


@pytest.mark.parametrize(
    ("dev", "expected"),
    [([0.3], 1), ([0.3, 0.2, 0.9], 1), ([0.1, 0.2, 0.3, 0.25], 3), ([0.1, 0.1], 1), ([1, 2], 2)],
)
def test_the_last_iteration_before_the_dev_measure_stops_rising(
    dev: list[float], expected: int
) -> None:
    assert iterations.picked(dev) == expected


def test_table_of_dev_measures_and_hits() -> None:
    history = pd.DataFrame(
        [("maxp", 0, 0.2), ("maxp", 1, 0.5), ("theta0", 1, 0.9), ("theta1", 1, 0.6),
         ("theta2", 1, 0.7), ("theta10", 1, 0.65)],
        columns=["system", "epoch", "dev_rr"],
    )  # fmt: skip
    hits = pd.DataFrame(
        {"hit": [0.25, 0.5, 0.75]}, index=pd.Index(["chance", "maxp", "best"], name="system")
    )
    table = iterations.table(hits, history).set_index("system")
    # theta10 comes after theta2, and its dev measure is lower.
    assert table.index[table["picked"]].tolist() == ["theta2"]
    expected = {
        "chance": np.nan, "maxp": 0.5, "best": 0.7, "theta0": 0.9, "theta1": 0.6, "theta2": 0.7,
        "theta10": 0.65,
    }  # fmt: skip
    assert table["dev_rr"].to_dict() == pytest.approx(expected, nan_ok=True)
    assert table["hit"].dropna().to_dict() == {"chance": 0.25, "maxp": 0.5, "best": 0.75}
    baselines = iterations.table(hits, history.query("system == 'maxp'"))
    assert not baselines["picked"].any()
