"""Splits drawn by a hash: the same on every machine."""

import hashlib
from collections.abc import Mapping

SPLITS = {"train": 0.7, "dev": 0.1, "test": 0.2}
"""Shares of what is split."""


def drawn(key: str) -> str:
    """The split of whatever has this key, whatever else there is."""
    return at(int.from_bytes(digest(key)[:8], "big") / 2**64)


def divided(sizes: Mapping[str, int]) -> dict[str, str]:
    """The split of each key when all are lined up by their hashes and cut by size."""
    whole = sum(sizes.values())
    splits: dict[str, str] = {}
    before = 0
    for key in sorted(sizes, key=digest):
        splits[key] = at(before / whole)
        before += sizes[key]
    return splits


def at(place: float) -> str:
    """The split at a place in [0, 1)."""
    for split, share in SPLITS.items():
        if place < share:
            return split
        place -= share
    return split


def digest(key: str) -> bytes:
    """SHA-256 of a key."""
    return hashlib.sha256(key.encode()).digest()
