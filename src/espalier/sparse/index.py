"""The dual-weight index: one posting = document, BM25 weight, learned weight.

A folder of .npy files, memory-mapped when opened: the arrays of `Postings`, those of two
`Partition`s (`fixed_…` and `variable_…` blocks), `doc_ids` and `lexicon` (names.py), and
`meta.json` with version, counts, quantisation ranges and the SHA-256 of every file.

Both weights are quantised linearly over their own range, so their maxima over the collection are
equal: that is the scale between the two (the paper leaves it open), recorded as `scale`, the
learned units of one BM25 unit.

Where documents were weighed by segments, the index is of segments: a document number below is a
segment's, a doc_id its id, and `documents`, `document` (segments.py) say whose each is.

It is merged from inverted shards (inverted.py), each made by a job of its own: a term's list is its
lists in all shards, one after another.

Memory to merge: the postings of one chunk (`CHUNK`) and a few numbers for each document and each
term; the postings are written straight to their memory-mapped files, whose pages the system can
drop. Reordering takes four bytes for each posting. The block partition takes two, and about 30 for
each of the longest list.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from espalier.errors import EspalierError
from espalier.files import altered, digests_of, reserve
from espalier.sparse import blocks, bm25, names, quantize, reorder, segments
from espalier.sparse.inverted import Inverted, places
from espalier.sparse.names import Names
from espalier.sparse.postings import Partition, Postings, Weights
from espalier.sparse.segments import Segments

VERSION = 3
"""Layout of the folder; another one is refused."""

CHUNK = 3_000_000
"""Postings that are merged at once."""

MOST_DOCUMENTS = 2**32 - 2
"""Document numbers are 32 bits wide, and the sentinel is one more than the last."""

PARTITIONS = ("fixed", "variable")

SUPPORTS = ("union", "learned", "bm25")


class Index(NamedTuple):
    """An index and what belongs to it."""

    postings: Postings
    partitions: Mapping[str, Partition]
    """By name: fixed, variable."""
    doc_ids: Names
    """doc_id of each document number."""
    lexicon: Mapping[str, int]
    """Term numbers, ascending with the term."""
    meta: dict[str, Any]
    segments: Segments | None = None
    """Whose each segment is, where the index is of segments."""

    @property
    def ranked_ids(self) -> Names:
        """doc_ids of what a run ranks: the documents, also where the index is of segments."""
        return self.segments.documents if self.segments else self.doc_ids


class Chunk(NamedTuple):
    """Some postings of one shard, term after term, in the collection's numbers."""

    terms: npt.NDArray[np.int64]
    docs: npt.NDArray[np.int64]
    frequency: npt.NDArray[np.float64]
    learned: npt.NDArray[np.float32]


class Source:
    """All inverted shards as one collection, read in chunks.

    With `own_terms`, only terms that stand in a document keep their learned weight.
    """

    def __init__(self, shards: Sequence[Inverted], own_terms: bool) -> None:
        self.shards, self.own_terms = shards, own_terms
        sizes = [len(shard.doc_ids) for shard in shards]
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.documents = checked_size(int(self.first[-1]))
        self.lengths = np.concatenate([np.zeros(0, np.int64), *(s.lengths for s in shards)])
        self.lexicon = sorted({term for shard in shards for term in shard.lexicon})
        numbers = {term: i for i, term in enumerate(self.lexicon)}
        self.numbers = [np.array([numbers[t] for t in s.lexicon], np.int64) for s in shards]

    def chunks(self, support: str) -> Iterator[Chunk]:
        """The postings of a support, those of at most `CHUNK` at a time; a term's in order."""
        for shard, first, numbers in zip(self.shards, self.first, self.numbers, strict=False):
            for start in range(0, len(shard.docs), CHUNK):
                stop = min(start + CHUNK, len(shard.docs))
                frequency = shard.frequency[start:stop].astype(np.float64)
                learned = shard.learned[start:stop]
                if self.own_terms:
                    learned = np.where(frequency > 0, learned, 0).astype(np.float32)
                sides = {"bm25": frequency > 0, "learned": learned > 0}
                kept = sides["bm25"] | sides["learned"] if support == "union" else sides[support]
                terms = np.repeat(numbers, np.diff(shard.term_begin.clip(start, stop)))
                docs = first + shard.docs[start:stop]
                yield Chunk(terms[kept], docs[kept], frequency[kept], learned[kept])


