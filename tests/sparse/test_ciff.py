import gzip
import io
import os
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.errors import EspalierError
from espalier.sparse import ciff
from espalier.sparse.ciff import DocRecord, Header, Lists, PostingsList

# 'ab' in document 0 (1) and 2 (300), 'é' in document 1 (2); lengths 1, 2 and 300, mean 101.
TINY = bytes.fromhex(
    "19 0801 1002 1803 2002 2803 30AF02 39 0000000000405940 420178"
    "14 0A026162 1002 18AD02 2202 1001 2205 0802 10AC02"
    "0E 0A02C3A9 1001 1802 2204 0801 1002"
    "06 12026430 1801"
    "08 0801 12026431 1802"
    "09 0802 12026432 18AC02"
)


def lists(postings, doc_ids, lengths, description="x"):
    """Lists from {term: {doc: weight}}, in the given order."""
    begin = np.cumsum([0, *map(len, postings.values())])
    docs = [d for posting in postings.values() for d in posting]
    weights = [w for posting in postings.values() for w in posting.values()]
    return Lists(
        list(postings), begin.astype(np.int64), np.array(docs, np.uint32),
        np.array(weights, np.uint32), doc_ids, np.array(lengths, np.int64), description,
    )  # fmt: skip


def contents(read):
    """The postings of Lists as {term: {doc: weight}}."""
    spans = zip(read.term_begin[:-1], read.term_begin[1:], strict=True)
    return {
        term: dict(zip(read.docs[a:b].tolist(), read.weights[a:b].tolist(), strict=True))
        for term, (a, b) in zip(read.terms, spans, strict=True)
    }


def by_protobuf(data):
    """Header, {term: {doc: weight}}, [(doc_id, length)] and each list's df and cf, by protobuf."""
    stream = io.BytesIO(data)
    header = parse_length_prefixed(Header, stream)
    postings, sums = {}, []
    for _ in range(header.num_postings_lists):
        message = parse_length_prefixed(PostingsList, stream)
        docs = accumulate(p.docid for p in message.postings)
        postings[message.term] = dict(zip(docs, (p.tf for p in message.postings), strict=True))
        sums.append((message.df, message.cf))
    records = [parse_length_prefixed(DocRecord, stream) for _ in range(header.num_docs)]
    assert stream.read() == b""
    return header, postings, [(r.collection_docid, r.doclength) for r in records], sums


def test_a_tiny_file_has_the_bytes_worked_out_by_hand(tmp_path):
    path = tmp_path / "tiny.ciff"
    given_out_of_order = {"é": {1: 2}, "none": {}, "zero": {0: 0}, "ab": {0: 1, 1: 0, 2: 300}}
    ciff.write(path, lists(given_out_of_order, ["d0", "d1", "d2"], [1, 2, 300]))
    assert path.read_bytes() == TINY
    assert list(tmp_path.iterdir()) == [path]

    read = ciff.read(path)
    assert contents(read) == {"ab": {0: 1, 2: 300}, "é": {1: 2}}
    assert read.term_begin.tolist() == [0, 2, 3]
    assert (read.doc_ids, read.doc_lengths.tolist()) == (["d0", "d1", "d2"], [1, 2, 300])
    assert read.description == "x"
    kinds = [a.dtype for a in (read.term_begin, read.docs, read.weights, read.doc_lengths)]
    assert kinds == [np.int64, np.uint32, np.uint32, np.int64]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ciff")


words = st.text(st.characters(codec="utf-8"), max_size=4)


@st.composite
def indexes(draw):
    # More than 128 documents give gaps of more than one byte.
    documents = draw(st.sampled_from([0, 1, 5, 300, 20_000]))
    places = st.integers(0, documents - 1) if documents else st.nothing()
    weight = st.sampled_from([0, 1, 127, 128, 2**31 - 1]) | st.integers(0, 2**31 - 1)
    most = 6 if documents else 0
    posting = st.dictionaries(places, weight, max_size=most).map(lambda p: dict(sorted(p.items())))
    postings = draw(st.dictionaries(words, posting, max_size=5))
    lengths = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 2**31, documents)
    return lists(postings, [f"d{i}" for i in range(documents)], lengths, draw(words))


