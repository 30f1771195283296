"""The approximate nearest-neighbour index: FAISS IVFPQ over all document embeddings.

As in ColBERT: squared Euclidean distance on unit vectors (or, if asked, the inner product, which
orders otherwise once codes stand for vectors), a flat quantizer over the partitions, 16
sub-quantizers of 8 bits. The number of partitions is ColBERT's default,
2^ceil(log2(8 sqrt(embeddings))), and k-means sees a random 5% of the embeddings. A small
collection cannot feed that many centroids. FAISS asks for 39 points each, so:

- the sample is at least what the 256 centroids of a sub-quantizer need;
- partitions are halved until the sample feeds them;
- with fewer embeddings than the sub-quantizers need, the index is flat: exact search.

Embeddings keep their numbers in the store, whichever of them an index holds (`static`).

A matrix product rounds by how many threads share it. So that an index is the same bytes for any
number of threads, k-means has one, and partitions are found by threads that multiply alone, pieces
of a fixed size.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from espalier.colbert.store import Shard, Store
from espalier.errors import EspalierError

log = logging.getLogger("espalier")

POINTS_PER_CENTROID = 39
"""What FAISS asks for without a warning."""

BLOCK = 1 << 17
"""Embeddings widened and added at once."""

PIECE = 1 << 12
"""Embeddings whose partitions one thread finds at once."""

INDEX = "index.faiss"

FLAT = {"l2": faiss.IndexFlatL2, "ip": faiss.IndexFlatIP}
"""Exact search by each metric of the config."""

NEVER = 2**31 - 1
"""More queries than come in one search."""


@dataclass(frozen=True)
class Plan:
    """What is built for a number of embeddings."""

    partitions: int
    """0 for a flat index."""
    sample: int
    """Embeddings that k-means sees."""


def plan(embeddings: int, share: float, bits: int) -> Plan:
    """Partitions and sample for a collection, by the rule above; `share` of it is sampled."""
    needed = POINTS_PER_CENTROID * 2**bits
    if embeddings < needed:
        return Plan(partitions=0, sample=0)
    sample = min(embeddings, max(math.ceil(share * embeddings), needed))
    wanted = 2 ** math.ceil(math.log2(8 * math.sqrt(embeddings)))
    fed = 2 ** math.floor(math.log2(sample / POINTS_PER_CENTROID))
    return Plan(min(wanted, fed), sample)


def build(
    shards: Sequence[Shard],
    kept: Sequence[NDArray[np.bool_]],
    *,
    sample: float,
    subquantizers: int,
    bits: int,
    metric: str,
    seed: int,
) -> tuple[Any, Plan]:
    """The FAISS index of the shards' embeddings that are `kept`, and how it was planned.

    `kept` has a bool[embeddings] for each shard. Hits are numbers in all embeddings. EspalierError
    when there are none.
    """
    count = sum(int(own.sum()) for own in kept)
    dimensions = shards[0].embeddings.shape[1]
    if not count:
        raise EspalierError(
            "shards: no document has a word to embed, so nothing can be retrieved; "
            "name a collection with text"
        )
    planned = plan(count, sample, bits)
    flat: Any = FLAT[metric](dimensions)
    index: Any
    if planned.partitions:
        log.info("%d embeddings: %s", count, planned)
        shape = (dimensions, planned.partitions, subquantizers, bits)
        index = faiss.IndexIVFPQ(flat, *shape, flat.metric_type)
        index.cp.seed = index.pq.cp.seed = seed % 2**31
        with threads(1):
            index.train(sampled(shards, kept, planned.sample, seed))
    else:
        log.info("%d embeddings are too few for product quantization: flat index", count)
        index = faiss.IndexIDMap2(flat)
    with (
        ThreadPoolExecutor(
            faiss.omp_get_max_threads(), initializer=faiss.omp_set_num_threads, initargs=(1,)
        ) as pool,
        tqdm(total=count, desc="index", unit="embedding", mininterval=2) as bar,
    ):
        for block, numbers in blocks(shards, kept):
            if planned.partitions:
                add(index, block, numbers, pool)
            else:
                index.add_with_ids(block, numbers)
            bar.update(len(block))
    return index, planned


def add(index: Any, block: NDArray[np.float32], numbers: NDArray[np.int64], pool: Executor) -> None:
    """Add float32[n, dimensions] under their numbers int64[n]; see the module on threads."""
    pieces = (block[start : start + PIECE] for start in range(0, len(block), PIECE))
    found = pool.map(lambda piece: index.quantizer.search(piece, 1)[1][:, 0], pieces)
    partitions = np.concatenate(list(found))
    arrays = [faiss.swig_ptr(array) for array in (block, numbers, partitions)]
    index.add_core(len(block), *arrays)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """FAISS with so many threads."""
    usual = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(usual)


def sampled(
    shards: Sequence[Shard], kept: Sequence[NDArray[np.bool_]], size: int, seed: int
) -> NDArray[np.float32]:
    """A seeded sample float32[size, dimensions] without replacement, in the store's order."""
    bounds = np.cumsum([0] + [own.sum() for own in kept])
    ranks = np.random.default_rng(seed).choice(bounds[-1], size, replace=False, shuffle=False)
    ranks.sort()
    parts = np.split(ranks, np.searchsorted(ranks, bounds[1:-1]))
    return np.concatenate(
        [
            shard.embeddings[np.flatnonzero(own)[part - first]]
            for shard, own, part, first in zip(shards, kept, parts, bounds[:-1], strict=True)
        ]
    ).astype(np.float32)


def blocks(
    shards: Sequence[Shard], kept: Sequence[NDArray[np.bool_]]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Kept embeddings in order, widened, a block at a time, and their numbers in all shards.

    A block's size decides how matrix products round, so blocks begin at multiples of `BLOCK`
    embeddings of all shards, wherever a shard begins.
    """
    first = np.cumsum([0] + [len(own) for own in kept])
    for start in range(0, int(first[-1]), BLOCK):
        rows, numbers = [], []
        for shard, own, begin in zip(shards, kept, first[:-1].tolist(), strict=True):
            part = slice(max(start - begin, 0), max(start - begin + BLOCK, 0))
            places = part.start + np.flatnonzero(own[part])
            if len(places):
                rows.append(shard.embeddings[places].astype(np.float32))
                numbers.append(begin + places)
        if rows:
            yield np.concatenate(rows), np.concatenate(numbers)


class Opened(NamedTuple):
    """An index that is ready for search."""

    index: Any
    frequencies: NDArray[np.int64]
    """int64[2, vocabulary]: in the collection, and in documents."""
    kept: float
    """Share of each document's embeddings that it holds."""
    bytes: int
    """Size of the index on disk."""


def write(
    folder: Path, index: Any, frequencies: NDArray[np.int64], shards: Sequence[Shard], kept: float
) -> int:
    """Write the index, the frequencies of each vocabulary id, and what they belong to.

    `frequencies` int64[2, vocabulary]: in the collection, and in documents. Returns the index's
    size in bytes.
    """
    folder.mkdir(parents=True)
    faiss.write_index(index, str(folder / INDEX))
    np.save(folder / "frequency.npy", frequencies)
    described = {
        "encoder": shards[0].encoder,
        "embeddings": sum(len(shard.embeddings) for shard in shards),
        "dimensions": index.d,
        "kept": kept,
        "indexed": index.ntotal,
        "vocabulary": frequencies.shape[1],
    }
    (folder / "index.json").write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")
    return (folder / INDEX).stat().st_size


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
