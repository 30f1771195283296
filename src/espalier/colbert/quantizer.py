"""What codes embeddings for the index: trained on a sample of all shards, before any is coded.

As in ColBERT: FAISS IVFPQ by squared Euclidean distance on unit vectors (or, if asked, by the inner
product, which orders otherwise once codes stand for vectors), a flat quantizer over the partitions,
16 sub-quantizers of 8 bits. The number of partitions is ColBERT's default,
2^ceil(log2(8 sqrt(embeddings))), and k-means sees a random 5% of the embeddings. A small
collection cannot feed that many centroids. FAISS asks for 39 points each, so:

- the sample is at least what the 256 centroids of a sub-quantizer need;
- partitions are halved until the sample feeds them;
- with fewer embeddings than the sub-quantizers need, the index is flat: exact search.

A matrix product rounds by how many threads share it, so every product has one thread. Of many
centroids, `PIECE` at a time are compared on a thread of their own: the bytes follow from the
number of partitions, whatever the number of cores.

On disk a folder: `index.faiss`, the index without embeddings; `frequency.npy` int64[2, vocabulary],
how often each vocabulary id stands in the collection, and in how many documents; `quantizer.json`,
`Description`'s fields.

Memory: the sample, four bytes for each dimension and twelve for each piece; while it is drawn,
eight bytes for each embedding of the collection that is kept; then eight for each of one shard
that is.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from espalier import files
from espalier.colbert.store import Shard
from espalier.errors import EspalierError

log = logging.getLogger("espalier")

POINTS_PER_CENTROID = 39
"""What FAISS asks for without a warning."""

PIECE = 2**14
"""Centroids that one thread compares with the sample."""

INDEX = "index.faiss"

FREQUENCY = "frequency.npy"

DESCRIPTION = "quantizer.json"

FLAT = {"l2": faiss.IndexFlatL2, "ip": faiss.IndexFlatIP}
"""Exact search by each metric of the config."""


@dataclass(frozen=True)
class Plan:
    """What is built for a number of embeddings."""

    partitions: int
    """0 for a flat index."""
    sample: int
    """Embeddings that k-means sees."""


class Description(NamedTuple):
    """What a quantizer belongs to."""

    encoder: str
    kept: float
    """Share of each document's embeddings that are indexed."""
    documents: Sequence[int]
    """Of each shard."""
    embeddings: Sequence[int]
    """Of each shard, whether kept or not."""


class Quantizer(NamedTuple):
    """A quantizer that is ready to code a shard."""

    index: Any
    """The FAISS index without embeddings."""
    frequencies: NDArray[np.int64]
    """int64[2, vocabulary]: in the collection, and in documents."""
    about: Description
    digest: str
    """Of the folder that it was read from: what a shard's lists belong to."""


def plan(embeddings: int, share: float, bits: int) -> Plan:
    """Partitions and sample for a collection, by the rule above; `share` of it is sampled."""
    needed = POINTS_PER_CENTROID * 2**bits
    if embeddings < needed:
        return Plan(partitions=0, sample=0)
    sample = min(embeddings, max(math.ceil(share * embeddings), needed))
    wanted = 2 ** math.ceil(math.log2(8 * math.sqrt(embeddings)))
    fed = 2 ** math.floor(math.log2(sample / POINTS_PER_CENTROID))
    return Plan(min(wanted, fed), sample)


def train(
    shards: Sequence[Shard],
    counts: Sequence[int],
    kept: Iterable[NDArray[np.bool_]],
    *,
    sample: float,
    subquantizers: int,
    bits: int,
    metric: str,
    seed: int,
) -> tuple[Any, Plan]:
    """A FAISS index without embeddings for those of the shards that are `kept`, and its plan.

    `kept` gives a bool[embeddings] for each shard, of which `counts` are true. EspalierError when
    none are.
    """
    count = sum(counts)
    dimensions = shards[0].dimensions
    if not count:
        raise EspalierError(
            "shards: no document has a word to embed, so nothing can be retrieved; "
            "name a collection with text"
        )
    planned = plan(count, sample, bits)
    flat: Any = FLAT[metric](dimensions)
    if not planned.partitions:
        log.info("%d embeddings are too few for product quantization: flat index", count)
        return faiss.IndexIDMap2(flat), planned
    log.info("%d embeddings: %s", count, planned)
    shape = (dimensions, planned.partitions, subquantizers, bits)
    index: Any = faiss.IndexIVFPQ(flat, *shape, flat.metric_type)
    index.cp.seed = index.pq.cp.seed = seed % 2**31
    points = sampled(shards, counts, kept, planned.sample, seed)
    with one_thread(), searched_in_pieces(index, FLAT[metric]):
        index.train(points)
    return index, planned