@settings(deadline=None, max_examples=60)
@given(indexes(), st.sampled_from(["i.ciff", "i.ciff.gz"]))
def test_what_is_written_is_read_back_and_is_what_protobuf_reads(folder, index, name):
    path = folder / name
    ciff.write(path, index)
    expected = {
        term: {d: w for d, w in posting.items() if w} for term, posting in contents(index).items()
    }
    expected = {term: expected[term] for term in sorted(expected, key=str.encode) if expected[term]}
    records = list(zip(index.doc_ids, index.doc_lengths.tolist(), strict=True))

    read = ciff.read(path)
    assert list(contents(read).items()) == list(expected.items())
    assert list(zip(read.doc_ids, read.doc_lengths.tolist(), strict=True)) == records
    assert read.description == index.description

    data = path.read_bytes()
    assert (data[:2] == b"\x1f\x8b") == name.endswith(".gz")
    header, *parsed = by_protobuf(gzip.decompress(data) if name.endswith(".gz") else data)
    sums = [(len(p), sum(p.values())) for p in expected.values()]
    assert parsed == [expected, records, sums]
    total = sum(length for _, length in records)
    assert header == Header(
        version=1, num_postings_lists=len(expected), total_postings_lists=len(expected),
        num_docs=len(records), total_docs=len(records), total_terms_in_collection=total,
        average_doclength=total / len(records) if records else 0, description=index.description,
    )  # fmt: skip


def varint(value, padding=0):
    """A varint, maybe longer than it has to be."""
    groups = []
    while value > 127 or padding > len(groups):
        groups.append(value % 128 + 128)
        value //= 128
    return bytes([*groups, value])


unknown = st.sampled_from(
    [b"\x3d1234", b"\x3912345678", b"\x4a\x02\x22\x08", b"\xc0\x3e\x96\x01", b"\x0d1234"]
)
number = st.builds(varint, st.integers(0, 300), st.integers(0, 4))


@st.composite
def unusual_postings(draw):
    """A posting's bytes: fields in any order, repeated, missing, unknown ones between them."""
    gap = st.builds(lambda n: b"\x08" + n, st.builds(varint, st.integers(1, 300)))
    tf = st.builds(lambda n: b"\x10" + n, number)
    body = draw(gap) + b"".join(draw(st.lists(gap | tf | unknown, max_size=4)))
    return b"\x22" + varint(len(body), draw(st.integers(0, 2))) + body


@settings(deadline=None, max_examples=150)
@given(st.lists(unusual_postings(), max_size=5), st.data())
def test_lists_of_other_writers_are_read_as_protobuf_reads_them(folder, postings, data):
    others = [b"\x0a\x02hi", b"\x10" + varint(len(postings)), b"\x18\x07"]
    # The order of the postings among each other is the one that tells.
    places = data.draw(st.permutations([0] * len(postings) + [1] * 3))
    sources = [iter(postings), iter(data.draw(st.permutations(others)))]
    extra = st.lists(unknown.filter(lambda f: f[0] != 0x0D), max_size=1).map(b"".join)
    content = b"".join(next(sources[p]) + data.draw(extra) for p in places)
    documents = [DocRecord(docid=i, collection_docid=str(i)) for i in range(1600)]
    path = folder / "other.ciff"
    with path.open("wb") as stream:
        header = Header(version=1, num_postings_lists=1, num_docs=len(documents))
        serialize_length_prefixed(header, stream)
        stream.write(varint(len(content)) + content)
        for record in documents:
            serialize_length_prefixed(record, stream)
    expected = by_protobuf(path.read_bytes())[1]
    assert len(expected["hi"]) == len(postings)
    assert contents(ciff.read(path)) == expected


@settings(deadline=None, max_examples=500)
@given(st.integers(0, len(TINY) - 1), st.integers(0, 255))
def test_a_changed_byte_is_a_clear_error_or_what_protobuf_reads(folder, place, value):
    path = folder / "changed.ciff"
    path.write_bytes(TINY[:place] + bytes([value]) + TINY[place + 1 :])
    try:
        read = ciff.read(path)
    except EspalierError:
        return
    header, postings, records, _ = by_protobuf(path.read_bytes())
    assert contents(read) == postings
    assert list(zip(read.doc_ids, read.doc_lengths.tolist(), strict=True)) == records
    assert read.description == header.description


