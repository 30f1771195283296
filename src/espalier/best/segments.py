"""Documents as non-overlapping segments that end where sentences end.

Section 'Implementation details': split at sentence boundaries only, the title repeated in each
segment, lengths randomised for training ('so that the model does not predict document relevance
based on the segment length'), as long as the model allows at inference.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Segment(NamedTuple):
    """A part of a document's text: its characters and its word pieces, ends exclusive."""

    start: int
    end: int
    first: int
    last: int

    @property
    def length(self) -> int:
        """Word pieces."""
        return self.last - self.first

    def joined(self, after: "Segment") -> "Segment":
        """One segment of both, `after` being the next."""
        return Segment(self.start, after.end, self.first, after.last)


def split(
    sentences: Sequence[tuple[int, int]],
    offsets: NDArray[np.int64],
    limit: int,
    draw: Callable[[], int],
) -> list[Segment]:
    """Join sentences to segments of at most `limit` word pieces; together they are the whole text.

    `sentences` are character ranges without gaps; `offsets` int64[n] are the first characters of
    the text's word pieces, ascending. `draw` gives the length that the next segment aims at, at
    most `limit`: a segment takes whole sentences while they fit it, and at least one. Only a
    sentence longer than `limit` is cut. A text without word pieces is one segment, so that its
    title can still be scored.
    """
    done: list[Segment] = []
    current, aim = Segment(0, 0, 0, 0), draw()
    for unit in units(sentences, offsets, limit):
        if current.length and current.length + unit.length > aim:
            done.append(current)
            current, aim = unit, draw()
        else:
            current = current.joined(unit)
    return [*done, current]


def units(
    sentences: Sequence[tuple[int, int]], offsets: NDArray[np.int64], limit: int
) -> Iterator[Segment]:
    """The sentences with their word pieces; those longer than `limit` in parts of `limit`."""
    ends = np.searchsorted(offsets, [end for _, end in sentences]).tolist()
    first = 0
    for (start, end), last in zip(sentences, ends, strict=True):
        begin = start
        while last - first > limit:
            cut = int(offsets[first + limit])
            yield Segment(begin, cut, first, first + limit)
            begin, first = cut, first + limit
        yield Segment(begin, end, first, last)
        first = last


def random_lengths(seed: int, doc_id: str, limit: int, shortest: float) -> Callable[[], int]:
    """Draws uniform from [shortest · limit, limit], the same for a document wherever it occurs."""
    generator = np.random.default_rng([seed, zlib.crc32(doc_id.encode())])
    low = max(1, math.ceil(shortest * limit))
    return lambda: int(generator.integers(low, limit, endpoint=True))


def fixed_lengths(limit: int) -> Callable[[], int]:
    """Always the limit, as at inference."""
    return lambda: limit
