"""Inverted lists: those of one shard's embeddings, coded by the quantizer, and all shards' joined.

A shard's lists are a folder: `sizes.npy` int64[lists]; `codes.npy` uint8[n, width] and
`numbers.npy` int64[n], list after list, in each by number; `inverted.json`, the digest of the
quantizer that made them, the number of the `shard`, and `sha256` of each other file. An index that
is flat is one list, and an embedding's code its float32 values.

A block's size decides how matrix products round. So that a list is the same bytes however the
collection is cut, a block is of the documents that were encoded as one (`batching.BLOCK`, at
multiples of which shards begin), and has one thread.

Memory: beside the quantizer, coding takes two codes and 16 bytes for each embedding of the shard
that is kept (48 with codes of 16 bytes; where a code is shorter than 8, one and 24 bytes); joining
takes `GROUP` embeddings, or those of the longest list, since the lists' files are read and the
index is written a piece at a time. A flat index is joined in memory: it has few embeddings.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from espalier import files
from espalier.colbert.quantizer import one_thread
from espalier.colbert.store import Shard
from espalier.errors import EspalierError
from espalier.text import batching

GROUP = 1 << 18
"""Embeddings of lists that are joined at once."""

DESCRIPTION = "inverted.json"


class Lists(NamedTuple):
    """Inverted lists one after another."""

    sizes: NDArray[np.int64]
    """int64[lists]: embeddings of each."""
    codes: NDArray[np.uint8]
    """uint8[n, width]."""
    numbers: NDArray[np.int64]
    """int64[n]: each embedding's number in the store, ascending within a list."""


def invert(index: Any, shard: Shard, kept: NDArray[np.bool_], first: int) -> Lists:
    """The lists of a shard's `kept` embeddings (bool[embeddings]), the first of which is `first`.

    `index` is the quantizer's.
    """
    places = np.flatnonzero(kept)
    lists = np.empty(len(places), np.int64)
    codes = np.empty((len(places), width(index)), np.uint8)
    at = 0
    with (
        one_thread(),
        tqdm(total=len(places), desc="code", unit="embedding", mininterval=2) as bar,
    ):
        for start in range(0, len(shard.doc_ids), batching.BLOCK):
            end = shard.offsets[min(start + batching.BLOCK, len(shard.doc_ids))]
            stop = int(np.searchsorted(places, end))
            if at < stop:
                block = shard.embeddings[places[at:stop]].astype(np.float32)
                lists[at:stop], codes[at:stop] = coded(index, block)
                bar.update(stop - at)
            at = stop
    order = np.argsort(lists, kind="stable")
    sizes = np.bincount(lists, minlength=number_of_lists(index))
    del lists  # this and `places` have eight bytes for each embedding
    numbers = places[order]
    del places
    numbers += first
    return Lists(sizes, codes[order], numbers)


