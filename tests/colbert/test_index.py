import faiss
import numpy as np
import pytest

from espalier.colbert import index as ann
from espalier.colbert import store
from espalier.colbert.retrieval import nearest
from espalier.errors import EspalierError


def shards_of(tmp_path, lengths, documents_a_shard):
    """Shards of random unit vectors; the embeddings, numbered through."""
    rng = np.random.default_rng(7)
    folders, everything = [], []
    for start in range(0, len(lengths), documents_a_shard):
        own = lengths[start : start + documents_a_shard]
        rows = [rng.normal(size=(n, 8)) for n in own]
        rows = [(r / np.linalg.norm(r, axis=1, keepdims=True)).astype(np.float16) for r in rows]
        tokens = [np.zeros(n, dtype=np.int64) for n in own]
        doc_ids = [f"d{start + i}" for i in range(len(own))]
        folders.append(tmp_path / f"shard{start}")
        store.write(folders[-1], doc_ids, tokens, enumerate(rows), 8, "e")
        everything += rows
    return store.open_store(folders), np.concatenate(everything).astype(np.float32)


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
    built, plan = ann.build(opened.shards, sample=0.05, subquantizers=4, bits=8, seed=1)
    assert plan.partitions == 0
    hits = nearest(built, everything[:2], 1000)
    assert hits.shape == (2, 5)
    similarity = everything[:2] @ everything.T
    np.testing.assert_array_equal(hits, np.argsort(-similarity, axis=1, kind="stable"))


def test_blocks_and_shards_number_embeddings_as_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr(ann, "BLOCK", 2)
    opened, everything = shards_of(tmp_path, [3, 1, 4], 2)
    np.testing.assert_array_equal(np.concatenate(list(ann.blocks(opened.shards))), everything)
    sample = ann.sampled(opened.shards, 5, seed=3)
    places = [int(np.flatnonzero((everything == row).all(axis=1))[0]) for row in sample]
    assert places == sorted(set(places))
    np.testing.assert_array_equal(ann.sampled(opened.shards, 8, seed=3), everything)


def test_index_of_partitions_is_the_same_bytes_twice_and_finds_neighbours(tmp_path):
    opened, everything = shards_of(tmp_path, [10] * 1000, 600)
    for name in ("a", "b"):
        built, plan = ann.build(opened.shards, sample=0.5, subquantizers=4, bits=8, seed=1)
        ann.write(tmp_path / name, built, np.arange(9), opened.encoder)
    assert plan == ann.Plan(256, 9_984)
    a, b = ((tmp_path / name / "index.faiss").read_bytes() for name in ("a", "b"))
    assert a == b
    usual = faiss.cvar.distance_compute_blas_threshold
    index, frequency = ann.read(tmp_path / "a", opened, nprobe=64)
    assert isinstance(index, faiss.IndexIVFPQ)
    assert index.nprobe == 64
    assert frequency.tolist() == list(range(9))
    hits = nearest(index, everything[::50], 10)
    alone = np.concatenate([nearest(index, row[None], 10) for row in everything[::50]])
    np.testing.assert_array_equal(hits, alone)
    assert faiss.cvar.distance_compute_blas_threshold == usual
    assert np.mean([i * 50 in row for i, row in enumerate(hits)]) > 0.95


def test_an_index_of_other_embeddings_is_refused(tmp_path):
    opened, _ = shards_of(tmp_path / "one", [3, 2], 2)
    other, _ = shards_of(tmp_path / "two", [3, 3], 2)
    built, _ = ann.build(opened.shards, sample=0.05, subquantizers=4, bits=8, seed=1)
    ann.write(tmp_path / "index", built, np.arange(9), opened.encoder)
    with pytest.raises(EspalierError, match="embeddings differs"):
        ann.read(tmp_path / "index", other, nprobe=1)
    (tmp_path / "index" / "index.faiss").write_bytes(b"no")
    with pytest.raises(EspalierError, match="not an index"):
        ann.read(tmp_path / "index", opened, nprobe=1)
