"""Linear quantisation of posting weights to 8 bits and of query weights to integers."""

import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError

TOP = 255
"""The largest quantised posting weight."""

QUERY_UNIT = 64
"""A query weight of 1 as an integer: learned query weights keep about two decimals."""


def checked(weights: npt.NDArray[np.number], what: str) -> None:
    """EspalierError unless every weight is finite and not negative."""
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = weights[np.flatnonzero(bad)[0]]
        raise EspalierError(
            f"{what}: {int(bad.sum())} weights are negative, NaN or infinite (first: {first}); "
            "weights must be finite and not negative"
        )


def postings(weights: npt.NDArray[np.floating], largest: float) -> npt.NDArray[np.uint8]:
    """Map [0, largest] linearly to 0 … 255; what is present (> 0) stays present (≥ 1).

    The step is largest / 255, so a weight is off by at most half a step (a whole one for the
    smallest that would have vanished).
    """
    if largest <= 0:
        return np.zeros(len(weights), dtype=np.uint8)
    scaled = np.rint(weights / largest * TOP)
    return np.where(weights > 0, np.clip(scaled, 1, TOP), 0).astype(np.uint8)


def query(weights: npt.NDArray[np.number]) -> npt.NDArray[np.int64]:
    """Query weights as integers of 1/64, rounded."""
    checked(weights, "query")
    return np.rint(np.asarray(weights, dtype=np.float64) * QUERY_UNIT).astype(np.int64)
