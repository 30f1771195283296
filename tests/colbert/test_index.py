import dataclasses
import shutil

import faiss
import numpy as np
import pytest

from espalier.colbert import index as ann
from espalier.colbert import store
from espalier.colbert.retrieval import nearest
from espalier.errors import EspalierError


def shards_of(tmp_path, counts, documents_a_shard, *, dimensions=8, lengths=False):
    """Shards of random unit vectors, or of several `lengths`; the embeddings, numbered through."""
    rng = np.random.default_rng(7)
    folders, everything = [], []
    for start in range(0, len(counts), documents_a_shard):
        own = counts[start : start + documents_a_shard]
        rows = [rng.normal(size=(n, dimensions)) for n in own]
        rows = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in rows]
        if lengths:
            rows = [r * rng.uniform(0.5, 2, (len(r), 1)) for r in rows]
        rows = [r.astype(np.float16) for r in rows]
        tokens = [np.zeros(n, dtype=np.int64) for n in own]
        doc_ids = [f"d{start + i}" for i in range(len(own))]
        folders.append(tmp_path / f"shard{start}")
        store.write(folders[-1], doc_ids, tokens, enumerate(rows), dimensions, "e")
        everything += rows
    return store.open_store(folders), np.concatenate(everything).astype(np.float32)


def whole(opened):
    """Every embedding of the shards."""
    return [np.ones(len(shard.embeddings), dtype=np.bool_) for shard in opened.shards]


def built_of(opened, kept=None, **changed):
    settings = {"sample": 0.05, "subquantizers": 4, "bits": 8, "metric": "l2", "seed": 1, **changed}
    return ann.build(opened.shards, kept or whole(opened), **settings)


FREQUENCIES = np.arange(18).reshape(2, 9)


@pytest.mark.parametrize(
    ("embeddings", "expected"),
    [
        (9_983, (0, 0)),  # 39 x 256 points train a sub-quantizer: one too few
        (9_984, (256, 9_984)),  # 8 sqrt(n) asks for 1,024: the sample feeds 256
        (730_000, (512, 36_500)),
        (700_000_000, (262_144, 35_000_000)),  # ColBERT's rule: 8 sqrt(n) = 211,660
    ],
)
def test_plan(embeddings, expected):
    assert ann.plan(embeddings, 0.05, 8) == ann.Plan(*expected)


def test_a_tiny_collection_is_searched_exactly(tmp_path):
    opened, everything = shards_of(tmp_path, [3, 0, 2], 2)
    built, plan = built_of(opened)
    assert plan.partitions == 0
    hits = nearest(built, everything[:2], 1000)
    assert hits.shape == (2, 5)
    similarity = everything[:2] @ everything.T
    np.testing.assert_array_equal(hits, np.argsort(-similarity, axis=1, kind="stable"))


def test_blocks_and_shards_number_embeddings_as_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "BLOCK", 2)
    opened, everything = shards_of(tmp_path, [3, 1, 4], 2)
    rows, numbers = map(np.concatenate, zip(*ann.blocks(opened.shards, whole(opened)), strict=True))
    np.testing.assert_array_equal(rows, everything)
    assert numbers.tolist() == list(range(8))
    sample = ann.sampled(opened.shards, whole(opened), 5, seed=3)
    places = [int(np.flatnonzero((everything == row).all(axis=1))[0]) for row in sample]
    assert places == sorted(set(places))
    np.testing.assert_array_equal(ann.sampled(opened.shards, whole(opened), 8, 3), everything)


def test_an_index_of_some_embeddings_keeps_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "BLOCK", 2)
    opened, everything = shards_of(tmp_path, [3, 1, 4], 2)
    stays = np.array([True, False, True, False, False, True, False, True])
    kept = [stays[:4], stays[4:]]
    built, _ = built_of(opened, kept)
    assert built.ntotal == 4
    hits = nearest(built, everything, 1000)
    among = np.flatnonzero(stays)
    similarity = everything @ everything[stays].T
    np.testing.assert_array_equal(hits, among[np.argsort(-similarity, axis=1, kind="stable")])
    sample = ann.sampled(opened.shards, kept, 4, seed=3)
    np.testing.assert_array_equal(sample, everything[stays])


def test_partitions_hold_the_numbers_of_some_embeddings(tmp_path):
    opened, everything = shards_of(tmp_path, [10] * 2000, 600)
    stays = np.arange(20_000) % 2 == 1
    kept = np.split(stays, opened.first_document[1:-1] * 10)
    built, plan = built_of(opened, kept)
    assert plan == ann.Plan(256, 9_984)
    size = ann.write(tmp_path / "half", built, FREQUENCIES, opened.shards, 0.5)
    index, frequencies, share, on_disk = ann.read(tmp_path / "half", opened, nprobe=64)
    assert share == 0.5
    assert on_disk == size == (tmp_path / "half" / "index.faiss").stat().st_size
    assert frequencies.tolist() == FREQUENCIES.tolist()
    hits = nearest(index, everything[1::100], 10)
    assert (hits % 2 == 1).all()
    assert np.mean([1 + i * 100 in row for i, row in enumerate(hits)]) > 0.95
    # 4 bytes of codes and 8 of number for each of 10,000 fewer embeddings.
    full = ann.write(tmp_path / "full", built_of(opened)[0], FREQUENCIES, opened.shards, 1.0)
    assert full - size == 10_000 * (4 + 8)