def test_long_lists_grow_the_arrays(tmp_path):
    rng = np.random.default_rng(5)
    documents, postings = 30_000, {}
    for term in range(20):
        docs = np.flatnonzero(rng.random(documents) < rng.random())
        postings[f"t{term:02}"] = dict(
            zip(docs.tolist(), rng.integers(1, 256, len(docs)).tolist(), strict=True)
        )
    index = lists(postings, [str(d) for d in range(documents)], np.ones(documents))
    ciff.write(tmp_path / "long.ciff", index)
    read = ciff.read(tmp_path / "long.ciff")
    assert read.docs.tolist() == index.docs.tolist()
    assert read.weights.tolist() == index.weights.tolist()
    assert read.term_begin.tolist() == index.term_begin.tolist()


def test_a_truncated_file_is_named(tmp_path):
    whole, packed = tmp_path / "cut.ciff", tmp_path / "cut.ciff.gz"
    for size in range(len(TINY)):
        whole.write_bytes(TINY[:size])
        with pytest.raises(EspalierError, match=r"cut\.ciff: truncated, or not CIFF"):
            ciff.read(whole)
    data = gzip.compress(TINY)
    for size in range(len(data)):
        packed.write_bytes(data[:size])
        with pytest.raises(EspalierError, match=r"cut\.ciff\.gz: (truncated|damaged), or not CIFF"):
            ciff.read(packed)
    packed.write_bytes(data)
    assert ciff.read(packed).terms == ["ab", "é"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.ciff", b"\x05hello, world", "damaged, or not CIFF"),
        ("a.ciff", b"\xff" * 40, "damaged, or not CIFF"),
        ("a.ciff", b"\x00", "not CIFF of version 1"),
        ("a.ciff.gz", TINY, "damaged, or not CIFF"),
        ("a.ciff.gz", gzip.compress(TINY)[:-8] + b"\0" * 8, "damaged, or not CIFF"),
        ("a.ciff", TINY + b"\0", "goes on after the last DocRecord"),
        # A posting whose fields end after it does.
        ("a.ciff", TINY.replace(b"\x22\x04\x08", b"\x22\x03\x08"), "postings of list 1"),
    ],
)  # fmt: skip
def test_what_is_not_ciff_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(EspalierError, match=rf"{name}: .*{message}"):
        ciff.read(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EspalierError, match=r"none\.ciff: cannot be read \(No such file"):
        ciff.read(tmp_path / "none.ciff")


def store(path, postings, *, df=None, records=((0, "a", 5), (1, "b", 5), (2, "c", 5)), version=1):
    """A file with [(term, [(gap, tf)…])…], whatever it says."""
    with path.open("wb") as stream:
        header = Header(version=version, num_postings_lists=len(postings), num_docs=len(records))
        serialize_length_prefixed(header, stream)
        for term, pairs in postings:
            message = PostingsList(term=term, df=len(pairs) if df is None else df)
            for gap, tf in pairs:
                message.postings.add(docid=gap, tf=tf)
            serialize_length_prefixed(message, stream)
        for docid, doc_id, length in records:
            record = DocRecord(docid=docid, collection_docid=doc_id, doclength=length)
            serialize_length_prefixed(record, stream)


@pytest.mark.parametrize(
    ("postings", "options", "message"),
    [
        ([("t", [(1, 1), (0, 1)])], {}, "term 't': posting 1 is out of order"),
        ([("t", [(2, 1), (-1, 1)])], {}, "term 't': posting 1 is out of order"),
        ([("t", [(-1, 1)])], {}, "term 't': posting 0 is out of order"),
        ([("t", [(0, 1)]), ("u", [(0, 1), (1, 1), (2, 1)])], {}, "'u': posting 2 has a docid"),
        ([("t", [(3, 1)])], {}, "term 't': posting 0 has a docid that no document has"),
        ([("t", [(2**31 - 1, 1), (2**31 - 1, 1)])], {}, "posting 0 has a docid that no"),
        ([("t", [(0, 1), (1, -1)])], {}, "term 't': posting 1 has a tf outside 0 … 2147483647"),
        ([("t", [(0, 1)])], {"df": 2}, "term 't' has df 2 but 1 postings"),
        ([("t", [(0, 1)]), ("t", [(1, 1)])], {}, "term 't' occurs twice"),
        ([], {"records": [(0, "a", 1), (1, "a", 1)]}, "doc_id 'a' occurs twice"),
        ([], {"records": [(1, "a", 1), (0, "b", 1)]}, "DocRecord 0 has docid 1"),
        ([], {"records": [(0, "a", -1)]}, "DocRecord 0 has docid 0 and doclength -1"),
        ([], {"version": 2}, "not CIFF of version 1"),
    ],
)
def test_faulty_files_are_named(tmp_path, postings, options, message):
    store(tmp_path / "bad.ciff", postings, **options)
    with pytest.raises(EspalierError, match=rf"bad\.ciff: .*{message}") as raised:
        ciff.read(tmp_path / "bad.ciff")
    assert "\n" not in str(raised.value)


