import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.errors import EspalierError
from espalier.sparse import vectors


def put(path, *lines):
    """A file of lines, gzip where its name says so."""
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def record(name, **weights):
    return json.dumps({"id": name, "contents": "…", "vector": weights})


@pytest.mark.parametrize("name", ["v.jsonl", "v.json", "v.jsonl.gz", "v.json.gz"])
def test_vectors_by_hand(tmp_path, name):
    lines = [record("a", red=2, fox=0.5, dog=0), "", record("empty"), record(7, dog=1e-60, red=3)]
    found = list(vectors.read(put(tmp_path / name, *lines)))
    # 1e-60 is 0 in float32.
    assert [(v.doc_id, v.terms, v.weights.tolist()) for v in found] == [
        ("a", ["red", "fox"], [2.0, 0.5]), ("empty", [], []), ("7", ["red"], [3.0]),
    ]  # fmt: skip
    assert {v.weights.dtype for v in found} == {np.dtype(np.float32)}


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    put(tmp_path / "docs01.json", record("c"))
    put(tmp_path / "docs00.jsonl.gz", record("a"), record("b"))
    put(tmp_path / "docs02.json.gz", record("d"))
    put(tmp_path / "docs03.jsonl", record("e"))
    put(tmp_path / "README.md", "no vectors")
    assert "".join(v.doc_id for v in vectors.read(tmp_path)) == "abcde"


def test_vectors_come_one_at_a_time(tmp_path):
    stream = vectors.read(put(tmp_path / "v.jsonl", record("a", red=1), "not yet read"))
    assert next(stream).doc_id == "a"
    with pytest.raises(EspalierError, match=r"v\.jsonl:2: no JSON"):
        next(stream)


names = st.text(min_size=1, max_size=5)
weight = st.integers(0, 2**70) | st.floats(0, 1e38)


@settings(deadline=None)
@given(st.lists(st.tuples(names, st.dictionaries(names, weight, max_size=5)), max_size=5))
def test_vectors_are_what_json_says(tmp_path_factory, documents):
    path = tmp_path_factory.getbasetemp() / "property.jsonl"
    put(path, *(json.dumps({"id": name, "vector": vector}) for name, vector in documents))
    found = list(vectors.read(path))
    assert [v.doc_id for v in found] == [name for name, _ in documents]
    for (_, vector), (_, terms, weights) in zip(documents, found, strict=True):
        expected = {t: np.float32(w) for t, w in vector.items() if np.float32(w) > 0}
        assert dict(zip(terms, weights, strict=True)) == expected


FAULTS = [
    ('{"id": "a", "vector": {', "no JSON"),
    ("[1]", "no JSON object"),
    ("[" * 100_000, "no JSON"),
    ('{"vector": {}}', "id is missing"),
    ('{"id": "", "vector": {}}', "id is missing"),
    ('{"id": true, "vector": {}}', "id is missing"),
    ('{"id": 1.5, "vector": {}}', "id is missing"),
    ('{"id": "a"}', "vector is missing"),
    ('{"id": "a", "vector": ["red"]}', "vector is missing"),
    *(
        (f'{{"id": "a", "vector": {{"dog": 1, "red": {bad}}}}}', "term 'red' weighs")
        for bad in ("-1", "-0.5", "NaN", "Infinity", "1e400", "9" * 400, '"1"', "true", "null")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), FAULTS)
@pytest.mark.parametrize("reader", [lambda p: list(vectors.read(p)), vectors.read_queries])
def test_faults_name_file_and_line(tmp_path, reader, line, message):
    path = put(tmp_path / "bad.jsonl", record("first", red=1), "", line)
    with pytest.raises(EspalierError, match=rf"bad\.jsonl:3: .*{message}") as raised:
        reader(path)
    assert "\n" not in str(raised.value)


def test_a_weight_beyond_float32_is_a_fault_of_documents_only(tmp_path):
    path = put(tmp_path / "large.jsonl", record("a", red=1e39))
    with pytest.raises(EspalierError, match=r"large\.jsonl:1: .*'red' weighs 1e\+39"):
        list(vectors.read(path))
    assert vectors.read_queries(path) == {"a": {"red": 1e39}}


def read_all(path):
    return list(vectors.read(path))


@pytest.mark.parametrize("name", ["bad.jsonl.gz", "bad.tsv.gz"])
@pytest.mark.parametrize("reader", [read_all, vectors.read_queries])
def test_damaged_files_are_named(tmp_path, reader, name):
    path = put(tmp_path / name, record("a", red=1))
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:-1], whole[:-8] + b"\0" * 8, b"plain"):
        path.write_bytes(damaged)
        with pytest.raises(EspalierError, match=r"bad\.(jsonl|tsv)\.gz(:1)?: "):
            reader(path)


