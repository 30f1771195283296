"""The approximate index of document embeddings: FAISS IVFPQ over a flat L2 quantizer.

As ColBERT's first version builds it: 2^ceil(log2(8 sqrt(n))) partitions, trained on a sample of
5% of the embeddings. Collections too small for that many partitions get fewer, and those too
small to train a product quantizer get an exact index.
"""

import logging
import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from espalier.colbert.store import Store

log = logging.getLogger("espalier")

POINTS_PER_CENTROID = 39
"""Fewest training points for each centroid; below, FAISS warns that clusters are poor."""

ADD_ROWS = 65_536


def partitions(embeddings: int, training_points: int) -> int:
    """Number of inverted lists: ColBERT's rule, capped by the training points there are."""
    rule = 1 << math.ceil(math.log2(8 * math.sqrt(embeddings)))
    cap = max(1, training_points // POINTS_PER_CENTROID)
    return min(rule, 1 << (cap.bit_length() - 1))


def training_points(embeddings: int, share: float, bits: int) -> int:
    """Size of the training sample: a share, but never fewer than the product quantizer needs."""
    return min(embeddings, max(round(share * embeddings), POINTS_PER_CENTROID * 2**bits))


def build(
    store: Store, *, subquantizers: int, bits: int, sample: float, seed: int, threads: int
) -> Any:
    """Train on a seeded sample and add all embeddings, numbered as in the store.

    Flat (exact) when the store has fewer embeddings than the product quantizer needs to train.
    """
    faiss.omp_set_num_threads(threads)
    index: Any
    dimensions, count = store.dimensions, store.embeddings_count
    needed = POINTS_PER_CENTROID * 2**bits
    if count < needed:
        log.info("index: %d embeddings, fewer than %d: exact search", count, needed)
        index = faiss.IndexFlatL2(dimensions)
    else:
        points = training_points(count, sample, bits)
        nlist = partitions(count, points)
        log.info("index: %d embeddings, %d training points, %d partitions", count, points, nlist)
        index = faiss.IndexIVFPQ(
            faiss.IndexFlatL2(dimensions), dimensions, nlist, subquantizers, bits
        )
        index.cp.seed = index.pq.cp.seed = seed % 2**31
        chosen = np.random.default_rng(seed).choice(count, points, replace=False)
        index.train(store.rows(np.sort(chosen).astype(np.int64)))
    for start in range(0, count, ADD_ROWS):
        rows = np.arange(start, min(start + ADD_ROWS, count), dtype=np.int64)
        index.add(store.rows(rows))
    return index


def write(path: Path, index: Any) -> None:
    """Write a FAISS index."""
    faiss.write_index(index, str(path))


def read(path: Path, *, nprobe: int, threads: int) -> Any:
    """Read a FAISS index; `nprobe` partitions are searched where it has any."""
    faiss.omp_set_num_threads(threads)
    index: Any = faiss.read_index(str(path))
    if hasattr(index, "nprobe"):
        index.nprobe = min(nprobe, index.nlist)
    return index


def search(index: Any, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Numbers of the k nearest embeddings of each row, int64[n, k]; -1 where there are fewer."""
    _, found = index.search(np.ascontiguousarray(queries), k)
    ids: NDArray[np.int64] = found
    return ids
