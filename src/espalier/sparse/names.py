"""Many strings as two arrays, so that they can be memory-mapped: doc_ids, the lexicon."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError

HASH_BASE = np.uint64(0x100000001B3)


class Names:
    """A sequence of n strings: UTF-8 bytes uint8[B] and where each begins, int64[n+1]."""

    def __init__(self, text: npt.NDArray[np.uint8], begin: npt.NDArray[np.int64]) -> None:
        self.text, self.begin = text, begin

    @classmethod
    def of(cls, strings: Iterable[str]) -> "Names":
        """Pack strings. EspalierError for one that is no Unicode text (a lone surrogate)."""
        try:
            encoded = [string.encode() for string in strings]
        except UnicodeEncodeError as error:
            raise EspalierError(
                f"{error.object!r} is no Unicode text; correct that doc_id or term"
            ) from error
        sizes = np.fromiter((len(e) for e in encoded), np.int64, len(encoded))
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), begin)

    def __len__(self) -> int:
        return len(self.begin) - 1

    def __getitem__(self, i: int) -> str:
        return self.text[self.begin[i] : self.begin[i + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def write(self, folder: Path, name: str) -> None:
        """Write `name`.npy and `name`_begin.npy."""
        np.save(folder / f"{name}.npy", self.text)
        np.save(folder / f"{name}_begin.npy", self.begin)

    @classmethod
    def read(cls, folder: Path, name: str) -> "Names":
        """Open what `write` wrote, memory-mapped."""
        return cls(mapped(folder, name), mapped(folder, f"{name}_begin"))


def save(folder: Path, name: str, value: Names | npt.NDArray[Any]) -> None:
    """Write strings, or an array as `name`.npy."""
    if isinstance(value, Names):
        value.write(folder, name)
    else:
        np.save(folder / f"{name}.npy", value)


def mapped(folder: Path, name: str) -> npt.NDArray[Any]:
    """The array `name`.npy, memory-mapped.

    A plain view of it: one compiled kernel serves mapped arrays and those in memory.
    """
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))


def joined(parts: Iterable[Names]) -> Names:
    """All strings of all parts, in order."""
    found = list(parts)
    sizes = [np.diff(part.begin) for part in found]
    begin = np.concatenate([[0], np.cumsum(np.concatenate([[0], *sizes])[1:])]).astype(np.int64)
    return Names(np.concatenate([np.zeros(0, np.uint8), *(part.text for part in found)]), begin)


def repeated(names: Names) -> str | None:
    """A string that occurs twice, or None. Memory: a few machine words a string."""
    hashes = polynomial(names)
    found, counts = np.unique(hashes, return_counts=True)
    seen: set[str] = set()
    for i in np.flatnonzero(np.isin(hashes, found[counts > 1])).tolist():
        if names[i] in seen:
            return names[i]
        seen.add(names[i])
    return None


def polynomial(names: Names) -> npt.NDArray[np.uint64]:
    """uint64[n]: a hash of each string."""
    hashes = np.diff(names.begin).astype(np.uint64)
    for place in range(int(np.diff(names.begin).max(initial=0))):
        longer = np.flatnonzero(np.diff(names.begin) > place)
        hashes[longer] = (hashes[longer] ^ names.text[names.begin[longer] + place]) * HASH_BASE
    return hashes