def test_absent_and_undecodable_files_are_named(tmp_path):
    with pytest.raises(EspalierError, match=r"none\.jsonl: cannot be read"):
        read_all(tmp_path / "none.jsonl")
    with pytest.raises(EspalierError, match="no files of JSON lines"):
        read_all(tmp_path)
    (tmp_path / "latin.tsv").write_bytes(b"1\tred\n2\tcaf\xe9\n")
    with pytest.raises(EspalierError, match=r"latin\.tsv:2: no UTF-8"):
        vectors.read_queries(tmp_path / "latin.tsv")


@pytest.mark.parametrize("name", ["q.tsv", "q.tsv.gz"])
def test_a_repeated_term_weighs_its_count(tmp_path, name):
    path = put(tmp_path / name, "2\tred fox red ##s  red", "1\t", "", "x\tdog\r")
    found = vectors.read_queries(path)
    assert found == {"2": {"red": 3.0, "fox": 1.0, "##s": 1.0}, "1": {}, "x": {"dog": 1.0}}
    assert list(found) == ["2", "1", "x"]


@pytest.mark.parametrize("name", ["q.json", "q.jsonl.gz"])
def test_queries_as_json_lines(tmp_path, name):
    path = put(tmp_path / name, record(3, red=0.1, fox=0), record("none"))
    assert vectors.read_queries(path) == {"3": {"red": 0.1}, "none": {}}


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("q.tsv", ["1\tred", "2\tfox", "1\tdog"], r"q\.tsv:3: query_id '1' occurs twice"),
        ("q.jsonl", [record(1, red=1), record("1")], r"q\.jsonl:2: query_id '1' occurs twice"),
        ("q.tsv", ["1 red fox"], r"q\.tsv:1: not 'query_id<TAB>terms'"),
        ("q.tsv", ["1\tred", "\tfox"], r"q\.tsv:2: not 'query_id<TAB>terms'"),
    ],
)
def test_faulty_queries_are_named(tmp_path, name, lines, message):
    with pytest.raises(EspalierError, match=message):
        vectors.read_queries(put(tmp_path / name, *lines))


def expansion(name, *queries):
    return json.dumps({"id": name, "predicted_queries": queries})


def test_predicted_queries_are_joined(tmp_path):
    put(tmp_path / "1.jsonl", expansion("b"))
    put(tmp_path / "0.json.gz", expansion("a", "what is red", "who is red"))
    expected = [("a", "what is red who is red"), ("b", "")]
    assert list(vectors.read_expansions(tmp_path)) == expected
    assert list(vectors.read_expansions(tmp_path / "1.jsonl")) == expected[1:]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a"}', "predicted_queries must be"),
        ('{"id": "a", "predicted_queries": "red"}', "predicted_queries must be"),
        ('{"id": "a", "predicted_queries": ["red", 1]}', "predicted_queries must be"),
        ('{"predicted_queries": ["red"]}', "id is missing"),
        ("{", "no JSON"),
    ],
)
def test_faulty_expansions_are_named(tmp_path, line, message):
    path = put(tmp_path / "e.jsonl", expansion("first"), line)
    with pytest.raises(EspalierError, match=rf"e\.jsonl:2: {message}"):
        list(vectors.read_expansions(path))


@pytest.mark.parametrize(
    ("name", "queries", "query_id", "some"),
    [
        ("dl19-passage.unicoil.0shot", 43, None, {}),
        ("dl19-passage.splade_distil_cocodenser_medium", 43, "19335", {"of": 5, "under": 2}),
        ("dl20.unicoil.0shot", 200, None, {}),
        ("dl20.splade_distil_cocodenser_medium", 54, "23849", {"be": 7, "are": 9}),
        (
            "msmarco-passage.dev-subset.deepimpact", 6980, "1048585",
            {"paula": 1, "what": 1, "brother": 1, "s": 1, "deen": 1},
        ),
        ("msmarco-passage.dev-subset.unicoil", 6980, None, {}),
    ],
)  # fmt: skip
def test_published_queries(name, queries, query_id, some):
    path = Path(os.environ.get("ESPALIER_LSR_QUERIES", "")) / f"topics.{name}.tsv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is absent; set ESPALIER_LSR_QUERIES to the folder that has it")
    found = vectors.read_queries(path)
    assert len(found) == queries
    assert all(found.values())
    if query_id:
        assert some.items() <= found[query_id].items()
    # Every word of the file is counted once.
    words = len(gzip.decompress(path.read_bytes()).split())
    assert sum(sum(weights.values()) for weights in found.values()) + queries == words
