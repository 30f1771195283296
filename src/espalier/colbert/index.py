"""The approximate nearest-neighbour index: FAISS IVFPQ over all document embeddings.

It is made in three steps: `quantizer` trains what codes embeddings, `inverted` codes each shard's
and joins them, and here is the index that results, written, read and searched.

Embeddings keep their numbers in the store, whichever of them an index holds (`static`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from espalier.colbert import inverted
from espalier.colbert.quantizer import Quantizer
from espalier.colbert.store import Store
from espalier.errors import EspalierError

INDEX = "index.faiss"

NEVER = 2**31 - 1
"""More queries than come in one search."""


class Opened(NamedTuple):
    """An index that is ready for search."""

    index: Any
    frequencies: NDArray[np.int64]
    """int64[2, vocabulary]: in the collection, and in documents."""
    kept: float
    """Share of each document's embeddings that it holds."""
    bytes: int
    """Size of the index on disk."""


def write(folder: Path, quantizer: Quantizer, lists: Sequence[Path]) -> dict[str, Any]:
    """Write the index of all shards' lists, the frequencies of each vocabulary id, what it is of.

    Returns index.json. EspalierError for lists that are damaged or of another quantizer, and unless
    they are those of each of its shards, in order.
    """
    shards = len(quantizer.about.documents)
    if len(lists) != shards:
        raise EspalierError(
            f"{lists[0].parent}: lists of {len(lists)} shards, but the quantizer was trained on "
            f"{shards}; give each shard's once, in order"
        )
    inverted.verify(lists, quantizer.digest)
    folder.mkdir(parents=True)
    indexed = inverted.join(folder / INDEX, quantizer.index, lists)
    np.save(folder / "frequency.npy", quantizer.frequencies)
    described = {
        "encoder": quantizer.about.encoder,
        "embeddings": sum(quantizer.about.embeddings),
        "dimensions": quantizer.index.d,
        "kept": quantizer.about.kept,
        "indexed": indexed,
        "vocabulary": quantizer.frequencies.shape[1],
    }
    (folder / "index.json").write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")
    return described


def read(folder: Path, store: Store, nprobe: int) -> Opened:
    """The index, set to `nprobe` partitions, and the frequencies; of this very store.

    EspalierError when the index cannot be read, its parts do not fit, or it was built from other
    embeddings.
    """
    try:
        described = json.loads((folder / "index.json").read_text())
        index = faiss.read_index(str(folder / INDEX))
        frequencies: NDArray[np.int64] = np.load(folder / "frequency.npy")
        kept = float(described["kept"])
    except (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise EspalierError(f"{folder}: not an index ({why}); delete it and run again") from error
    found = {
        "encoder": store.encoder,
        "embeddings": len(store.document_of),
        "dimensions": store.dimensions,
    }
    parts = {
        "indexed": index.ntotal,
        "dimensions": index.d,
        "vocabulary": frequencies.shape[-1],
    }
    for name, value in found.items():
        if described.get(name) != value:
            raise EspalierError(
                f"{folder}: built from other embeddings than the shards' ({name} differs); "
                "delete it and run again"
            )
    for name, value in parts.items():
        if described.get(name) != value:
            raise EspalierError(
                f"{folder}: its files do not belong together ({name} differs); "
                "delete it and run again"
            )
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = nprobe
    return Opened(index, frequencies, kept, (folder / INDEX).stat().st_size)


def search(index: Any, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Numbers int64[n, k] of the k embeddings nearest to each of float32[n, d]; -1 for none.

    FAISS searches many queries by a matrix product, which rounds otherwise than single
    distances: without it a query finds the same neighbours, alone or among others.
    """
    usual = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = NEVER
    try:
        _, found = index.search(np.ascontiguousarray(queries), k)
    finally:
        faiss.cvar.distance_compute_blas_threshold = usual
    numbers: NDArray[np.int64] = found
    return numbers
