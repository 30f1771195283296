"""Document embeddings on disk, in shards, read through memory maps.

A shard is a folder: `embeddings.npy` float16[n, dimensions], `token_ids.npy` int32[n],
`offsets.npy` int64[documents + 1] (document i owns embeddings offsets[i] to offsets[i + 1];
none is allowed) and `doc_ids.txt`. Shards in order make a collection: documents and embeddings
are numbered through.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from espalier.errors import EspalierError


@dataclass(frozen=True)
class Shard:
    """One slice of the collection, mapped; never write to its arrays."""

    embeddings: NDArray[np.float16]
    token_ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    doc_ids: list[str]


def write(
    folder: Path,
    doc_ids: Sequence[str],
    token_ids: Sequence[NDArray[np.integer]],
    embeddings: Iterable[tuple[int, NDArray[np.float16]]],
    dimensions: int,
) -> None:
    """Write a shard; `embeddings` gives (index of the document, float16[n, dimensions]).

    Documents may come in any order, each with as many embeddings as it has token ids.
    """
    folder.mkdir(parents=True)
    offsets = np.array([0, *accumulate(map(len, token_ids))], dtype=np.int64)
    joined = np.concatenate([*token_ids, np.zeros(0)]).astype(np.int32)
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "token_ids.npy", joined)
    (folder / "doc_ids.txt").write_text("".join(f"{doc_id}\n" for doc_id in doc_ids))
    shape = (int(offsets[-1]), dimensions)
    target: Any = open_memmap(folder / "embeddings.npy", mode="w+", dtype=np.float16, shape=shape)
    for i, vectors in embeddings:
        target[offsets[i] : offsets[i + 1]] = vectors
    target.flush()


def read(folder: Path) -> Shard:
    """Open a shard; EspalierError when its files do not belong together."""
    # Copy on write: torch warns of arrays that are read-only.
    offsets = np.load(folder / "offsets.npy")
    shard = Shard(
        np.load(folder / "embeddings.npy", mmap_mode="c"),
        np.load(folder / "token_ids.npy", mmap_mode="c"),
        offsets,
        (folder / "doc_ids.txt").read_text().split(),
    )
    if not len(shard.embeddings) == len(shard.token_ids) == offsets[-1]:
        raise EspalierError(f"{folder}: its arrays differ in length; delete it and run again")
    if len(shard.doc_ids) != len(offsets) - 1:
        raise EspalierError(f"{folder}: doc_ids.txt and offsets differ; delete it and run again")
    return shard


class Store:
    """The shards of a collection, numbered through."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.shards = [read(folder) for folder in folders]
        self.doc_ids = np.array([i for shard in self.shards for i in shard.doc_ids], dtype=object)
        self.first_doc = np.array(
            [0, *accumulate(len(shard.doc_ids) for shard in self.shards)], dtype=np.int64
        )
        first_embedding = accumulate((len(shard.embeddings) for shard in self.shards), initial=0)
        lengths = [np.diff(shard.offsets) for shard in self.shards]
        self.embeddings_count = sum(len(shard.embeddings) for shard in self.shards)
        self.first_embedding = np.array(list(first_embedding), dtype=np.int64)
        self.doc_of_embedding = np.repeat(
            np.arange(len(self.doc_ids), dtype=np.int32), np.concatenate(lengths)
        )
        """f_D of the paper's section 2, inverted: int32[embeddings]."""

    @property
    def dimensions(self) -> int:
        """Length of an embedding."""
        return int(self.shards[0].embeddings.shape[1])

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Embeddings float32[n, dimensions] by ascending numbers int64[n]."""
        cuts = np.searchsorted(chosen, self.first_embedding)
        parts = [
            shard.embeddings[chosen[a:b] - start]
            for shard, start, a, b in zip(
                self.shards, self.first_embedding[:-1], cuts[:-1], cuts[1:], strict=True
            )
        ]
        return np.concatenate(parts).astype(np.float32)
