"""Distributions of posting weights, min-max scaled (the paper's Figure 1)."""

import numpy as np
import pandas as pd

from espalier.sparse.postings import Postings

BINS = 50


def distribution(postings: Postings) -> pd.DataFrame:
    """Counts of each side's positive weights in 50 equal bins of [0, 1].

    Columns side ('bm25' or 'learned'), bin_low, bin_high (float64), count (int64).
    """
    edges = np.linspace(0, 1, BINS + 1)
    sides = []
    for side, weights in (("bm25", postings.bm25), ("learned", postings.learned)):
        present = weights[weights > 0].astype(np.float64)
        if len(present):
            low, high = present.min(), present.max()
            present = (present - low) / (high - low) if high > low else np.zeros(len(present))
        count, _ = np.histogram(present, edges)
        sides.append(
            pd.DataFrame(
                {"side": side, "bin_low": edges[:-1], "bin_high": edges[1:], "count": count}
            )
        )
    return pd.concat(sides, ignore_index=True)
