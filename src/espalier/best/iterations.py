"""Which iteration is the final one.

Kim et al. 2021, section 'Proposed method': 'the iterations need to be early-stopped based on the
validation performance'.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd


def picked(dev: Sequence[float]) -> int:
    """Number, from 1, of the last iteration before the dev measure no longer rises.

    `dev` holds the iterations' dev measures in order, at least one.
    """
    for number, (now, after) in enumerate(pairwise(dev), start=1):
        if after <= now:
            return number
    return len(dev)


def dev_measures(history: pd.DataFrame) -> dict[str, float]:
    """Each system's best dev measure: what its saved state reached."""
    return {str(k): float(v) for k, v in history.groupby("system")["dev_rr"].max().items()}


def table(hits: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Table 2: system, dev_rr, picked, and the columns of `hits` (float64[systems, rules]).

    `picked` marks the iteration that is final. What has no dev measure (chance) or no known answers
    has NaN there.
    """
    dev = dev_measures(history)
    thetas = sorted((s for s in dev if s.startswith("theta") and s != "theta0"), key=number)
    final = thetas[picked([dev[theta] for theta in thetas]) - 1] if thetas else None
    if final:
        dev["best"] = dev[final]
    systems = [*dict.fromkeys([*hits.index, *dev])]
    rows = pd.DataFrame({"system": systems, "dev_rr": [dev.get(s, np.nan) for s in systems]})
    rows["picked"] = rows["system"] == final
    return rows.merge(hits.reset_index(), how="left", on="system")


def number(theta: str) -> int:
    """'theta3' → 3."""
    return int(theta.removeprefix("theta"))
