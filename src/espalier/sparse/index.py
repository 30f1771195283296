"""The dual-weight index: one posting = document, BM25 weight, learned weight.

A folder of .npy files, memory-mapped when opened: the arrays of `Postings`, those of two
`Partition`s (`fixed_…` and `variable_…` blocks), `doc_ids` and `lexicon` (names.py), and
`meta.json` with version, counts, quantisation ranges and the SHA-256 of every file.

Both weights are quantised linearly over their own range, so their maxima over the collection are
equal: that is the scale between the two (the paper leaves it open), recorded as `scale`, the
learned units of one BM25 unit.

Where documents were weighed by segments, the index is of segments: a document number below is a
segment's, a doc_id its id, and `documents`, `document` (segments.py) say whose each is.

Memory to build: the documents of one chunk (`CHUNK`) and a few numbers for each document and each
term; the postings are written straight to their memory-mapped files, whose pages the system can
drop. The block partition then takes about 30 bytes for each posting of the longest list.
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
from espalier.files import reserve, sha256_of
from espalier.sparse import blocks, bm25, names, quantize, reorder, segments
from espalier.sparse.names import Names
from espalier.sparse.postings import Partition, Postings, Weights
from espalier.sparse.segments import Segments
from espalier.sparse.shards import Shard

VERSION = 3
"""Layout of the folder; another one is refused."""

CHUNK = 50_000
"""Documents that are indexed at once."""

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


class Documents(NamedTuple):
    """Documents of several shards, document-major, with the collection's term numbers."""

    lengths: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    """Postings of each document."""
    terms: npt.NDArray[np.int64]
    frequency: npt.NDArray[np.float64]
    learned: npt.NDArray[np.float32]


class Source:
    """All shards as one collection, read in chunks.

    With `own_terms`, only terms that stand in a document keep their learned weight.
    """

    def __init__(self, shards: Sequence[Shard], own_terms: bool) -> None:
        self.shards, self.own_terms = shards, own_terms
        sizes = [len(shard.doc_ids) for shard in shards]
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.documents = checked_size(int(self.first[-1]))
        self.lexicon = sorted({term for shard in shards for term in shard.lexicon})
        numbers = {term: i for i, term in enumerate(self.lexicon)}
        self.numbers = [np.array([numbers[t] for t in s.lexicon], np.int64) for s in shards]

    def chunks(self, order: npt.NDArray[np.int64] | None = None) -> Iterator[Documents]:
        """The documents, `CHUNK` at a time; `order` int64[D] names old numbers in a new order."""
        for start in range(0, self.documents, CHUNK):
            stop = min(start + CHUNK, self.documents)
            yield self.some(np.arange(start, stop) if order is None else order[start:stop])

    def some(self, wanted: npt.NDArray[np.int64]) -> Documents:
        """The documents with the numbers `wanted`, in that order."""
        home = np.searchsorted(self.first, wanted, side="right") - 1
        begin, sizes = np.empty_like(wanted), np.empty_like(wanted)
        lengths = np.empty_like(wanted)
        for s in np.unique(home):
            here = home == s
            local = wanted[here] - self.first[s]
            shard = self.shards[s]
            begin[here] = shard.doc_begin[local]
            sizes[here] = shard.doc_begin[local + 1] - shard.doc_begin[local]
            lengths[here] = shard.lengths[local]
        stop = np.cumsum(sizes)
        place = np.arange(stop[-1] if len(stop) else 0)
        place += np.repeat(begin - (stop - sizes), sizes)
        owner = np.repeat(home, sizes)
        terms = np.empty(len(place), np.int64)
        frequency, learned = np.empty(len(place)), np.empty(len(place), np.float32)
        for s in np.unique(home):
            here = owner == s
            shard = self.shards[s]
            terms[here] = self.numbers[s][shard.terms[place[here]]]
            frequency[here] = shard.frequency[place[here]]
            learned[here] = shard.learned[place[here]]
        quantize.checked(learned, "learned weights")
        if self.own_terms:
            learned = np.where(frequency > 0, learned, 0).astype(np.float32)
        return Documents(lengths, sizes, terms, frequency, learned)


