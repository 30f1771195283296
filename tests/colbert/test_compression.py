import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.colbert import compression, store
from espalier.colbert.compression import Codec, Packed
from espalier.colbert.maxsim import maxsim
from espalier.errors import EspalierError
from tests.colbert.test_maxsim import brute_force


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def clustered(count, seed=0, dimensions=16):
    """Half-precision unit vectors around twenty directions."""
    rng = np.random.default_rng(seed)
    directions = unit(np.random.default_rng(5).normal(size=(20, dimensions)))
    near = directions[rng.integers(0, 20, count)] + 0.1 * rng.normal(size=(count, dimensions))
    return unit(near).astype(np.float16)


def read_back(rows, codec):
    """What the format says, bit by bit."""
    centroid = rows[:, :4].copy().view("<u4")[:, 0]
    bits = np.unpackbits(rows[:, 4:], axis=1, bitorder="little")
    grouped = bits.reshape(len(rows), codec.dimensions, codec.bits)
    buckets = (grouped * 2 ** np.arange(codec.bits)).sum(axis=2)
    return unit(codec.centroids[centroid].astype(np.float64) + codec.values[buckets])


def random_codec(rng, bits, dimensions, centroids=300):
    """More centroids than a byte can number."""
    ordered = np.sort(rng.normal(scale=0.2, size=2 ** (bits + 1) - 1)).astype(np.float32)
    return Codec(
        unit(rng.normal(size=(centroids, dimensions))).astype(np.float32),
        ordered[1::2].copy(),
        ordered[::2].copy(),
    )


