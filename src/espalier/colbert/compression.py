"""Residual compression: an embedding as its nearest centroid and what it differs by, in few bits.

As in ColBERTv2 (Santhanam et al., NAACL 2022, section 3.3): centroids by k-means over a sample of
embeddings; every dimension's difference from the centroid falls in one of 2^bits buckets and is
read back as the bucket's value. ColBERTv2's buckets hold equally many of the sample's differences,
which leaves the few large ones far from any value; ours begin so and then move to where the mean
squared error is least (Lloyd, 1982). What is read back is made a unit vector again, as
ColBERTv2's public code does.

An embedding packed is one row of bytes: the centroid's number in four, then the buckets of its
dimensions, the first in the lowest bits of a byte.
"""

import logging
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numba import njit
from numpy.typing import NDArray

from espalier.errors import EspalierError

log = logging.getLogger("espalier")

ID_BYTES = 4
"""Bytes of a centroid's number, little-endian."""

POINTS_PER_CENTROID = 39
"""What FAISS asks for without a warning."""

DIFFERENCES = 50_000
"""Most embeddings of the sample that buckets are laid by, spread over it."""

ROUNDS = 100
"""Rounds of moving buckets."""

PARTS = ("centroids", "limits", "values")
"""A codec's arrays, each a file."""


