"""Document embeddings on disk: shards of rows, half precision or compressed, memory-mapped.

A shard is a folder:

- `embeddings.npy`, the documents' rows one after another: float16[tokens, dimensions], or
  uint8[tokens, width] as `compression` packs them, with its codec's files beside;
- `tokens.npy` int32[tokens], the vocabulary id behind each row;
- `offsets.npy` int64[documents + 1], where each document's rows begin;
- `doc_ids.txt`, one a line;
- `shard.json`: `documents`, `embeddings`, `dimensions`, `bits` of a dimension, `encoder`, the
  model's digest, and `sha256` of each other file.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from espalier import files
from espalier.colbert import compression
from espalier.colbert.compression import Codec, Packed
from espalier.errors import EspalierError

HALF = 16
"""Bits of a dimension in half precision."""

DESCRIPTION = "shard.json"


@dataclass(frozen=True)
class Shard:
    """One shard, its large arrays mapped."""

    embeddings: NDArray[np.float16] | Packed
    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    doc_ids: list[str]
    encoder: str

    @property
    def dimensions(self) -> int:
        """Length of an embedding."""
        return int(self.embeddings.shape[1])

    @property
    def bytes(self) -> int:
        """What the embeddings take."""
        rows = self.embeddings.rows if isinstance(self.embeddings, Packed) else self.embeddings
        return rows.nbytes


def write(
    folder: Path,
    doc_ids: Sequence[str],
    tokens: Sequence[NDArray[np.int64]],
    encoded: Iterable[tuple[int, NDArray[np.float16]]],
    dimensions: int,
    encoder: str,
    codec: Codec | None = None,
) -> dict[str, Any]:
    """Write a shard document by document, as `encoded` gives (document, its rows) in any order.

    `tokens` holds the vocabulary ids behind each document's rows; a `codec` packs these. Returns
    shard.json.
    """
    folder.mkdir(parents=True)
    offsets = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum([len(ids) for ids in tokens], out=offsets[1:])
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "tokens.npy", np.concatenate([*tokens, np.empty(0)]).astype(np.int32))
    if codec:
        codec.save(folder)
    kind = np.uint8 if codec else np.float16
    shape = (int(offsets[-1]), codec.width if codec else dimensions)
    if offsets[-1]:
        rows = np.lib.format.open_memmap(folder / "embeddings.npy", "w+", kind, shape)
        files.reserve(folder / "embeddings.npy")
        for i, embeddings in encoded:
            rows[offsets[i] : offsets[i + 1]] = codec.pack(embeddings) if codec else embeddings
        rows.flush()
    else:  # nothing can be mapped
        np.save(folder / "embeddings.npy", np.empty(shape, dtype=kind))
    (folder / "doc_ids.txt").write_text("".join(f"{doc_id}\n" for doc_id in doc_ids))
    described = {
        "documents": len(tokens),
        "embeddings": shape[0],
        "dimensions": dimensions,
        "bits": codec.bits if codec else HALF,
        "encoder": encoder,
        "sha256": files.digests_of(folder),
    }
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")
    return described


def read(folder: Path) -> Shard:
    """Open a shard; EspalierError when its parts do not fit together."""
    try:
        described = json.loads((folder / DESCRIPTION).read_text())
        shape = (described["embeddings"], described["dimensions"])
        half = described["bits"] == HALF
        listed = {*described["sha256"], DESCRIPTION}
        # Empty files cannot be mapped.
        mode: Literal["r"] | None = "r" if described["embeddings"] else None
        rows = np.load(folder / "embeddings.npy", mmap_mode=mode)
        embeddings = rows if half else Packed(rows, compression.load(folder))
        tokens = np.load(folder / "tokens.npy", mmap_mode=mode)
        offsets = np.load(folder / "offsets.npy")
        doc_ids = (folder / "doc_ids.txt").read_text().splitlines()
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise EspalierError(f"{folder}: not a shard ({error}); delete it and run again") from error
    whole = (
        listed == {path.name for path in files.members(folder)}
        and embeddings.shape == shape
        and rows.dtype == (np.float16 if half else np.uint8)
        and (half or rows.shape[1] == embeddings.codec.width)
        and len(doc_ids) == described["documents"] == len(offsets) - 1
        and len(tokens) == shape[0] == offsets[-1]
        and offsets[0] == 0
        and (np.diff(offsets) >= 0).all()
    )
    if not whole:
        raise EspalierError(f"{folder}: its parts differ in length; delete it and run again")
    return Shard(embeddings, tokens, offsets, doc_ids, described["encoder"])


@dataclass(frozen=True)
class Store:
    """All shards as one numbering of documents and embeddings."""

    shards: Sequence[Shard]
    first_document: NDArray[np.int64]
    """int64[shards + 1]: the number of each shard's first document."""
    document_of: NDArray[np.int32]
    """int32[embeddings]: the document of each embedding."""
    doc_ids: NDArray[np.str_]
    encoder: str

    @property
    def dimensions(self) -> int:
        """Length of an embedding."""
        return self.shards[0].dimensions

    @property
    def bytes(self) -> int:
        """What the embeddings take."""
        return sum(shard.bytes for shard in self.shards)


def verify(folders: Sequence[Path]) -> None:
    """EspalierError for opened shards with a file that is not as it was written; all are read."""
    for folder in folders:
        digests = json.loads((folder / DESCRIPTION).read_text())["sha256"]
        if damaged := files.altered(folder, digests):
            raise EspalierError(f"{damaged}: damaged; delete {folder} and run again")


def opened(folders: Sequence[Path]) -> list[Shard]:
    """The shards, in the order given; EspalierError when two have other encoders or dimensions."""
    shards = [read(folder) for folder in folders]
    for folder, shard in zip(folders, shards, strict=True):
        alike = shard.dimensions == shards[0].dimensions
        if shard.encoder != shards[0].encoder or not alike:
            raise EspalierError(
                f"{folder}: made by another encoder than {folders[0]}; delete it and run again"
            )
    return shards


def open_store(folders: Sequence[Path]) -> Store:
    """Open shards as one numbering; EspalierError when they do not fit together."""
    shards = opened(folders)
    lengths = np.concatenate([np.diff(shard.offsets) for shard in shards])
    return Store(
        shards,
        np.cumsum([0] + [len(shard.doc_ids) for shard in shards], dtype=np.int64),
        np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        np.array([doc_id for shard in shards for doc_id in shard.doc_ids], dtype=np.str_),
        shards[0].encoder,
    )


def frequency(shards: Sequence[Shard], vocabulary: int) -> NDArray[np.int64]:
    """How often each vocabulary id stands behind an embedding: int64[vocabulary]."""
    counts = [np.bincount(shard.tokens, minlength=vocabulary) for shard in shards]
    total: NDArray[np.int64] = np.sum(counts, axis=0)
    return total


def document_frequency(shards: Sequence[Shard], vocabulary: int) -> NDArray[np.int64]:
    """In how many documents each vocabulary id stands behind an embedding: int64[vocabulary]."""
    total = np.zeros(vocabulary, dtype=np.int64)
    for shard in shards:
        document = np.repeat(np.arange(len(shard.doc_ids)), np.diff(shard.offsets))
        pairs = np.unique(document * vocabulary + shard.tokens)
        total += np.bincount(pairs % vocabulary, minlength=vocabulary)
    return total
