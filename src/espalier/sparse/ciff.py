"""The Common Index File Format: inverted indexes exchanged between search engines.

Lin et al., "Supporting Interoperability Between Open-Source Search Engines with the Common Index
File Format" (arXiv 2003.08276); schema: github.com/osirrc/ciff. A file is one Header, then
PostingsLists, then DocRecords in the order of their docids; every message is preceded by its
length as a varint. Docids in a list are gaps, the first one is absolute.

A posting is a message of its own there, so lists are decoded and encoded by kernels that touch
nothing but bytes and arrays; protobuf sees only the other fields.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError

from espalier.errors import EspalierError
from espalier.files import written_whole

VERSION = 1
PACKAGE = "io.osirrc.ciff"
SCHEMA = {
    "Header": [
        "version int32",
        "num_postings_lists int32",
        "num_docs int32",
        "total_postings_lists int32",
        "total_docs int32",
        "total_terms_in_collection int64",
        "average_doclength double",
        "description string",
    ],
    "Posting": ["docid int32", "tf int32"],
    "PostingsList": ["term string", "df int64", "cf int64", "postings Posting"],
    "DocRecord": ["docid int32", "collection_docid string", "doclength int32"],
}
"""Messages and their fields, numbered from 1; a field of a message type is repeated."""

INT32_MAX = 2**31 - 1
"""The largest docid, weight, length and count that the schema has room for."""

POSTINGS, DOCID, TF = 0x22, 0x08, 0x10
"""Keys (field number · 8 + wire type) of a list's postings and of a posting's fields."""

POSTING_BYTES = 14
"""A posting's most bytes: its key and length, and two keys with varints of at most 5 bytes."""

SOUND, MALFORMED, UNORDERED, UNKNOWN_DOC, BAD_WEIGHT = range(5)
FAULTS = {
    UNORDERED: "is out of order; docids must ascend from 0",
    UNKNOWN_DOC: "has a docid that no document has; docids must be below num_docs",
    BAD_WEIGHT: f"has a tf outside 0 … {INT32_MAX}; tf must be an int32 and not negative",
}


class Lists(NamedTuple):
    """An inverted index of V terms, P postings and D documents."""

    terms: list[str]
    """[V]"""
    term_begin: npt.NDArray[np.int64]
    """[V+1]: where a term's postings begin."""
    docs: npt.NDArray[np.uint32]
    """[P]: document numbers, ascending within a term."""
    weights: npt.NDArray[np.uint32]
    """[P]: term frequencies, or quantised impacts."""
    doc_ids: list[str]
    """[D]"""
    doc_lengths: npt.NDArray[np.int64]
    """[D]: lengths in terms."""
    description: str