@dataclass(frozen=True)
class Codec:
    """What packs embeddings and reads them back."""

    centroids: NDArray[np.float32]
    """float32[centroids, dimensions], unit vectors."""
    limits: NDArray[np.float32]
    """float32[2^bits - 1], ascending: where the next bucket begins."""
    values: NDArray[np.float32]
    """float32[2^bits]: what each bucket is read back as."""

    @property
    def bits(self) -> int:
        """Bits of a dimension."""
        return int(math.log2(len(self.values)))

    @property
    def dimensions(self) -> int:
        """Length of an embedding."""
        return int(self.centroids.shape[1])

    @property
    def width(self) -> int:
        """Bytes of an embedding."""
        return ID_BYTES + self.dimensions * self.bits // 8

    @cached_property
    def table(self) -> NDArray[np.float32]:
        """float32[256, 8 / bits]: the differences that each byte stands for."""
        shifts = np.arange(0, 8, self.bits)
        table: NDArray[np.float32] = np.asarray(self.values)[
            np.arange(256)[:, None] >> shifts & (len(self.values) - 1)
        ]
        return table

    def pack(self, embeddings: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Unit vectors [n, dimensions] as uint8[n, width]."""
        wide = embeddings.astype(np.float32)
        numbers = nearest(wide, self.centroids)
        buckets = np.searchsorted(self.limits, wide - self.centroids[numbers], side="right")
        in_bytes = buckets.reshape(len(wide), self.width - ID_BYTES, 8 // self.bits)
        codes = (in_bytes << np.arange(0, 8, self.bits)).sum(axis=2).astype(np.uint8)
        return np.concatenate([numbers.astype("<u4")[:, None].view(np.uint8), codes], axis=1)

    def save(self, folder: Path) -> None:
        """Write its arrays into a folder, which may hold other files."""
        for part in PARTS:
            np.save(folder / f"{part}.npy", getattr(self, part))


def load(folder: Path) -> Codec:
    """The codec that `save` wrote, its centroids mapped."""
    return Codec(*(np.load(folder / f"{part}.npy", mmap_mode="r") for part in PARTS))


def fit(sample: NDArray[np.float16], total: float, bits: int, seed: int) -> Codec:
    """The codec of a sample [n, dimensions] out of `total` embeddings.

    As many centroids as PLAID takes (Santhanam et al., CIKM 2022), 2^floor(log2(16 sqrt(total))),
    but no more than the sample can feed. EspalierError for an empty sample, and for dimensions
    that do not fill whole bytes.
    """
    dimensions = sample.shape[1]
    if dimensions * bits % 8:
        raise EspalierError(
            f"config key 'colbert.store.bits': {bits} bits of {dimensions} dimensions are no whole "
            "bytes; take more bits or another colbert.encoder.dimensions"
        )
    if not len(sample):
        raise EspalierError(
            "config key 'colbert.store.sample': no document drawn has a word to embed; "
            "raise it or set colbert.store.bits to 16"
        )
    wanted = 2 ** math.floor(math.log2(16 * math.sqrt(total)))
    fed = 2 ** math.floor(math.log2(max(1.0, len(sample) / POINTS_PER_CENTROID)))
    wide = sample.astype(np.float32)
    clusters: Any = faiss.Kmeans(dimensions, min(wanted, fed), seed=seed % 2**31)
    clusters.train(wide)
    centroids = clusters.centroids / np.linalg.norm(clusters.centroids, axis=1, keepdims=True)
    log.info("%d embeddings: %d centroids", len(wide), len(centroids))
    some = wide[:: -(-len(wide) // DIFFERENCES)]
    differences = some - centroids[nearest(some, centroids)]
    return Codec(centroids, *buckets(differences, bits))


def buckets(
    differences: NDArray[np.float32], bits: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Limits float32[2^bits - 1] and values float32[2^bits] of buckets for such differences.

    A limit stands half way between two values, a value is the mean of its bucket.
    """
    ordered = np.sort(differences, axis=None).astype(np.float64)
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    values = np.quantile(ordered, (np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(ROUNDS):
        limits = (values[:-1] + values[1:]) / 2
        bounds = np.concatenate([[0], np.searchsorted(ordered, limits), [len(ordered)]])
        sums, counts = np.diff(below[bounds]), np.diff(bounds)
        values = np.divide(sums, counts, out=values, where=counts > 0)
    limits = (values[:-1] + values[1:]) / 2
    return limits.astype(np.float32), values.astype(np.float32)


def nearest(embeddings: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    """The number int64[n] of the centroid with the largest inner product with each."""
    _, numbers = faiss.knn(embeddings, centroids, 1, metric=faiss.METRIC_INNER_PRODUCT)
    found: NDArray[np.int64] = numbers[:, 0]
    return found


@dataclass(frozen=True)
class Packed:
    """Packed embeddings that read like an array of rows float32[n, dimensions]."""

    rows: NDArray[np.uint8]
    """uint8[n, width], memory-mapped or not."""
    codec: Codec

    @property
    def shape(self) -> tuple[int, int]:
        """As of the array that it stands for."""
        return len(self.rows), self.codec.dimensions

    def __len__(self) -> int:
        """How many embeddings."""
        return len(self.rows)

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """The embeddings of some rows, read back."""
        rows = self.rows[chosen]
        wide = np.empty((len(rows), self.codec.dimensions), dtype=np.float32)
        unpack(rows, self.codec.centroids, self.codec.table, wide)
        return wide


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})  # type: ignore[untyped-decorator]
def unpack(
    rows: NDArray[np.uint8],
    centroids: NDArray[np.float32],
    table: NDArray[np.float32],
    wide: NDArray[np.float32],
) -> None:
    """Packed rows uint8[n, width] as unit vectors into the first n rows of `wide`, float32."""
    each, dimensions = table.shape[1], centroids.shape[1]
    for i in range(len(rows)):
        row, target = rows[i], wide[i]
        number = row[0] | row[1] << 8 | row[2] << 16 | row[3] << 24
        centroid = centroids[number]
        for j in range(dimensions // each):
            part = table[row[ID_BYTES + j]]
            for k in range(each):
                target[j * each + k] = centroid[j * each + k] + part[k]
        squares = np.float32(0.0)
        for j in range(dimensions):
            squares += target[j] * target[j]
        scale = np.float32(1.0) / np.sqrt(squares)
        for j in range(dimensions):
            target[j] *= scale
