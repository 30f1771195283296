import numpy as np
import pytest

from espalier.colbert import quantizer, static
from espalier.colbert.quantizer import Plan
from espalier.errors import EspalierError
from tests.colbert import made


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
    assert quantizer.plan(embeddings, 0.05, 8) == Plan(*expected)


def test_a_sample_is_of_the_embeddings_that_are_kept_in_order(tmp_path):
    opened, everything = made.shards_of(tmp_path, [3, 1, 4], 2)
    kept = made.whole(opened)
    sample = quantizer.sampled(opened.shards, [4, 4], kept, 5, seed=3)
    places = [int(np.flatnonzero((everything == row).all(axis=1))[0]) for row in sample]
    assert places == sorted(set(places)) and len(places) == 5
    whole = quantizer.sampled(opened.shards, [4, 4], kept, 8, 3)
    np.testing.assert_array_equal(whole, everything)
    stays = np.array([True, False, True, False, False, True, False, True])
    some = quantizer.sampled(opened.shards, [2, 2], [stays[:4], stays[4:]], 4, seed=3)
    np.testing.assert_array_equal(some, everything[stays])


def test_kept_embeddings_are_looked_at_one_shard_after_another(tmp_path):
    """So that memory does not grow with their number."""
    opened, _ = made.shards_of(tmp_path, [10] * 1200, 400)
    alive, most = 0, 0

    class Mask(np.ndarray):
        def __del__(self):
            nonlocal alive
            alive -= 1

    def kept():
        nonlocal alive, most
        for shard in opened.shards:
            alive += 1
            most = max(most, alive)
            yield np.ones(len(shard.embeddings), np.bool_).view(Mask)

    index, _ = quantizer.train(opened.shards, [4000] * 3, kept(), **{**made.SETTINGS, "bits": 4})
    assert index.is_trained and index.ntotal == 0
    # The next is made before the name for the last one goes.
    assert most <= 2


def test_nothing_to_embed_is_refused(tmp_path):
    opened, _ = made.shards_of(tmp_path, [0, 0], 2)
    with pytest.raises(EspalierError, match="no document has a word to embed"):
        made.trained(tmp_path / "q", opened)


def test_it_is_the_same_for_any_cut(tmp_path):
    """Training and counting: of one shard, and of three with the same documents."""
    counts = [10] * 1200
    one, _ = made.shards_of(tmp_path / "1", counts, 1200)
    three, _ = made.shards_of(tmp_path / "3", counts, 400)
    for name, opened in (("one", one), ("three", three)):
        made.trained(tmp_path / name, opened, bits=4)
    index = [(tmp_path / name / quantizer.INDEX).read_bytes() for name in ("one", "three")]
    assert index[0] == index[1]


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_pieces_of_the_centroids_are_searched_as_one(tmp_path, monkeypatch, metric):
    """To rounding: k-means ends at the same centroids, whichever thread compared which."""
    opened, _ = made.shards_of(tmp_path, [10] * 1200, 1200)
    found = []
    for piece in (quantizer.PIECE, 8):
        monkeypatch.setattr(quantizer, "PIECE", piece)
        settings = {**made.SETTINGS, "bits": 4, "metric": metric}
        index, plan = quantizer.train(opened.shards, [12_000], made.whole(opened), **settings)
        assert index.clustering_index is None
        found.append(index.quantizer.reconstruct_n(0, plan.partitions))
    assert plan.partitions >= 16
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-5)


def test_how_many_are_kept_is_known_beforehand():
    offsets = np.array([0, 5, 5, 8, 108])
    # Of 5, none, 3 and 100: 2, 0, 2 and 40; 7% of 100 are 7, not 8.
    assert static.count(offsets, 0.4) == 44
    assert static.count(offsets, 0.07) == 1 + 0 + 1 + 7
    assert static.count(offsets, 1.0) == 108


def test_a_shard_has_its_place_and_another_is_refused(tmp_path):
    opened, _ = made.shards_of(tmp_path / "a", [3, 1, 4, 2], 2)
    coder, _ = made.trained(tmp_path / "q", opened)
    first, second = opened.shards
    assert quantizer.first_of(coder, 0, first, tmp_path) == 0
    assert quantizer.first_of(coder, 1, second, tmp_path) == 4
    with pytest.raises(EspalierError, match=f"^{tmp_path}: not the shard that the quantizer was"):
        quantizer.first_of(coder, 1, first, tmp_path)
    with pytest.raises(EspalierError, match=f"^{tmp_path}: not the shard that the quantizer was"):
        quantizer.first_of(coder, 2, second, tmp_path)  # it saw two


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (quantizer.INDEX, b"no"),
        (quantizer.FREQUENCY, b""),
        (quantizer.DESCRIPTION, b"{"),
        (quantizer.DESCRIPTION, b"{}"),
        (quantizer.DESCRIPTION, b"[]"),
    ],
)
def test_a_damaged_quantizer_is_refused_in_one_line(tmp_path, file, content):
    opened, _ = made.shards_of(tmp_path, [3, 2], 2)
    made.trained(tmp_path / "q", opened)
    (tmp_path / "q" / file).write_bytes(content)
    with pytest.raises(EspalierError, match=f"^{tmp_path}/q: not a quantizer") as caught:
        quantizer.read(tmp_path / "q")
    assert "\n" not in str(caught.value)