@contextmanager
def searched_in_pieces(index: Any, flat: Callable[[int], Any]) -> Iterator[None]:
    """k-means of an IVF index with its centroids in pieces, each searched by a thread of its own.

    `flat` makes an empty index for a piece. These threads have as many of OpenMP's as the process
    began with: let that be one.
    """
    pieces = [flat(index.d) for _ in range(index.nlist // PIECE)]
    if len(pieces) > 1:
        index_shards: Any = faiss.IndexShards
        together = index_shards(index.d, True, True)  # threaded, with numbers in succession
        for piece in pieces:
            together.add_shard(piece)
        index.clustering_index = together
    try:
        yield
    finally:
        index.clustering_index = None


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS with one thread: a matrix product rounds by how many share it."""
    usual = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(usual)


def sampled(
    shards: Sequence[Shard],
    counts: Sequence[int],
    kept: Iterable[NDArray[np.bool_]],
    size: int,
    seed: int,
) -> NDArray[np.float32]:
    """A seeded sample float32[size, dimensions] without replacement, in the store's order."""
    bounds = np.cumsum([0, *counts])
    ranks = np.random.default_rng(seed).choice(bounds[-1], size, replace=False, shuffle=False)
    ranks.sort()
    ends = np.searchsorted(ranks, bounds)
    sample = np.empty((size, shards[0].dimensions), np.float32)
    for number, (shard, own) in enumerate(zip(shards, kept, strict=True)):
        start, stop = ends[number : number + 2]
        sample[start:stop] = shard.embeddings[
            np.flatnonzero(own)[ranks[start:stop] - bounds[number]]
        ]
    return sample


def write(
    folder: Path, index: Any, frequencies: NDArray[np.int64], shards: Sequence[Shard], kept: float
) -> None:
    """Write a trained index with what it belongs to: a share `kept` of the shards' embeddings."""
    folder.mkdir(parents=True)
    faiss.write_index(index, str(folder / INDEX))
    np.save(folder / FREQUENCY, frequencies)
    about = Description(
        shards[0].encoder,
        kept,
        [len(shard.doc_ids) for shard in shards],
        [len(shard.embeddings) for shard in shards],
    )
    text = json.dumps(about._asdict(), indent=1, sort_keys=True)
    (folder / DESCRIPTION).write_text(text + "\n")


def read(folder: Path) -> Quantizer:
    """Open what `write` wrote; EspalierError when it cannot be read."""
    try:
        about = Description(**json.loads((folder / DESCRIPTION).read_text()))
        index = faiss.read_index(str(folder / INDEX))
        frequencies: NDArray[np.int64] = np.load(folder / FREQUENCY)
    except (OSError, EOFError, ValueError, TypeError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise EspalierError(
            f"{folder}: not a quantizer ({why}); delete it and run again"
        ) from error
    return Quantizer(index, frequencies, about, files.sha256_of(folder))


def first_of(quantizer: Quantizer, number: int, shard: Shard, folder: Path) -> int:
    """The number of the first embedding of the shard in `folder`, the collection's `number`-th.

    EspalierError for a shard that is not the one that the quantizer saw there.
    """
    about = quantizer.about
    seen = list(zip(about.documents, about.embeddings, strict=True))[number : number + 1]
    found = (len(shard.doc_ids), len(shard.embeddings))
    if shard.encoder != about.encoder or seen != [found]:
        raise EspalierError(
            f"{folder}: not the shard that the quantizer was trained on; "
            "delete the quantizer and run again"
        )
    return sum(about.embeddings[:number])
