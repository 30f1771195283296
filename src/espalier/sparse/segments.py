"""Documents that were weighed segment by segment: the index is of segments, a run of documents.

A segment's id is its document's doc_id, a delimiter and the segment's own name: `D1555982#4`. A
document scores what its best segment scores, as in Anserini's max-passage retrieval.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError
from espalier.sparse import vectors
from espalier.sparse.names import Names
from espalier.sparse.postings import ranked


class Segments(NamedTuple):
    """The documents of an index of S segments."""

    documents: Names
    """Their doc_ids, ascending, so that document numbers order them as their doc_ids do."""
    document: npt.NDArray[np.uint32]
    """[S]: the number of each segment's document."""


def document_of(segment_id: str, delimiter: str) -> str:
    """The doc_id in a segment's id: what stands before the last delimiter.

    EspalierError when none does.
    """
    doc_id = segment_id.rpartition(delimiter)[0]
    if not doc_id:
        raise EspalierError(
            f"segment '{segment_id}': no doc_id before '{delimiter}'; correct that id, or the "
            "weighting's 'segments.delimiter'"
        )
    return doc_id


def texts_of(
    path: Path, delimiter: str, doc_ids: Sequence[str]
) -> tuple[list[str], list[str], list[int]]:
    """Segments' ids and texts, in the order of `doc_ids`, then of the file; how many each has.

    A document may have none. EspalierError for a segment that occurs twice, and when no document
    has any.
    """
    found: dict[str, dict[str, str]] = {doc_id: {} for doc_id in doc_ids}
    for segment_id, text in vectors.read_texts(path):
        own = found.get(document_of(segment_id, delimiter))
        if own is None:
            continue
        if segment_id in own:
            raise EspalierError(f"{path}: segment '{segment_id}' occurs twice; keep one")
        own[segment_id] = text
    counts = [len(own) for own in found.values()]
    if doc_ids and not any(counts):
        raise EspalierError(
            f"{path}: has no segments of this slice's documents (such as '{doc_ids[0]}'); name "
            "the texts of this collection's segments in 'segments.texts'"
        )
    ids = [segment_id for own in found.values() for segment_id in own]
    return ids, [text for own in found.values() for text in own.values()], counts


def grouped(segment_ids: Iterable[str], delimiter: str) -> Segments:
    """The documents of an index's segments, which are given in the order of their numbers."""
    numbers: dict[str, int] = {}
    seen = [numbers.setdefault(document_of(s, delimiter), len(numbers)) for s in segment_ids]
    ascending = sorted(numbers)
    place = np.empty(len(numbers), np.uint32)
    place[[numbers[doc_id] for doc_id in ascending]] = np.arange(len(numbers), dtype=np.uint32)
    return Segments(Names.of(ascending), place[seen] if seen else np.zeros(0, np.uint32))


def write(folder: Path, segments: Segments) -> None:
    """Write the arrays into an index's folder."""
    segments.documents.write(folder, "documents")
    np.save(folder / "document.npy", segments.document)


def read(folder: Path) -> Segments:
    """Open what `write` wrote, memory-mapped."""
    document = np.load(folder / "document.npy", mmap_mode="r")
    return Segments(Names.read(folder, "documents"), np.asarray(document))


def best(
    segments: Segments, found: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The k best documents of ranked segments: document numbers int64[≤k], scores float64[≤k].

    A document's score is its best segment's. Ordered by score (descending), then doc_id
    (ascending).
    """
    # Segments descend by score, so that the first of a document is its best.
    documents, first = np.unique(segments.document[found].astype(np.int64), return_index=True)
    documents, scores = ranked(documents, scores[first])
    return documents[:k], scores[:k]