@settings(max_examples=40, deadline=None)  # the first call compiles
@given(
    bits=st.sampled_from([1, 2, 4, 8]), dimensions=st.sampled_from([8, 24, 128]),
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=9), seed=st.integers(0, 2**20),
)  # fmt: skip
def test_maxsim_of_packed_rows_is_that_of_the_rows_read_back(bits, dimensions, lengths, seed):
    rng = np.random.default_rng(seed)
    codec = random_codec(rng, bits, dimensions)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    packed = Packed(codec.pack(unit(rng.normal(size=(offsets[-1], dimensions)))), codec)
    assert packed.rows.shape == (offsets[-1], 4 + dimensions * bits // 8)
    expected = read_back(packed.rows, codec)
    np.testing.assert_allclose(packed[:], expected, atol=1e-6)
    chosen = rng.permutation(offsets[-1])[:5]
    np.testing.assert_allclose(packed[chosen], expected[chosen], atol=1e-6)

    query = unit(rng.normal(size=(5, dimensions))).astype(np.float32)
    documents = np.flatnonzero(rng.random(len(lengths)) < 0.7)
    scores = maxsim(query, packed, offsets, documents)
    np.testing.assert_allclose(
        scores, brute_force(query, expected, offsets, documents), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_difference_is_read_back_as_the_nearest_value(bits):
    """So the error is at most half the gap between values, but for what lies beyond all."""
    sample = clustered(4000)
    codec = compression.fit(sample, 50_000, bits, seed=3)
    assert codec.bits == bits
    rows = codec.pack(sample)
    centroid = codec.centroids[rows[:, :4].copy().view("<u4")[:, 0]]
    wide = sample.astype(np.float32)
    np.testing.assert_array_equal(centroid, codec.centroids[(wide @ codec.centroids.T).argmax(1)])
    differences = wide - centroid
    bit = np.unpackbits(rows[:, 4:], axis=1, bitorder="little").reshape(*wide.shape, bits)
    error = np.abs(codec.values[(bit * 2 ** np.arange(bits)).sum(axis=2)] - differences)
    nearest = np.abs(codec.values - differences[..., None]).min(axis=-1)
    np.testing.assert_allclose(error, nearest, atol=1e-7)
    inside = (differences > codec.values[0]) & (differences < codec.values[-1])
    assert error[inside].max() <= np.diff(codec.values).max() / 2 + 1e-7

    # ColBERTv2's buckets: equally many differences in each, read back as their median.
    halves = np.arange(2 ** (bits + 1) + 1) / 2 ** (bits + 1)
    edges = np.quantile(differences, halves)
    theirs = edges[1::2][np.searchsorted(edges[2:-1:2], differences)] - differences
    assert np.square(error).mean() < 0.97 * np.square(theirs).mean()


def test_buckets_of_few_differences():
    limits, values = compression.buckets(np.array([[-1.0, -1.0], [0.5, 1.5]], np.float32), 1)
    assert (limits.tolist(), values.tolist()) == ([0.0], [-1.0, 1.0])


def test_more_bits_are_closer():
    sample, others = clustered(4000), clustered(1000, seed=1)
    cosines = []
    for bits in (1, 2, 4, 8):
        codec = compression.fit(sample, 50_000, bits, seed=3)
        back = Packed(codec.pack(others), codec)[:]
        np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
        cosines.append((back * others).sum(axis=1).mean())
    assert cosines == sorted(cosines)
    assert cosines[0] > 0.95
    assert cosines[3] > 0.9999


def test_eight_bits_rank_as_half_precision():
    embeddings, offsets = clustered(6000, seed=2), np.arange(0, 6001, 20)
    codec = compression.fit(clustered(4000), 50_000, 8, seed=3)
    documents = np.arange(300)
    for seed in range(5):
        query = clustered(32, seed=10 + seed).astype(np.float32)
        exact = maxsim(query, embeddings, offsets, documents)
        close = maxsim(query, Packed(codec.pack(embeddings), codec), offsets, documents)
        np.testing.assert_allclose(close, exact, atol=0.2)  # of 32 at most
        apart = exact[:, None] - exact[None, :] > 0.4
        assert apart.mean() > 0.2
        assert (close[:, None] > close[None, :])[apart].all()


def test_the_same_sample_gives_the_same_codec_and_few_points_few_centroids():
    one, other = (compression.fit(clustered(1000), 50_000, 2, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.centroids, other.centroids)
    np.testing.assert_array_equal(one.values, other.values)
    assert len(one.centroids) == 16  # 1000 / 39, and a power of two
    assert len(compression.fit(clustered(4000), 4, 2, seed=3).centroids) == 32  # 16 sqrt(4)
    assert len(compression.fit(clustered(3), 4, 2, seed=3).centroids) == 1


def test_bits_that_fill_no_bytes_and_an_empty_sample_are_refused():
    with pytest.raises(EspalierError, match=r"colbert\.store\.bits': 1 bits of 12 dimensions"):
        compression.fit(clustered(50, dimensions=12), 100, 1, seed=0)
    with pytest.raises(EspalierError, match=r"colbert\.store\.sample"):
        compression.fit(clustered(0), 100, 2, seed=0)


@pytest.fixture
def shard(tmp_path):
    """A compressed shard of three documents, the second empty, and its embeddings."""
    embeddings = clustered(7)
    codec = compression.fit(clustered(2000), 7, 4, seed=3)
    rows = {0: embeddings[:3], 2: embeddings[3:]}
    tokens = [np.arange(len(rows.get(i, ()))) for i in range(3)]
    written = store.write(tmp_path / "s", list("abc"), tokens, rows.items(), 16, "e", codec)
    assert (written["bits"], written["dimensions"], written["embeddings"]) == (4, 16, 7)
    return tmp_path / "s", embeddings, codec


def test_a_compressed_shard_is_read_as_it_was_written(shard):
    folder, embeddings, codec = shard
    opened = store.open_store([folder])
    store.verify([folder])
    assert opened.dimensions == 16
    assert opened.document_of.tolist() == [0, 0, 0, 2, 2, 2, 2]
    (read,) = opened.shards
    assert (folder / "embeddings.npy").stat().st_size == 128 + 7 * (4 + 8)
    np.testing.assert_array_equal(read.embeddings[:], Packed(codec.pack(embeddings), codec)[:])


def test_a_shard_of_another_width_is_refused(shard):
    folder, *_ = shard
    np.save(folder / "values.npy", np.zeros(4, dtype=np.float32))
    with pytest.raises(EspalierError, match="differ in length"):
        store.read(folder)
    (folder / "values.npy").unlink()
    with pytest.raises(EspalierError, match="not a shard"):
        store.read(folder)
