"""The dual-weight index: one posting = document, BM25 weight, learned weight.

A folder of .npy files, memory-mapped when opened, with `doc_ids.json` and `meta.json` (version,
counts, quantisation ranges, SHA-256 of every file). Both weights are quantised linearly over
their own range, so their maxima over the collection are equal: that is the scale between the two
(the paper leaves it open), recorded as `scale`, the learned units of one BM25 unit.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from espalier.errors import EspalierError
from espalier.files import sha256_of
from espalier.sparse import blocks, bm25, quantize
from espalier.sparse.shards import Shard
from espalier.sparse.traversal import Postings

VERSION = 1
"""Layout of the folder; another one is refused."""


class Index(NamedTuple):
    """An index and what belongs to it."""

    postings: Postings
    doc_ids: list[str]
    """doc_id of each document number."""
    meta: dict[str, Any]


def build(shards: Sequence[Shard], vocabulary: int, block_size: int, k1: float, b: float) -> Index:
    """Index the documents of all shards, numbered in their order.

    Raises EspalierError for a document that occurs twice, and for negative, NaN or infinite
    learned weights.
    """
    doc_ids = [doc_id for shard in shards for doc_id in shard.doc_ids]
    if len(set(doc_ids)) < len(doc_ids):
        seen: set[str] = set()
        twice = next(d for d in doc_ids if d in seen or seen.add(d))  # type: ignore[func-returns-value]
        raise EspalierError(f"index: document '{twice}' occurs twice in the collection")
    lengths = np.concatenate([shard.lengths for shard in shards])
    counts = np.concatenate([np.diff(shard.doc_begin) for shard in shards])
    docs = np.repeat(np.arange(len(doc_ids), dtype=np.uint32), counts)
    terms = np.concatenate([shard.terms for shard in shards])
    order = np.argsort(terms, kind="stable")
    docs, terms = docs[order], terms[order]
    frequency = np.concatenate([shard.frequency for shard in shards])[order].astype(np.float64)
    learned = np.concatenate([shard.learned for shard in shards])[order]
    quantize.checked(learned, "learned weights")

    document_frequency = np.bincount(terms[frequency > 0], minlength=vocabulary)
    mean_length = float(lengths.mean()) if lengths.sum() else 1.0
    lexical = bm25.weights(
        frequency,
        lengths[docs].astype(np.float64),
        document_frequency[terms].astype(np.float64),
        len(doc_ids),
        mean_length,
        k1,
        b,
    )
    largest = {"bm25": float(lexical.max(initial=0)), "learned": float(learned.max(initial=0))}
    weight_b = quantize.postings(lexical, largest["bm25"])
    weight_l = quantize.postings(learned, largest["learned"])

    begin = np.searchsorted(terms, np.arange(vocabulary + 1)).astype(np.int64)
    term_block, block_begin = blocks.fixed(begin, block_size)
    filled = np.flatnonzero(np.diff(begin))
    ranges = np.append(begin[filled], begin[-1])
    term_b, term_l = np.zeros(vocabulary, np.uint8), np.zeros(vocabulary, np.uint8)
    term_b[filled] = blocks.maxima(weight_b, ranges)
    term_l[filled] = blocks.maxima(weight_l, ranges)
    postings = Postings(
        docs, weight_b, weight_l, begin, term_b, term_l, term_block, block_begin,
        docs[block_begin[1:] - 1], blocks.maxima(weight_b, block_begin),
        blocks.maxima(weight_l, block_begin),
    )  # fmt: skip
    meta = {
        "version": VERSION,
        "documents": len(doc_ids),
        "postings": len(docs),
        "blocks": len(postings.block_last),
        "block_size": block_size,
        "vocabulary": vocabulary,
        "mean_length": mean_length,
        "largest": largest,
        "scale": largest["learned"] / largest["bm25"] if largest["bm25"] else 1.0,
    }
    return Index(postings, doc_ids, meta)


def write(folder: Path, index: Index) -> None:
    """Write an index; `meta.json`, with the checksums, comes last."""
    folder.mkdir(parents=True)
    for name, array in index.postings._asdict().items():
        np.save(folder / f"{name}.npy", array)
    (folder / "doc_ids.json").write_text(json.dumps(index.doc_ids))
    checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    meta = {**index.meta, "sha256": checksums}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n")


def read(folder: Path) -> Index:
    """Open an index, its arrays memory-mapped.

    Raises EspalierError when it is of another version, or a file is missing or was altered.
    """
    remedy = "delete the folder and run the chain again"
    try:
        meta = json.loads((folder / "meta.json").read_text())
    except (OSError, ValueError) as error:
        raise EspalierError(f"{folder}/meta.json: missing or damaged; {remedy}") from error
    if meta.get("version") != VERSION:
        raise EspalierError(
            f"{folder}: index of version {meta.get('version')}, this is {VERSION}; {remedy}"
        )
    for name, expected in meta["sha256"].items():
        if not (folder / name).is_file() or sha256_of(folder / name) != expected:
            raise EspalierError(f"{folder / name}: missing, truncated or altered; {remedy}")
    arrays = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in Postings._fields]
    # Plain array views: one compiled kernel serves mapped and in-memory indexes.
    postings = Postings(*(np.asarray(array) for array in arrays))
    return Index(postings, json.loads((folder / "doc_ids.json").read_text()), meta)