def checked_size(documents: int) -> int:
    """The number of documents; EspalierError when it cannot be numbered in 32 bits."""
    if documents > MOST_DOCUMENTS:
        raise EspalierError(
            f"index: {documents} documents, but an index holds at most {MOST_DOCUMENTS}; "
            "split the collection"
        )
    return documents


def build(
    folder: Path,
    shards: Sequence[Inverted],
    *,
    block_size: int,
    k1: float,
    b: float,
    bits: int | None = quantize.BITS,
    support: str = "union",
    partition_by: str = "learned",
    own_terms: bool = False,
    reordered: bool = False,
    delimiter: str | None = None,
) -> dict[str, Any]:
    """Index the documents of all shards into `folder`; what `meta.json` says, less checksums.

    Documents are numbered in the shards' order, or by recursive graph bisection if `reordered`.
    `block_size` is the size of fixed blocks and the mean of variable ones, which are cut where that
    suits the weight `partition_by`, or in an index of one side its own. `bits`: 8, or None for
    float32 weights. `support`: both sides' postings (union), or those of one side; a posting's BM25
    weight before quantisation is the same in all. With `own_terms`, only terms that stand in a
    document keep their learned weight. With a `delimiter` the shards are of segments whose ids
    have it after their doc_ids. Raises EspalierError for a doc_id that occurs twice, and for a
    segment's id without a doc_id.
    """
    doc_ids = names.joined(shard.doc_ids for shard in shards)
    twice = names.repeated(doc_ids)
    if twice is not None:
        raise EspalierError(
            f"index: document '{twice}' occurs twice in the collection; keep one of them"
        )
    source = Source(shards, own_terms)
    vocabulary = len(source.lexicon)
    total = int(source.lengths.sum())
    mean_length = total / source.documents if total else 1.0
    document_frequency = frequencies(source, "bm25")
    frequency = frequencies(source, support)

    def lexical(chunk: Chunk) -> npt.NDArray[np.float64]:
        return bm25.weights(
            chunk.frequency,
            source.lengths[chunk.docs].astype(np.float64),
            document_frequency[chunk.terms].astype(np.float64),
            source.documents,
            mean_length,
            k1,
            b,
        )

    largest = {"bm25": 0.0, "learned": 0.0}
    for chunk in source.chunks(support):
        largest["bm25"] = max(largest["bm25"], float(lexical(chunk).max(initial=0)))
        largest["learned"] = max(largest["learned"], float(chunk.learned.max(initial=0)))

    order = bisection(source, support) if reordered else None
    begin = np.concatenate([[0], np.cumsum(frequency + 1)]).astype(np.int64)
    folder.mkdir(parents=True)
    kind = np.uint8 if bits else np.float32
    files: dict[str, npt.NDArray[Any]] = {
        name: open_memmap(folder / f"{name}.npy", "w+", dtype, (int(begin[-1]),))
        for name, dtype in (("docs", np.uint32), ("bm25", kind), ("learned", kind))
    }
    for name in files:
        reserve(folder / f"{name}.npy")
    cursor = begin[:-1].copy()
    for chunk in source.chunks(support):
        at = places(chunk.terms, cursor)
        files["docs"][at] = chunk.docs
        files["bm25"][at] = quantize.postings(lexical(chunk), largest["bm25"], bits)
        files["learned"][at] = quantize.postings(chunk.learned, largest["learned"], bits)
    files["docs"][begin[1:] - 1] = source.documents
    if order is not None:
        renumber(order, begin, *files.values())
        doc_ids = Names.of(doc_ids[i] for i in order.tolist())

    driving = partition_by if support == "union" else support
    finish(folder, files, begin, block_size, driving)
    doc_ids.write(folder, "doc_ids")
    if delimiter is not None:
        segments.write(folder, segments.grouped(doc_ids, delimiter))
    Names.of(source.lexicon).write(folder, "lexicon")
    return {
        "version": VERSION,
        "documents": source.documents,
        "postings": int(frequency.sum()),
        "terms": vocabulary,
        "block_size": block_size,
        "bits": bits,
        "support": support,
        "partition_by": driving,
        "own_terms": own_terms,
        "reordered": reordered,
        "delimiter": delimiter,
        "mean_length": mean_length,
        "largest": largest,
        "scale": largest["learned"] / largest["bm25"] if largest["bm25"] else 1.0,
    }