def test_zero_weights_and_empty_lists_are_read_as_they_stand(tmp_path):
    store(tmp_path / "good.ciff", [("t", [(0, 0), (2, 2**31 - 1)]), ("none", [])])
    read = ciff.read(tmp_path / "good.ciff")
    assert contents(read) == {"t": {0: 0, 2: 2**31 - 1}, "none": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terms": ["t", "t"]}, "term 't' occurs twice"),
        ({"doc_ids": ["a", "a"]}, "doc_id 'a' occurs twice"),
        ({"docs": np.array([1, 0, 0], np.uint32)}, "term 't': posting 1 is out of order"),
        ({"docs": np.array([0, 2, 0], np.uint32)}, "term 't': posting 1 has a docid"),
        ({"weights": np.array([1, 1, 2**31], np.uint32)}, "term 'u': posting 0 has a tf"),
        ({"doc_lengths": np.array([1, -1])}, "doc_lengths must be 0"),
        ({"doc_lengths": np.array([1, 2**31])}, "doc_lengths must be 0"),
        ({"terms": ["t", "\ud800"]}, "is no Unicode text"),
    ],
)
def test_faulty_lists_are_not_written(tmp_path, change, message):
    good = lists({"t": {0: 1, 1: 1}, "u": {0: 1}}, ["a", "b"], [2, 1])
    with pytest.raises(EspalierError, match=rf"bad\.ciff: .*{message}"):
        ciff.write(tmp_path / "bad.ciff", good._replace(**change))
    assert list(tmp_path.iterdir()) == []


def test_what_the_format_has_no_room_for_is_not_written(tmp_path, monkeypatch):
    index = lists({"t": {0: 1, 1: 1}, "long" * 9: {0: 1}}, ["a", "b"], [2, 1])
    longest = len("long" * 9) + 2 + 2 * 2 + 4  # term, df and cf, one posting of document 0
    monkeypatch.setattr(ciff, "INT32_MAX", longest)
    ciff.write(tmp_path / "good.ciff", index)
    monkeypatch.setattr(ciff, "INT32_MAX", longest - 1)
    with pytest.raises(EspalierError, match=r"'(long){9}': its list takes 46 bytes, but a message"):
        ciff.write(tmp_path / "bad.ciff", index)
    monkeypatch.setattr(ciff, "INT32_MAX", 1)
    with pytest.raises(EspalierError, match=r"bad\.ciff: 2 documents, but CIFF has room for 1"):
        ciff.write(tmp_path / "bad.ciff", index)
    assert [path.name for path in tmp_path.iterdir()] == ["good.ciff"]


def test_what_is_compressed_depends_on_the_content_alone(tmp_path):
    for name in ("a.ciff.gz", "b.ciff.gz"):
        ciff.write(tmp_path / name, lists({"t": {0: 1}}, ["a"], [1]))
    assert (tmp_path / "a.ciff.gz").read_bytes() == (tmp_path / "b.ciff.gz").read_bytes()


def test_anserinis_toy_file(tmp_path):
    path = Path(os.environ.get("ESPALIER_LSR_QUERIES", "")) / "toy-complete-20200309.ciff"
    if not path.exists():
        pytest.skip(f"{path.name} is absent; set ESPALIER_LSR_QUERIES to the folder that has it")
    read = ciff.read(path)
    assert read.terms == ["01", "03", "30", "content", "enough", "head", "simpl", "text", "veri"]
    assert contents(read)["text"] == {0: 1, 1: 1, 2: 3}
    assert contents(read)["enough"] == {2: 1}
    assert read.doc_ids == ["WSJ_1", "TREC_DOC_1", "DOC222"]
    assert read.doc_lengths.tolist() == [6, 4, 6]
    ciff.write(tmp_path / "again.ciff", read)
    assert (tmp_path / "again.ciff").read_bytes() == path.read_bytes()