def coded(index: Any, block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The list int64[n] and the code uint8[n, width] of each of float32[n, dimensions]."""
    if flat(index):
        return np.zeros(len(block), np.int64), block.view(np.uint8)
    lists = index.quantizer.search(block, 1)[1][:, 0]
    codes = np.empty((len(block), width(index)), np.uint8)
    arrays = [faiss.swig_ptr(array) for array in (lists, block, codes)]
    index.encode_multiple(len(block), *arrays, False)
    return lists, codes


def flat(index: Any) -> bool:
    """Whether an index keeps the vectors themselves."""
    return isinstance(index, faiss.IndexIDMap2)


def width(index: Any) -> int:
    """Bytes of a code."""
    return 4 * int(index.d) if flat(index) else int(index.code_size)


def number_of_lists(index: Any) -> int:
    """Lists of an index."""
    return 1 if flat(index) else int(index.nlist)


def write(folder: Path, lists: Lists, quantizer: str, shard: int) -> None:
    """Write the lists of the collection's shard of that number, by the quantizer of that digest."""
    folder.mkdir(parents=True)
    for name, values in lists._asdict().items():
        np.save(folder / f"{name}.npy", values)
    described = {
        "quantizer": quantizer,
        "shard": shard,
        "sha256": files.digests_of(folder),
    }
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")


def verify(folders: Sequence[Path], quantizer: str) -> None:
    """That these are whole lists of the first shard, the second and so on; all are read.

    EspalierError for those with a damaged file, of another quantizer or of another shard.
    """
    names = {f"{name}.npy" for name in Lists._fields}
    for number, folder in enumerate(folders):
        try:
            described = json.loads((folder / DESCRIPTION).read_text())
            made_by, digests = described["quantizer"], described["sha256"]
            shard = described["shard"]
            whole = set(digests) == names
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EspalierError(f"{folder}: no lists ({error}); delete it and run again") from error
        if not whole or files.altered(folder, digests):
            raise EspalierError(f"{folder}: damaged; delete it and run again")
        if made_by != quantizer:
            raise EspalierError(f"{folder}: made by another quantizer; delete it and run again")
        if shard != number:
            raise EspalierError(
                f"{folder}: lists of shard {shard} where those of {number} belong; "
                "give each shard's once, in order"
            )


def join(path: Path, index: Any, folders: Sequence[Path]) -> int:
    """Write the index of all shards' lists, in the order given; the number of embeddings.

    `index` is the quantizer's, and stays as it is. The bytes are FAISS's own, as it would write an
    index that all embeddings were added to in one process.
    """
    sizes = reduce(np.add, (array(folder, "sizes") for folder in folders))
    total = int(sizes.sum())
    if flat(index):
        filled = faiss.clone_index(index)
        for folder in folders:
            vectors = array(folder, "codes").view(np.float32)
            filled.add_with_ids(vectors, array(folder, "numbers"))
        faiss.write_index(filled, str(path))
        return total
    with path.open("wb") as stream, tqdm(total=total, desc="join", unit="embedding") as bar:
        stream.write(header(index, sizes))
        for codes, numbers in joined(folders, sizes):
            stream.write(codes.data)
            stream.write(numbers.data)
            bar.update(len(numbers))
    return total


def header(index: Any, sizes: NDArray[np.int64]) -> bytes:
    """What stands before the codes in FAISS's file of an index with lists of these sizes.

    `faiss::write_InvertedLists`: 'ilar', the number of lists, the width of a code, then 'full' and
    all sizes, or, where at most half of the lists have embeddings, 'sprs' and the number and size
    of those. Integers have eight bytes, and an array its length before it. EspalierError when FAISS
    no longer writes that.
    """
    usual = index.ntotal
    index.ntotal = int(sizes.sum())  # not of a copy, which would take all centroids' memory again
    try:
        without = faiss.serialize_index(index).tobytes()
    finally:
        index.ntotal = usual
    lists = b"ilar" + struct.pack("<QQ", len(sizes), width(index))
    empty = lists + b"sprs" + struct.pack("<Q", 0)
    if not without.endswith(empty):
        raise EspalierError(
            f"faiss {faiss.__version__}: writes lists in a way that is not known here; "
            "install the version that the lock names"
        )
    filled = np.flatnonzero(sizes)
    if len(filled) > len(sizes) // 2:
        kind, values = b"full", sizes
    else:
        kind, values = b"sprs", np.stack([filled, sizes[filled]], axis=1).ravel()
    counts = struct.pack("<Q", len(values)) + values.astype("<u8").tobytes()
    return without.removesuffix(empty) + lists + kind + counts


def joined(
    folders: Sequence[Path], sizes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Codes uint8[n, width] and numbers int64[n] of each list that has any, of all shards.

    `sizes` int64[lists] are all shards' together.
    """
    start = [0] * len(folders)
    for first, last in groups(sizes):
        own = np.stack([array(folder, "sizes", first, last) for folder in folders])
        stop = np.add(start, own.sum(axis=1)).tolist()
        codes, numbers = (
            np.concatenate(
                [array(f, name, a, b) for f, a, b in zip(folders, start, stop, strict=True)]
            )
            for name in ("codes", "numbers")
        )
        start = stop
        lists = np.concatenate([np.repeat(np.arange(last - first), row) for row in own])
        order = np.argsort(lists, kind="stable")
        codes, numbers = codes[order], numbers[order]
        for begin, end in pairwise([0, *np.cumsum(sizes[first:last]).tolist()]):
            if begin < end:
                yield codes[begin:end], numbers[begin:end]


def groups(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of lists with at most `GROUP` embeddings together, or of one longer list."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(ends[first] - sizes[first])
        last = max(int(np.searchsorted(ends, before + GROUP, side="right")), first + 1)
        yield first, last
        first = last


def array(folder: Path, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
    """Some rows of one of a shard's arrays, copied, so that no page stays mapped."""
    return np.array(np.load(folder / f"{name}.npy", mmap_mode="r")[start:stop])