def test_an_index_of_nothing_is_refused(tmp_path):
    opened, _ = shards_of(tmp_path, [0, 0], 2)
    with pytest.raises(EspalierError, match="no document has a word to embed"):
        built_of(opened)


def test_index_of_partitions_is_the_same_bytes_twice_and_finds_neighbours(tmp_path):
    opened, everything = shards_of(tmp_path, [10] * 1000, 600)
    for name in ("a", "b"):
        built, plan = built_of(opened, sample=0.5)
        ann.write(tmp_path / name, built, FREQUENCIES, opened.shards, 1.0)
    assert plan == ann.Plan(256, 9_984)
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


def test_an_index_is_the_same_bytes_for_any_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "BLOCK", 6_000)  # of which the last piece is short
    opened, _ = shards_of(tmp_path, [12] * 1000, 600, dimensions=64)
    usual = faiss.omp_get_max_threads()
    built, used = [], []

    def noting(method):
        def noted(*arguments):
            used.append(faiss.omp_get_max_threads())
            return method(*arguments)

        return noted

    # Products are too small here to be rounded otherwise by two threads: so these are counted, too.
    for kind, method in ((faiss.IndexIVFPQ, "train"), (faiss.Index, "search")):
        monkeypatch.setattr(kind, method, noting(getattr(kind, method)))
    for threads in (1, 2, 3):
        with ann.threads(threads):
            index, plan = built_of(opened, sample=0.9, subquantizers=8)
        built.append(faiss.serialize_index(index).tobytes())
    assert plan.partitions == 256
    assert built[0] == built[1] == built[2]
    # Two blocks of 6,000, shards or not, each in 2 pieces.
    assert used == [1] * 3 * (1 + 2 + 2)
    assert faiss.omp_get_max_threads() == usual


@pytest.mark.parametrize("documents", [50, 1000])
def test_by_inner_product_the_largest_is_nearest(tmp_path, documents):
    """Of vectors of several lengths, unlike the distance; exactly, and by partitions nearly."""
    opened, everything = shards_of(tmp_path, [12] * documents, documents, lengths=True)
    for metric, nearest_first in (
        ("ip", lambda query: -(everything @ query)),
        ("l2", lambda query: ((everything - query) ** 2).sum(axis=1)),
    ):
        index, plan = built_of(opened, sample=0.9, metric=metric)
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
def written(tmp_path):
    """A folder with an index, and the store that it was built from."""
    opened, _ = shards_of(tmp_path / "one", [3, 2], 2)
    ann.write(tmp_path / "index", built_of(opened)[0], FREQUENCIES, opened.shards, 1.0)
    assert ann.read(tmp_path / "index", opened, nprobe=1).kept == 1
    return tmp_path / "index", opened


def test_an_index_of_other_embeddings_is_refused(written, tmp_path):
    folder, opened = written
    other, _ = shards_of(tmp_path / "two", [3, 3], 2)
    with pytest.raises(EspalierError, match="embeddings differs"):
        ann.read(folder, other, nprobe=1)
    with pytest.raises(EspalierError, match=r"other embeddings .*encoder differs"):
        ann.read(folder, dataclasses.replace(opened, encoder="another"), nprobe=1)
    narrow = [dataclasses.replace(s, embeddings=s.embeddings[:, :4]) for s in opened.shards]
    with pytest.raises(EspalierError, match=r"other embeddings .*dimensions differs"):
        ann.read(folder, dataclasses.replace(opened, shards=narrow), nprobe=1)


def test_files_of_two_indexes_do_not_mix(written, tmp_path):
    folder, opened = written
    other, _ = shards_of(tmp_path / "two", [3, 3], 2)
    ann.write(tmp_path / "other", built_of(other)[0], FREQUENCIES[:, :8], other.shards, 1.0)
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
def test_a_damaged_index_is_refused_in_one_line(written, file, content):
    folder, opened = written
    (folder / file).write_bytes(content)
    with pytest.raises(EspalierError, match="not an index") as caught:
        ann.read(folder, opened, nprobe=1)
    assert "\n" not in str(caught.value)
    (folder / file).unlink()
    with pytest.raises(EspalierError, match="not an index"):
        ann.read(folder, opened, nprobe=1)