def message_classes() -> dict[str, Any]:
    """The schema's message classes by name."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="CommonIndexFileFormat.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(map(str.split, fields), 1):
            added = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if kind in SCHEMA:
                added.label = kinds.LABEL_REPEATED
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                added.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in SCHEMA
    }


MESSAGES = message_classes()
Header = MESSAGES["Header"]
PostingsList = MESSAGES["PostingsList"]
DocRecord = MESSAGES["DocRecord"]


def read(path: Path) -> Lists:
    """Read a file, plain or gzip (.gz).

    Memory, at most: 10 bytes a posting, the names and lengths as Python objects, and 6 times the
    bytes of the largest message. Terms and postings stay as they stand in the file.

    Raises EspalierError for a file that cannot be read, is truncated, damaged or not CIFF, for
    postings out of order or of unknown documents, negative numbers, a df that is not the number
    of postings, records out of order, and terms or doc_ids that occur twice.
    """
    try:
        with opened(path, "rb") as stream:
            return parsed(stream, path)
    except EOFError as error:
        raise EspalierError(f"{path}: truncated, or not CIFF; get a whole copy") from error
    except (DecodeError, zlib.error, gzip.BadGzipFile) as error:
        why = " ".join(str(error).split())
        raise EspalierError(f"{path}: damaged, or not CIFF ({why}); get a whole copy") from error
    except OSError as error:
        raise EspalierError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def write(path: Path, lists: Lists) -> None:
    """Write a file, plain or gzip (.gz), whole or not at all.

    Terms are written in the order of their UTF-8 bytes, as PISA expects. Postings that weigh 0
    and lists without others are left out, as PISA rejects them. Memory beside the lists: the
    names once more, and at most 42 bytes for every posting of the longest list.

    Raises EspalierError for terms or doc_ids that occur twice or are no Unicode text, postings
    out of order or of unknown documents, weights or lengths that are no int32, and more documents
    or longer lists than the format has room for.
    """
    if len(lists.doc_ids) > INT32_MAX:
        raise EspalierError(
            f"{path}: {len(lists.doc_ids)} documents, but CIFF has room for {INT32_MAX}; export "
            "parts of the collection"
        )
    check_distinct(path, "term", lists.terms)
    check_distinct(path, "doc_id", lists.doc_ids)
    if ((lists.doc_lengths < 0) | (lists.doc_lengths > INT32_MAX)).any():
        raise EspalierError(f"{path}: doc_lengths must be 0 … {INT32_MAX}; correct the lengths")
    try:
        with written_whole(path) as temporary, opened(temporary, "wb") as stream:
            for message in encoded(path, lists):
                stream.write(varint_bytes(len(message)))
                stream.write(message)
    except UnicodeEncodeError as error:
        raise EspalierError(
            f"{path}: {error.object!r} is no Unicode text; correct that term, doc_id or description"
        ) from error


@contextmanager
def opened(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """A file's bytes, uncompressed. What is compressed depends on the content alone."""
    with path.open(mode) as raw:
        if path.name.endswith(".gz"):
            with gzip.GzipFile("", mode, 6, raw, mtime=0) as stream:
                yield stream  # type: ignore[misc]  # typeshed has no common type
        else:
            yield raw


def parsed(stream: IO[bytes], path: Path) -> Lists:
    """The lists of an open file; EOFError where it ends too early."""
    header = Header.FromString(next_message(stream))
    if header.version != VERSION or min(header.num_postings_lists, header.num_docs) < 0:
        raise EspalierError(f"{path}: not CIFF of version {VERSION}; export it as that")
    terms, begin, docs, weights = parsed_postings(stream, path, header)
    doc_ids: list[str] = []
    lengths: list[int] = []
    for docid in range(header.num_docs):
        record = DocRecord.FromString(next_message(stream))
        if record.docid != docid or record.doclength < 0:
            raise EspalierError(
                f"{path}: DocRecord {docid} has docid {record.docid} and doclength "
                f"{record.doclength}; docids must count from 0, lengths must not be negative"
            )
        doc_ids.append(record.collection_docid)
        lengths.append(record.doclength)
    if stream.read(1):
        raise EspalierError(f"{path}: goes on after the last DocRecord; get a whole copy")
    check_distinct(path, "term", terms)
    check_distinct(path, "doc_id", doc_ids)
    lengths_array = np.array(lengths, dtype=np.int64)
    return Lists(terms, begin, docs, weights, doc_ids, lengths_array, header.description)