def frequencies(source: Source, support: str) -> npt.NDArray[np.int64]:
    """Postings of each term in a support: int64[V]."""
    found = np.zeros(len(source.lexicon), np.int64)
    for chunk in source.chunks(support):
        found += np.bincount(chunk.terms, minlength=len(found))
    return found


def bisection(source: Source, support: str) -> npt.NDArray[np.int64]:
    """Old document numbers in an order that puts documents with the same terms together."""
    sizes = np.zeros(source.documents, np.int64)
    for chunk in source.chunks(support):
        sizes += np.bincount(chunk.docs, minlength=len(sizes))
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    terms, cursor = np.empty(int(begin[-1]), np.int32), begin[:-1].copy()
    for chunk in source.chunks(support):
        terms[places(chunk.docs, cursor)] = chunk.terms
    return reorder.bisection(terms, begin, len(source.lexicon))


def renumber(
    order: npt.NDArray[np.int64],
    begin: npt.NDArray[np.int64],
    docs: npt.NDArray[np.uint32],
    weights_b: Weights,
    weights_l: Weights,
) -> None:
    """Give documents their new numbers, order[new] = old, and lists that order; sentinels stay."""
    new = np.empty(len(order), np.uint32)
    new[order] = np.arange(len(order), dtype=np.uint32)
    sort_lists(new, begin, docs, weights_b, weights_l)


@numba.njit(cache=True)
def sort_lists(
    new: npt.NDArray[np.uint32],
    begin: npt.NDArray[np.int64],
    docs: npt.NDArray[np.uint32],
    weights_b: Weights,
    weights_l: Weights,
) -> None:
    """Replace document d by new[d] in every list but in its sentinel, and sort the list by that."""
    for term in range(len(begin) - 1):
        own = slice(begin[term], begin[term + 1] - 1)
        moved = new[docs[own]]
        by_number = np.argsort(moved)
        docs[own] = moved[by_number]
        weights_b[own] = weights_b[own][by_number]
        weights_l[own] = weights_l[own][by_number]


def finish(
    folder: Path,
    files: Mapping[str, npt.NDArray[Any]],
    begin: npt.NDArray[np.int64],
    size: int,
    driving: str,
) -> None:
    """Write what follows from the postings: the maxima of terms, and the two partitions.

    `driving` is the weight that variable blocks are cut by.
    """
    docs, weights_b, weights_l = files["docs"], files["bm25"], files["learned"]
    arrays = {
        "term_begin": begin,
        "term_bm25": blocks.maxima(weights_b, begin[:-1]),
        "term_learned": blocks.maxima(weights_l, begin[:-1]),
    }
    for name in PARTITIONS:
        term_block, block_begin = (
            blocks.fixed(begin, size)
            if name == "fixed"
            else blocks.variable(files[driving], begin, size)
        )
        last = docs[np.append(block_begin, begin[-1])[1:] - 1]
        arrays |= {
            f"{name}_{part}": array
            for part, array in zip(
                Partition._fields,
                (
                    term_block,
                    block_begin,
                    last,
                    blocks.maxima(weights_b, block_begin),
                    blocks.maxima(weights_l, block_begin),
                ),
                strict=True,
            )
        }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def seal(folder: Path, meta: Mapping[str, Any]) -> None:
    """Write `meta.json`, with the checksums of all other files."""
    text = json.dumps({**meta, "sha256": digests_of(folder)}, indent=1, sort_keys=True)
    (folder / "meta.json").write_text(text + "\n")


def read(folder: Path) -> Index:
    """Open an index, its arrays memory-mapped.

    Raises EspalierError when it is of another version, or a file is missing or was altered.
    """
    remedy = "delete the folder and run the chain again"
    try:
        meta = json.loads((folder / "meta.json").read_text())
        version, checksums = meta["version"], meta["sha256"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EspalierError(f"{folder}/meta.json: missing or damaged; {remedy}") from error
    if version != VERSION:
        raise EspalierError(f"{folder}: index of version {version}, this is {VERSION}; {remedy}")
    if path := altered(folder, checksums):
        raise EspalierError(f"{path}: missing, truncated or altered; {remedy}")
    return Index(
        Postings(*(names.mapped(folder, name) for name in Postings._fields)),
        {
            name: Partition(*(names.mapped(folder, f"{name}_{part}") for part in Partition._fields))
            for name in PARTITIONS
        },
        Names.read(folder, "doc_ids"),
        {term: number for number, term in enumerate(Names.read(folder, "lexicon"))},
        meta,
        None if meta["delimiter"] is None else segments.read(folder),
    )
