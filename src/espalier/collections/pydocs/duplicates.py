"""Which texts say nearly what an earlier one says (MinHash: Broder, SEQUENCES 1997)."""

from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from espalier.collections.pydocs.docstrings import words

SHINGLE = 4
"""Words in a shingle."""

ALIKE = 0.7
"""Jaccard similarity of two shingle sets from which on the later text is a duplicate."""

BANDS, ROWS = 12, 3
"""Two texts are compared when a band of their MinHashes agrees: at similarity 0.7, 99% are."""

PRIME = np.uint64((1 << 31) - 1)


def near_duplicates(texts: Sequence[str]) -> np.ndarray:
    """Mark the texts that nearly repeat an earlier, unmarked one; bool, one per text."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, int(PRIME), size=(BANDS * ROWS, 2), dtype=np.uint64)
    marked = np.zeros(len(texts), dtype=bool)
    kept: list[set[int]] = []
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        shingles = shingles_of(text)
        values = np.fromiter(shingles, dtype=np.uint64) % PRIME
        hashes = (factors[:, :1] * values + factors[:, 1:]) % PRIME
        bands = hashes.min(axis=1).reshape(BANDS, ROWS)
        keys = [(band, row.tobytes()) for band, row in enumerate(bands)]
        candidates = {other for key in keys for other in buckets[key]}
        if any(jaccard(shingles, kept[other]) >= ALIKE for other in candidates):
            marked[number] = True
            continue
        for key in keys:
            buckets[key].append(len(kept))
        kept.append(shingles)
    return marked


def shingles_of(text: str) -> set[int]:
    """Hashes of a text's word shingles; of the whole text where it is shorter than one."""
    tokens = words(text)
    starts = range(max(1, len(tokens) - SHINGLE + 1))
    return {crc32(" ".join(tokens[i : i + SHINGLE]).encode()) for i in starts}


def jaccard(one: set[int], other: set[int]) -> float:
    """Size of the intersection over that of the union."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)
