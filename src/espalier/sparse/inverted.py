"""A shard inverted: its postings term by term, as the index will hold them.

A folder of .npy files, memory-mapped when read: `doc_ids` and `lexicon` (names.py), the latter
ascending, `lengths` int64[D], `term_begin` int64[V+1], `docs` int32[P] (documents of the shard,
ascending within a term), `frequency` int32[P], `learned` float32[P]; beside them `inverted.json`,
the `sha256` of each.

Memory: 40 bytes for each posting of the shard.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from espalier import files
from espalier.errors import EspalierError
from espalier.sparse import quantize
from espalier.sparse.names import Names, mapped, save
from espalier.sparse.shards import Shard

DESCRIPTION = "inverted.json"


class Inverted(NamedTuple):
    """The arrays of a shard of D documents, V terms and P postings."""

    doc_ids: Names
    lexicon: Names
    lengths: npt.NDArray[np.int64]
    term_begin: npt.NDArray[np.int64]
    docs: npt.NDArray[np.int32]
    frequency: npt.NDArray[np.int32]
    learned: npt.NDArray[np.float32]


def invert(shard: Shard) -> Inverted:
    """Order a shard's postings by term, then document.

    EspalierError for negative, NaN or infinite learned weights.
    """
    quantize.checked(shard.learned, "learned weights")
    names = list(shard.lexicon)
    ascending = sorted(range(len(names)), key=names.__getitem__)
    number = np.empty(len(names), np.int64)
    number[ascending] = np.arange(len(names))
    terms = number[shard.terms]
    sizes = np.bincount(terms, minlength=len(names))
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    at = places(terms, begin[:-1].copy())
    owner = np.repeat(np.arange(len(shard.lengths), dtype=np.int32), np.diff(shard.doc_begin))
    docs = np.empty(len(terms), np.int32)
    frequency = np.empty(len(terms), np.int32)
    learned = np.empty(len(terms), np.float32)
    docs[at], frequency[at], learned[at] = owner, shard.frequency, shard.learned
    lexicon = Names.of(names[i] for i in ascending)
    return Inverted(shard.doc_ids, lexicon, shard.lengths, begin, docs, frequency, learned)


@numba.njit(cache=True)
def places(keys: npt.NDArray[np.int64], cursor: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where entries with these keys go, each at its key's cursor, which moves on: int64[n]."""
    found = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        found[i] = cursor[keys[i]]
        cursor[keys[i]] += 1
    return found


def write(folder: Path, inverted: Inverted) -> None:
    """Write an inverted shard."""
    folder.mkdir(parents=True)
    for name, value in inverted._asdict().items():
        save(folder, name, value)
    text = json.dumps({"sha256": files.digests_of(folder)}, indent=1, sort_keys=True)
    (folder / DESCRIPTION).write_text(text + "\n")


def read(folder: Path) -> Inverted:
    """Open an inverted shard, its arrays memory-mapped; all files are read once to verify them.

    EspalierError when one is not as it was written.
    """
    try:
        digests = json.loads((folder / DESCRIPTION).read_text())["sha256"]
        found = {path.name for path in files.members(folder)} - {DESCRIPTION}
        whole = found == set(digests)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EspalierError(
            f"{folder}: no inverted shard ({error}); delete it and run again"
        ) from error
    if not whole or files.altered(folder, digests):
        raise EspalierError(f"{folder}: damaged; delete it and run again")
    arrays = (mapped(folder, name) for name in Inverted._fields[2:])
    return Inverted(Names.read(folder, "doc_ids"), Names.read(folder, "lexicon"), *arrays)