def supported(documents: Documents, support: str) -> Documents:
    """The documents with the postings of a support alone."""
    lengths, sizes, terms, frequency, learned = documents
    sides = {"bm25": frequency > 0, "learned": learned > 0}
    kept = sides["bm25"] | sides["learned"] if support == "union" else sides[support]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    sizes = np.bincount(owner[kept], minlength=len(sizes))
    return Documents(lengths, sizes, terms[kept], frequency[kept], learned[kept])


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
    shards: Sequence[Shard],
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
    have it after their doc_ids. Raises EspalierError for a doc_id that occurs twice, for negative,
    NaN or infinite learned weights, and for a segment's id without a doc_id.
    """
    doc_ids = names.joined(shard.doc_ids for shard in shards)
    twice = names.repeated(doc_ids)
    if twice is not None:
        raise EspalierError(
            f"index: document '{twice}' occurs twice in the collection; keep one of them"
        )
    source = Source(shards, own_terms)
    vocabulary = len(source.lexicon)
    frequency, document_frequency = (np.zeros(vocabulary, np.int64) for _ in range(2))
    total = 0
    for documents in source.chunks():
        frequency += np.bincount(supported(documents, support).terms, minlength=vocabulary)
        present = documents.terms[documents.frequency > 0]
        document_frequency += np.bincount(present, minlength=vocabulary)
        total += int(documents.lengths.sum())
    mean_length = total / source.documents if total else 1.0

    def lexical(documents: Documents) -> npt.NDArray[np.float64]:
        return bm25.weights(
            documents.frequency,
            np.repeat(documents.lengths, documents.sizes).astype(np.float64),
            document_frequency[documents.terms].astype(np.float64),
            source.documents,
            mean_length,
            k1,
            b,
        )

    largest = {"bm25": 0.0, "learned": 0.0}
    for documents in source.chunks():
        kept = supported(documents, support)
        largest["bm25"] = max(largest["bm25"], float(lexical(kept).max(initial=0)))
        largest["learned"] = max(largest["learned"], float(kept.learned.max(initial=0)))

    order = bisection(source, support, vocabulary) if reordered else None
    begin = np.concatenate([[0], np.cumsum(frequency + 1)]).astype(np.int64)
    folder.mkdir(parents=True)
    kind = np.uint8 if bits else np.float32
    files: dict[str, npt.NDArray[Any]] = {
        name: open_memmap(folder / f"{name}.npy", "w+", dtype, (int(begin[-1]),))
        for name, dtype in (("docs", np.uint32), ("bm25", kind), ("learned", kind))
    }
    for name in files:
        reserve(folder / f"{name}.npy")
    cursor, first = begin[:-1].copy(), 0
    for documents in source.chunks(order):
        kept = supported(documents, support)
        weights_b = quantize.postings(lexical(kept), largest["bm25"], bits)
        weights_l = quantize.postings(kept.learned, largest["learned"], bits)
        fill(first, kept.sizes, kept.terms, weights_b, weights_l, cursor, *files.values())
        first += len(kept.sizes)
    files["docs"][begin[1:] - 1] = source.documents

    driving = partition_by if support == "union" else support
    finish(folder, files, begin, block_size, driving)
    if order is not None:
        doc_ids = Names.of(doc_ids[i] for i in order.tolist())
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


@numba.njit(cache=True)
def fill(
    first: int,
    sizes: npt.NDArray[np.int64],
    terms: npt.NDArray[np.int64],
    weights_b: Weights,
    weights_l: Weights,
    cursor: npt.NDArray[np.int64],
    docs: npt.NDArray[np.uint32],
    bm25_out: Weights,
    learned_out: Weights,
) -> None:
    """Put the postings of documents first, first + 1, … at the cursors of their lists."""
    place = 0
    for i in range(len(sizes)):
        for _ in range(sizes[i]):
            at = cursor[terms[place]]
            docs[at] = first + i
            bm25_out[at], learned_out[at] = weights_b[place], weights_l[place]
            cursor[terms[place]] = at + 1
            place += 1


def bisection(source: Source, support: str, vocabulary: int) -> npt.NDArray[np.int64]:
    """Old document numbers in an order that puts documents with the same terms together.

    Memory: four bytes for each posting.
    """
    sizes, terms = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for documents in source.chunks():
        kept = supported(documents, support)
        sizes.append(kept.sizes)
        terms.append(kept.terms.astype(np.int32))
    doc_begin = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    return reorder.bisection(np.concatenate(terms), doc_begin, vocabulary)


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
    checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    text = json.dumps({**meta, "sha256": checksums}, indent=1, sort_keys=True)
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
    for name, expected in checksums.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != expected:
            raise EspalierError(f"{folder / name}: missing, truncated or altered; {remedy}")

    def array(name: str) -> Weights:
        # Plain array views: one compiled kernel serves mapped and in-memory indexes.
        return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))

    return Index(
        Postings(*(array(name) for name in Postings._fields)),
        {
            name: Partition(*(array(f"{name}_{part}") for part in Partition._fields))
            for name in PARTITIONS
        },
        Names.read(folder, "doc_ids"),
        {term: number for number, term in enumerate(Names.read(folder, "lexicon"))},
        meta,
        None if meta["delimiter"] is None else segments.read(folder),
    )
