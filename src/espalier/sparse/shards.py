"""A shard: one slice of the collection as term frequencies and learned weights.

A folder of .npy files in document-major order, on the union of both supports, memory-mapped when
read: `doc_ids` and `lexicon` (names.py), `lengths` int64[D] (terms with repetition), `doc_begin`
int64[D+1], `terms` int32[P] (places in the shard's own lexicon), `frequency` int32[P], `learned`
float32[P].
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from espalier.sparse.names import Names, mapped, save

Sparse = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""A text's vocabulary ids int32[n], ascending, and their learned weights float32[n], positive."""


class Shard(NamedTuple):
    """The arrays of a shard of D documents and P postings."""

    doc_ids: Names
    lexicon: Names
    lengths: npt.NDArray[np.int64]
    doc_begin: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int32]
    frequency: npt.NDArray[np.int32]
    learned: npt.NDArray[np.float32]


class Text(NamedTuple):
    """What a shard keeps of one document, or a query of itself."""

    frequency: Mapping[str, int]
    """How often each term stands in it: BM25's side."""
    learned: Mapping[str, float]
    """The learned weight of each term."""


def of_model(pieces: Sequence[int], learned: Sparse, lexicon: Sequence[str]) -> Text:
    """A text from its vocabulary ids, repeated as they stand in it, and its learned weights."""
    ids, counts = np.unique(np.asarray(pieces, dtype=np.int64), return_counts=True)
    return Text(
        {lexicon[i]: n for i, n in zip(ids.tolist(), counts.tolist(), strict=True)},
        {lexicon[i]: w for i, w in zip(learned[0].tolist(), learned[1].tolist(), strict=True)},
    )


def build(doc_ids: Sequence[str], texts: Iterable[Text]) -> Shard:
    """A shard of documents. A term missing on one side has 0 there."""
    numbers: dict[str, int] = {}
    terms: list[int] = []
    frequency: list[int] = []
    learned: list[float] = []
    lengths, sizes = [], []
    for text in texts:
        union = sorted(text.frequency.keys() | text.learned.keys())
        terms += [numbers.setdefault(term, len(numbers)) for term in union]
        frequency += [text.frequency.get(term, 0) for term in union]
        learned += [text.learned.get(term, 0.0) for term in union]
        lengths.append(sum(text.frequency.values()))
        sizes.append(len(union))
    return Shard(
        Names.of(doc_ids),
        Names.of(numbers),
        np.array(lengths, dtype=np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array(terms, dtype=np.int32),
        np.array(frequency, dtype=np.int32),
        np.array(learned, dtype=np.float32),
    )


def write(folder: Path, shard: Shard) -> None:
    """Write a shard."""
    folder.mkdir(parents=True)
    for name, value in shard._asdict().items():
        save(folder, name, value)


def read(folder: Path) -> Shard:
    """Open a shard, its arrays memory-mapped."""
    arrays = (mapped(folder, name) for name in Shard._fields[2:])
    return Shard(Names.read(folder, "doc_ids"), Names.read(folder, "lexicon"), *arrays)
