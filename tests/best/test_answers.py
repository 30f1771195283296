"""Right segments of one document, worked out by hand."""

import numpy as np
import pytest

from espalier.best.answers import right

STARTS = np.array([0, 100, 200, 300, 400])
ENDS = np.array([100, 200, 300, 400, 800])


@pytest.mark.parametrize(
    ("known", "start", "end", "expected"),
    [
        (5, 110, 190, [1]),
        (5, 150, 251, [2]),  # 50 characters in one segment, 51 in the next
        (5, 150, 250, []),  # two halves: neither holds more, neither is mostly answer
        (5, 120, 390, [1, 2, 3]),  # none holds more than half; each is mostly answer
        (5, 310, 700, [4]),
        # Of the first four the last is mostly answer, but another may hold the larger part.
        (4, 310, 700, []),
        (4, 120, 450, [1, 2, 3]),  # no other can: 50 of 330 characters are beyond
        (2, 500, 600, []),
    ],
)
def test_right_segments(known, start, end, expected):
    found = right(STARTS[:known], ENDS[:known], start, end)
    assert np.flatnonzero(found).tolist() == expected
