"""A shard: one slice of the collection as word-piece frequencies and learned weights.

A folder of .npy files in document-major order, on the union of both supports:
`doc_ids.json`, `lengths.npy` int64[D] (word pieces), `doc_begin.npy` int64[D+1],
`terms.npy` int32[P], `frequency.npy` int32[P], `learned.npy` float32[P].
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Sparse = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""A text's vocabulary ids int32[n], ascending, and their learned weights float32[n], positive."""


class Shard(NamedTuple):
    """The arrays of a shard of D documents and P postings."""

    doc_ids: list[str]
    lengths: npt.NDArray[np.int64]
    doc_begin: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int32]
    frequency: npt.NDArray[np.int32]
    learned: npt.NDArray[np.float32]


Aligned = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]


def aligned(pieces: Sequence[int], learned: Sparse) -> Aligned:
    """Union of a text's word pieces and learned terms: terms, frequency, learned weight.

    A term missing on one side has 0 there.
    """
    counted = Counter(pieces)
    terms = np.union1d(np.fromiter(counted, np.int32, len(counted)), learned[0]).astype(np.int32)
    frequency = np.array([counted[term] for term in terms.tolist()], dtype=np.int32)
    weight = np.zeros(len(terms), dtype=np.float32)
    weight[np.searchsorted(terms, learned[0])] = learned[1]
    return terms, frequency, weight


def build(
    doc_ids: Sequence[str], pieces: Sequence[Sequence[int]], learned: Sequence[Sparse]
) -> Shard:
    """A shard from each document's word pieces and learned weights."""
    rows = [aligned(p, w) for p, w in zip(pieces, learned, strict=True)]
    sizes = [len(terms) for terms, _, _ in rows]
    return Shard(
        list(doc_ids),
        np.array([len(p) for p in pieces], dtype=np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([r[0] for r in rows] or [np.zeros(0, np.int32)]),
        np.concatenate([r[1] for r in rows] or [np.zeros(0, np.int32)]),
        np.concatenate([r[2] for r in rows] or [np.zeros(0, np.float32)]),
    )


def write(folder: Path, shard: Shard) -> None:
    """Write a shard."""
    folder.mkdir(parents=True)
    for name, value in shard._asdict().items():
        if name == "doc_ids":
            (folder / "doc_ids.json").write_text(json.dumps(value))
        else:
            np.save(folder / f"{name}.npy", value)


def read(folder: Path) -> Shard:
    """Read a shard."""
    arrays = [np.load(folder / f"{name}.npy") for name in Shard._fields[1:]]
    return Shard(json.loads((folder / "doc_ids.json").read_text()), *arrays)
