"""Which segments of a document hold a query's answer: a gold span, as characters of the text.

Kim et al. 2021, section 'Results': a segment is right when it contains the relevant passage. Where
segments end inside the span, ours is: the one that holds the span's larger part. Of an answer that
is longer than segments are, none may hold so much; then every segment that is, for its larger part,
answer is right. Where only a document's leading segments are known, one of the others may hold the
larger part of an answer that they do not reach the end of; then none of the leading ones is right.
"""

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def overlap(starts: Places, ends: Places, start: int, end: int) -> Places:
    """int64[segments]: characters of each that belong to the span; ends exclusive."""
    shared: Places = np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0)
    return shared


def right(starts: Places, ends: Places, start: int, end: int) -> NDArray[np.bool_]:
    """bool[segments]: which of a document's leading segments (int64[segments] each) are right."""
    inside, length = overlap(starts, ends, start, end), end - start
    holds = 2 * inside > length
    beyond = end - max(int(ends.max()), start)
    return holds if holds.any() or 2 * beyond > length else 2 * inside > ends - starts
