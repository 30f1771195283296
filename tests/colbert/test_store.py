import json

import numpy as np
import pytest

from espalier.colbert import store
from espalier.errors import EspalierError


def write(folder, lengths, name="d", encoder="e"):
    rng = np.random.default_rng(sum(lengths))
    rows = [rng.normal(size=(n, 4)).astype(np.float16) for n in lengths]
    tokens = [rng.integers(0, 9, n) for n in lengths]
    # As the encoder gives them: by length, and nothing for a document without tokens.
    order = [i for i in np.argsort(lengths, kind="stable") if lengths[i]]
    doc_ids = [f"{name}{i} x" for i in range(len(lengths))]
    store.write(folder, doc_ids, tokens, ((i, rows[i]) for i in order), 4, encoder)
    return rows, tokens


def test_what_is_written_is_read_with_empty_documents(tmp_path):
    rows, tokens = write(tmp_path / "s", [3, 0, 5, 0])
    shard = store.read(tmp_path / "s")
    for i, expected in enumerate(rows):
        a, b = shard.offsets[i : i + 2]
        np.testing.assert_array_equal(shard.embeddings[a:b], expected)
        np.testing.assert_array_equal(shard.tokens[a:b], tokens[i])
    assert shard.doc_ids == ["d0 x", "d1 x", "d2 x", "d3 x"]
    assert shard.offsets.dtype == np.int64
    assert shard.embeddings.dtype == np.float16


def test_shards_are_numbered_through(tmp_path):
    written = [write(tmp_path / str(i), lengths)[1] for i, lengths in enumerate([[2, 1], [0], [3]])]
    opened = store.open_store([tmp_path / str(i) for i in range(3)])
    assert opened.document_of.tolist() == [0, 0, 1, 3, 3, 3]
    assert opened.first_document.tolist() == [0, 2, 3, 4]
    everything = np.concatenate([t for tokens in written for t in tokens])
    frequency = store.frequency(opened.shards, 9)
    assert frequency.tolist() == [int((everything == t).sum()) for t in range(9)]
    by_document = [set(t.tolist()) for tokens in written for t in tokens]
    counted = [sum(t in terms for terms in by_document) for t in range(9)]
    assert store.document_frequency(opened.shards, 9).tolist() == counted


def test_a_shard_of_empty_documents_alone(tmp_path):
    write(tmp_path / "s", [0, 0])
    opened = store.open_store([tmp_path / "s"])
    assert len(opened.document_of) == 0
    assert len(opened.doc_ids) == 2


def test_shards_of_other_dimensions_are_refused(tmp_path):
    write(tmp_path / "a", [2])
    store.write(tmp_path / "b", ["x"], [np.zeros(0, dtype=np.int64)], [], 3, "e")
    with pytest.raises(EspalierError, match="b: made by another encoder"):
        store.open_store([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("offsets", [[0, 3, 2, 5], [1, 2, 3, 5], []])
def test_offsets_that_lead_nowhere_are_refused(tmp_path, offsets):
    write(tmp_path / "a", [2, 1, 2])
    np.save(tmp_path / "a" / "offsets.npy", np.array(offsets, dtype=np.int64))
    with pytest.raises(EspalierError, match="differ in length"):
        store.read(tmp_path / "a")


@pytest.mark.parametrize("file", ["shard.json", "embeddings.npy", "tokens.npy", "offsets.npy"])
@pytest.mark.parametrize("content", [b"", b"[]", b"{}", None])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, file, content):
    write(tmp_path / "a", [2, 1])
    path = tmp_path / "a" / file
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(EspalierError, match="not a shard") as caught:
        store.read(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_parts_that_do_not_fit_are_refused(tmp_path):
    write(tmp_path / "a", [2])
    write(tmp_path / "b", [2], encoder="another")
    with pytest.raises(EspalierError, match="another encoder"):
        store.open_store([tmp_path / "a", tmp_path / "b"])
    (tmp_path / "a" / "doc_ids.txt").write_text("one\ntwo\n")
    with pytest.raises(EspalierError, match="differ in length"):
        store.read(tmp_path / "a")
    described = json.loads((tmp_path / "b" / "shard.json").read_text())
    (tmp_path / "b" / "shard.json").write_text(json.dumps({**described, "embeddings": 3}))
    with pytest.raises(EspalierError, match="differ in length"):
        store.read(tmp_path / "b")
    (tmp_path / "b" / "embeddings.npy").write_bytes(b"")
    with pytest.raises(EspalierError, match="not a shard"):
        store.read(tmp_path / "b")


@pytest.mark.parametrize("file", ["embeddings.npy", "tokens.npy", "offsets.npy", "doc_ids.txt"])
def test_a_bit_turned_over_is_found(tmp_path, file):
    for name in ("a", "b"):
        write(tmp_path / name, [3, 0, 5])
    store.verify([tmp_path / "a", tmp_path / "b"])
    path = tmp_path / "b" / file
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(EspalierError, match=f"b/{file}: damaged; delete .*b and run again"):
        store.verify([tmp_path / "a", tmp_path / "b"])


def test_a_file_without_a_checksum_is_refused(tmp_path):
    write(tmp_path / "a", [3])
    (tmp_path / "a" / "other.npy").touch()
    with pytest.raises(EspalierError, match="differ"):
        store.read(tmp_path / "a")
