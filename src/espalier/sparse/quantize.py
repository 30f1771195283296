"""Linear quantisation of posting weights to 8 bits and of query weights to integers."""

import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError
from espalier.sparse.postings import Weights

BITS = 8
"""Bits of a quantised posting weight."""

TOP = 2**BITS - 1
"""The largest quantised posting weight."""

QUERY_UNIT = 64
"""A query weight of 1 as an integer: learned query weights keep about two decimals."""

MOST = 2**20
"""The largest query weight: 500 terms of it, mixed in thousandths, sum to less than 2^53, so that
sums are exact in a float64."""


def checked(weights: npt.NDArray[np.number], what: str) -> None:
    """EspalierError unless every weight is finite and not negative."""
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = weights[np.flatnonzero(bad)[0]]
        raise EspalierError(
            f"{what}: {int(bad.sum())} weights are negative, NaN or infinite (first: {first}); "
            "weights must be finite and not negative"
        )


def postings(weights: npt.NDArray[np.floating], largest: float, bits: int | None) -> Weights:
    """Map [0, largest] linearly to 0 … 255; what is present (> 0) stays present (≥ 1).

    The step is largest / 255, so a weight is off by at most half a step (a whole one for the
    smallest that would have vanished). Without `bits`, [0, largest] is mapped to float32
    0.0 … 255.0: the same unit, nothing rounded.
    """
    kind: type[np.uint8] | type[np.float32] = np.uint8 if bits else np.float32
    if largest <= 0:
        return np.zeros(len(weights), dtype=kind)
    scaled = weights / largest * TOP
    if bits:
        scaled = np.where(weights > 0, np.clip(np.rint(scaled), 1, TOP), 0)
    quantised: Weights = scaled.astype(kind)
    return quantised


def query(weights: npt.NDArray[np.number]) -> npt.NDArray[np.int64]:
    """Query weights as integers of 1/64, rounded; EspalierError for a bad or too large one."""
    checked(weights, "query")
    if len(weights) and weights.max() > MOST:
        raise EspalierError(
            f"query: a term weighs {weights.max()}, the most is {MOST}; scale the queries' weights "
            "down"
        )
    return np.rint(np.asarray(weights, dtype=np.float64) * QUERY_UNIT).astype(np.int64)
