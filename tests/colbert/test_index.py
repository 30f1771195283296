import dataclasses
import shutil

import faiss
import numpy as np
import pytest

from espalier.colbert import index as ann
from espalier.colbert.quantizer import Plan
from espalier.colbert.retrieval import nearest
from espalier.errors import EspalierError
from tests.colbert.made import FREQUENCIES, built, shards_of, written


def test_a_tiny_collection_is_searched_exactly(tmp_path):
    opened, everything = shards_of(tmp_path, [3, 0, 2], 2)
    index, plan = built(tmp_path / "i", opened)
    assert plan.partitions == 0
    hits = nearest(index, everything[:2], 1000)
    assert hits.shape == (2, 5)
    similarity = everything[:2] @ everything.T
    np.testing.assert_array_equal(hits, np.argsort(-similarity, axis=1, kind="stable"))


def test_an_index_of_some_embeddings_keeps_their_numbers(tmp_path):
    opened, everything = shards_of(tmp_path, [3, 1, 4], 2)
    stays = np.array([True, False, True, False, False, True, False, True])
    kept = [stays[:4], stays[4:]]
    index, _ = built(tmp_path / "i", opened, kept)
    assert index.ntotal == 4
    hits = nearest(index, everything, 1000)
    among = np.flatnonzero(stays)
    similarity = everything @ everything[stays].T
    np.testing.assert_array_equal(hits, among[np.argsort(-similarity, axis=1, kind="stable")])


def test_partitions_hold_the_numbers_of_some_embeddings(tmp_path):
    opened, everything = shards_of(tmp_path, [10] * 2000, 600)
    stays = np.arange(20_000) % 2 == 1
    kept = np.split(stays, opened.first_document[1:-1] * 10)
    plan = written(tmp_path / "half", opened, kept, share=0.5)
    assert plan == Plan(256, 9_984)
    index, frequencies, share, on_disk = ann.read(tmp_path / "half", opened, nprobe=64)
    assert share == 0.5
    assert on_disk == (tmp_path / "half" / "index.faiss").stat().st_size
    assert frequencies.tolist() == FREQUENCIES.tolist()
    hits = nearest(index, everything[1::100], 10)
    assert (hits % 2 == 1).all()
    assert np.mean([1 + i * 100 in row for i, row in enumerate(hits)]) > 0.95
    # 4 bytes of codes and 8 of number for each of 10,000 fewer embeddings.
    written(tmp_path / "full", opened)
    full = (tmp_path / "full" / "index.faiss").stat().st_size
    assert full - on_disk == 10_000 * (4 + 8)


def test_index_of_partitions_is_the_same_bytes_twice_and_finds_neighbours(tmp_path):
    opened, everything = shards_of(tmp_path, [10] * 1000, 600)
    for name in ("a", "b"):
        plan = written(tmp_path / name, opened, sample=0.5)
    assert plan == Plan(256, 9_984)
    a, b = ((tmp_path / name / "index.faiss").read_bytes() for name in ("a", "b"))
    assert a == b
    usual = faiss.cvar.distance_compute_blas_threshold
    index, frequencies, *_ = ann.read(tmp_path / "a", opened, nprobe=64)
    assert isinstance(index, faiss.IndexIVFPQ)
    assert index.nprobe == 64
    assert frequencies.tolist() == FREQUENCIES.tolist()
    hits = nearest(index, everything[::50], 10)
    alone = np.concatenate([nearest(index, row[None], 10) for row in everything[::50]])
    np.testing.assert_array_equal(hits, alone)
    assert faiss.cvar.distance_compute_blas_threshold == usual
    assert np.mean([i * 50 in row for i, row in enumerate(hits)]) > 0.95


@pytest.mark.parametrize("documents", [50, 1000])
def test_by_inner_product_the_largest_is_nearest(tmp_path, documents):
    """Of vectors of several lengths, unlike the distance; exactly, and by partitions nearly."""
    opened, everything = shards_of(tmp_path, [12] * documents, documents, lengths=True)
    for metric, nearest_first in (
        ("ip", lambda query: -(everything @ query)),
        ("l2", lambda query: ((everything - query) ** 2).sum(axis=1)),
    ):
        index, plan = built(tmp_path / metric, opened, sample=0.9, metric=metric)
        assert plan.partitions == (256 if documents == 1000 else 0)
        if plan.partitions:
            index.nprobe = 256
        found = []
        for query in everything[:20]:
            (hits,) = nearest(index, query[None], 10)
            best = np.argsort(nearest_first(query), kind="stable")[:10]
            found.append(len(set(hits) & set(best)) / 10)
        assert np.mean(found) == 1 if documents == 50 else np.mean(found) > 0.7


@pytest.fixture
def made(tmp_path):
    """A folder with an index, and the store that it was built from."""
    opened, _ = shards_of(tmp_path / "one", [3, 2], 2)
    written(tmp_path / "index", opened)
    assert ann.read(tmp_path / "index", opened, nprobe=1).kept == 1
    return tmp_path / "index", opened


def test_an_index_of_other_embeddings_is_refused(made, tmp_path):
    folder, opened = made
    other, _ = shards_of(tmp_path / "two", [3, 3], 2)
    with pytest.raises(EspalierError, match="embeddings differs"):
        ann.read(folder, other, nprobe=1)
    with pytest.raises(EspalierError, match=r"other embeddings .*encoder differs"):
        ann.read(folder, dataclasses.replace(opened, encoder="another"), nprobe=1)
    narrow = [dataclasses.replace(s, embeddings=s.embeddings[:, :4]) for s in opened.shards]
    with pytest.raises(EspalierError, match=r"other embeddings .*dimensions differs"):
        ann.read(folder, dataclasses.replace(opened, shards=narrow), nprobe=1)


def test_files_of_two_indexes_do_not_mix(made, tmp_path):
    folder, opened = made
    other, _ = shards_of(tmp_path / "two", [3, 3], 2)
    written(tmp_path / "other", other, frequencies=FREQUENCIES[:, :8])
    shutil.copy(tmp_path / "other" / "frequency.npy", folder)
    with pytest.raises(EspalierError, match=r"do not belong together \(vocabulary differs\)"):
        ann.read(folder, opened, nprobe=1)
    shutil.copy(tmp_path / "other" / "index.faiss", folder)
    with pytest.raises(EspalierError, match=r"do not belong together \(indexed differs\)"):
        ann.read(folder, opened, nprobe=1)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("index.faiss", b"no"),
        ("index.faiss", b""),
        ("frequency.npy", b""),
        ("frequency.npy", b"no"),
        ("index.json", b"{"),
        ("index.json", b"{}"),
        ("index.json", b"[]"),
        ("index.json", b"\xff"),
    ],
)
def test_a_damaged_index_is_refused_in_one_line(made, file, content):
    folder, opened = made
    (folder / file).write_bytes(content)
    with pytest.raises(EspalierError, match="not an index") as caught:
        ann.read(folder, opened, nprobe=1)
    assert "\n" not in str(caught.value)
    (folder / file).unlink()
    with pytest.raises(EspalierError, match="not an index"):
        ann.read(folder, opened, nprobe=1)