def parsed_postings(
    stream: IO[bytes], path: Path, header: Any
) -> tuple[
    list[str], npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]
]:  # fmt: skip
    """All PostingsLists: terms, term_begin, docs, weights as in `Lists`."""
    terms: list[str] = []
    begin = [0]
    docs, weights = np.empty(0, np.uint32), np.empty(0, np.uint32)
    for _ in range(header.num_postings_lists):
        data = np.frombuffer(next_message(stream), np.uint8)
        # The emptiest posting has 2 bytes: key and length. Large arrays grow in place.
        most = begin[-1] + len(data) // 2
        if most > len(docs):
            for array in (docs, weights):
                array.resize(max(most, len(array) * 5 // 4), refcheck=False)
        rest = np.empty(len(data), np.uint8)
        end, size, fault, place = decode(data, docs, weights, begin[-1], rest, header.num_docs)
        if fault == MALFORMED:
            raise DecodeError(f"postings of list {len(terms)}")
        message = PostingsList.FromString(rest[:size].tobytes())
        check_posting(path, message.term, fault, place)
        if message.df != end - begin[-1]:
            raise EspalierError(
                f"{path}: term {message.term!r} has df {message.df} but {end - begin[-1]} "
                "postings; export it again"
            )
        terms.append(message.term)
        begin.append(end)
    for array in (docs, weights):
        array.resize(begin[-1], refcheck=False)
    return terms, np.array(begin, dtype=np.int64), docs, weights


def encoded(path: Path, lists: Lists) -> Iterator[bytes]:
    """A file's messages in order."""
    begin = lists.term_begin.tolist()
    # Code points order strings as their UTF-8 bytes do.
    order = sorted(range(len(lists.terms)), key=lists.terms.__getitem__)
    kept = [t for t in order if lists.weights[begin[t] : begin[t + 1]].any()]
    documents, total = len(lists.doc_ids), int(lists.doc_lengths.sum())
    yield Header(
        version=VERSION,
        num_postings_lists=len(kept),
        num_docs=documents,
        total_postings_lists=len(kept),
        total_docs=documents,
        total_terms_in_collection=total,
        average_doclength=total / documents if documents else 0.0,
        description=lists.description,
    ).SerializeToString()

    longest = int(np.diff(lists.term_begin).max(initial=0))
    buffer = np.empty(longest * POSTING_BYTES, np.uint8)
    for t in kept:
        span = slice(begin[t], begin[t + 1])
        size, df, cf, fault, place = encode(
            lists.docs[span], lists.weights[span], buffer, documents
        )
        check_posting(path, lists.terms[t], fault, place)
        message = PostingsList(term=lists.terms[t], df=df, cf=cf)
        # Messages are merged by concatenating their bytes; postings have the last field number.
        content = message.SerializeToString() + buffer[:size].tobytes()
        if len(content) > INT32_MAX:
            raise EspalierError(
                f"{path}: term {lists.terms[t]!r}: its list takes {len(content)} bytes, but a "
                f"message has room for {INT32_MAX}; export parts of the collection"
            )
        yield content

    lengths = lists.doc_lengths.tolist()
    for docid, (doc_id, length) in enumerate(zip(lists.doc_ids, lengths, strict=True)):
        record = DocRecord(docid=docid, collection_docid=doc_id, doclength=length)
        yield record.SerializeToString()


def next_message(stream: IO[bytes]) -> bytes:
    """The bytes of the next message; EOFError if the stream ends within them."""
    length = shift = 0
    more = True
    while more:
        byte = stream.read(1)
        if not byte:
            raise EOFError
        length |= (byte[0] & 0x7F) << shift
        shift += 7
        more = byte[0] > 0x7F
        if length > INT32_MAX or shift > 35:
            raise DecodeError("a message of more than 2 GiB")
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def varint_bytes(value: int) -> bytes:
    """A number in groups of 7 bits, the lowest first, the top bit set on all but the last."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def check_posting(path: Path, term: str, fault: int, place: int) -> None:
    """EspalierError for a faulty posting, the one at `place` in the term's list."""
    if fault != SOUND:
        raise EspalierError(f"{path}: term {term!r}: posting {place} {FAULTS[fault]}")


def check_distinct(path: Path, field: str, names: Sequence[str]) -> None:
    """EspalierError if a name occurs twice."""
    if len(set(names)) < len(names):
        repeated = next(name for name, times in Counter(names).items() if times > 1)
        raise EspalierError(
            f"{path}: {field} {repeated!r} occurs twice; every {field} must be distinct"
        )


@numba.njit(cache=True)
def fault_of(doc: int, last: int, weight: int, num_docs: int) -> int:
    """What is wrong with a posting that follows one of document `last`."""
    if doc <= last:
        return UNORDERED
    if doc >= num_docs:
        return UNKNOWN_DOC
    if weight < 0 or weight > INT32_MAX:
        return BAD_WEIGHT
    return SOUND


@numba.njit(cache=True, inline="always")
def get_varint(data: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The number at `at` (64 bits, two's complement) and where it ends; −1 if not before `end`."""
    value, shift = 0, 0
    while at < end and shift < 70:
        byte: Any = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        at = -1
    return value, at


@numba.njit(cache=True, inline="always")
def get_int32(data: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """As get_varint, but the low 32 bits alone, as protobuf reads what is declared as int32."""
    value, at = get_varint(data, at, end)
    low: Any = np.int64(np.int32(value & 0xFFFFFFFF))
    return low, at


@numba.njit(cache=True)
def after(data: npt.NDArray[np.uint8], at: int, end: int, key: int) -> int:
    """Where the field whose key ends at `at` ends; −1 if not before `end`, or of no known type."""
    if not 8 <= key <= 0xFFFFFFFF:  # field numbers start at 1 and have 29 bits
        return -1
    wire = key & 7
    length = 0
    if wire == 0:
        _, at = get_varint(data, at, end)
    elif wire == 1:
        length = 8
    elif wire == 2:
        length, at = get_varint(data, at, end)
    elif wire == 5:
        length = 4
    else:
        return -1
    return -1 if at < 0 or length < 0 or length > end - at else at + length


@numba.njit(cache=True)
def get_posting(data: npt.NDArray[np.uint8], at: int, end: int) -> tuple[int, int, bool]:
    """Gap and tf of the posting in data[at:end], and whether it is well formed."""
    gap, tf = 0, 0
    while at < end:
        key, at = get_varint(data, at, end)
        if at < 0:
            return 0, 0, False
        if key == DOCID:
            gap, at = get_int32(data, at, end)
        elif key == TF:
            tf, at = get_int32(data, at, end)
        else:
            at = after(data, at, end, key)
        if at < 0:
            return 0, 0, False
    return gap, tf, True


@numba.njit(cache=True)
def decode(
    data: npt.NDArray[np.uint8],
    docs: npt.NDArray[np.uint32],
    weights: npt.NDArray[np.uint32],
    begin: int,
    rest: npt.NDArray[np.uint8],
    num_docs: int,
) -> tuple[int, int, int, int]:
    """Put a PostingsList's postings into docs and weights from `begin` on, other fields into rest.

    Returns the ends in docs and in rest, and the first fault with its posting's place in the list.
    """
    at, size, count, last = 0, 0, begin, -1
    fault, place = SOUND, 0
    while at < len(data):
        key, start = get_varint(data, at, len(data))
        end = after(data, start, len(data), key) if start >= 0 else -1
        if end < 0:
            return count, size, MALFORMED, count - begin
        if key == POSTINGS:
            _, start = get_varint(data, start, len(data))
            gap, tf, sound = get_posting(data, start, end)
            if not sound:
                return count, size, MALFORMED, count - begin
            doc = max(last, 0) + gap
            if fault == SOUND:
                fault, place = fault_of(doc, last, tf, num_docs), count - begin
            docs[count], weights[count] = doc, tf
            last = doc
            count += 1
        else:
            rest[size : size + end - at] = data[at:end]
            size += end - at
        at = end
    return count, size, fault, place


@numba.njit(cache=True)
def put_varint(out: npt.NDArray[np.uint8], at: int, value: int) -> int:
    """Write a number that is not negative; where it ends."""
    while value > 0x7F:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@numba.njit(cache=True)
def encode(
    docs: npt.NDArray[np.uint32],
    weights: npt.NDArray[np.uint32],
    out: npt.NDArray[np.uint8],
    num_docs: int,
) -> tuple[int, int, int, int, int]:
    """Write the postings that weigh something as a PostingsList's field.

    Returns the bytes written, df, cf, and the first fault with its place; after one, stops.
    """
    at, df, cf, last, base = 0, 0, 0, -1, 0
    for place in range(len(docs)):
        doc: Any = np.int64(docs[place])
        weight: Any = np.int64(weights[place])
        fault = fault_of(doc, last, weight, num_docs)
        if fault != SOUND:
            return at, df, cf, fault, place
        last = doc
        if weight > 0:
            out[at] = POSTINGS
            # The length takes one byte; it is known once the posting is written. As in every
            # proto3 message, a field that is 0 (a first docid) is left out.
            end = at + 2
            if doc > base:
                out[end] = DOCID
                end = put_varint(out, end + 1, doc - base)
            out[end] = TF
            end = put_varint(out, end + 1, weight)
            out[at + 1] = end - at - 2
            at, base = end, doc
            df += 1
            cf += weight
    return at, df, cf, SOUND, 0
