import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from espalier.errors import EspalierError
from espalier.sparse import bm25, quantize, shards, weights
from espalier.sparse.splade import Splade
from tests.sparse.made import make_index

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "fox", "dog", "##s", "runs"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny SPLADE model with random weights."""
    folder = tmp_path_factory.mktemp("splade")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, initializer_range=1.0,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_splade_pools_log_saturated_maxima(model):
    splade = Splade(model, max_length=6)
    whole = BertForMaskedLM.from_pretrained(model).eval()
    texts = ["red foxs", "dog", "red dog runs red fox dogs"]
    pieces = splade.word_pieces(texts)
    assert pieces[0] == [5, 6, 8]
    found = splade.weights(pieces, "test")
    for text, (terms, weight) in zip(pieces, found, strict=True):
        ids = torch.tensor([[2, *text[:4], 3]])
        with torch.no_grad():
            logits = whole(input_ids=ids).logits[0].numpy()
        expected = np.log1p(np.maximum(logits, 0)).max(axis=0)
        assert terms.tolist() == np.flatnonzero(expected > 0).tolist()
        np.testing.assert_allclose(weight, expected[terms], rtol=1e-4)


def test_a_text_keeps_its_word_pieces_and_their_weights_by_name(model):
    splade = Splade(model, max_length=6)
    assert splade.lexicon == WORDS
    (pieces,) = splade.word_pieces(["red foxs red"])
    found = shards.of_model(pieces, (np.array([5, 9]), np.array([0.5, 1.5])), splade.lexicon)
    assert found == ({"red": 2, "fox": 1, "##s": 1}, {"red": 0.5, "runs": 1.5})


def test_bm25_by_hand():
    # Two documents of 2 and 4 word pieces; the term stands twice in the longer one only.
    weight = bm25.weights(
        np.array([2.0, 0.0]), np.array([4.0, 2.0]), np.array([1.0, 1.0]), 2, 3.0, 0.9, 0.4
    )
    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 1.9 / (2 + 0.9 * (0.6 + 0.4 * 4 / 3))
    assert weight.tolist() == [pytest.approx(expected), 0.0]


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-7), (np.float32, 1e-4)])
@given(st.data())
def test_quantisation_keeps_zero_presence_order_and_half_a_step(dtype, error, data):
    sizes = st.just(0.0) | st.floats(2**-20, 1e6, width=32)
    values = data.draw(arrays.arrays(dtype, st.integers(1, 50), elements=sizes))
    largest = float(values.max())
    quantised = quantize.postings(values, largest, 8)
    assert quantised.dtype == np.uint8
    assert ((quantised > 0) == ((values > 0) & (largest > 0))).all()
    assert (np.diff(quantised[np.argsort(values)].astype(int)) >= 0).all()
    step = largest / 255
    away = np.abs(quantised * step - values.astype(np.float64))
    # The smallest that would have vanished are off by up to a whole step.
    kept = (quantised > 1) | (values == 0)
    assert (away[kept] <= step * (0.5 + error)).all()
    assert (away <= step).all()


@given(arrays.arrays(np.float32, st.integers(1, 50), elements=st.floats(2**-20, 1e6, width=32)))
def test_without_bits_weights_fill_the_same_range_unrounded(values):
    scaled = quantize.postings(values, float(values.max()), None)
    assert (scaled.dtype, scaled.max()) == (np.float32, 255)
    exact = values.astype(np.float64) * 255 / float(values.max())
    np.testing.assert_allclose(scaled, exact, rtol=1e-6)


def test_an_all_equal_range_is_quantised_to_the_top():
    for bits in (8, None):
        values = quantize.postings(np.array([3.0, 3.0, 0.0]), 3.0, bits)
        assert values.tolist() == [255, 255, 0]
        assert quantize.postings(np.array([0.0]), 0.0, bits).tolist() == [0]


def test_query_weights_are_integers_of_a_64th():
    found = quantize.query(np.array([0.0, 0.5, 1.0, 0.01, 3.3]))
    assert (found.tolist(), found.dtype) == ([0, 32, 64, 1, 211], np.int64)
    assert quantize.query(np.zeros(0)).tolist() == []


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_counted_and_the_first_is_shown(bad):
    with pytest.raises(EspalierError, match=rf"^side: 2 weights .* \(first: {bad}\); weights must"):
        quantize.checked(np.array([1.0, bad, 0.0, bad]), "side")


def test_distribution_is_min_max_scaled():
    index = make_index([{0: (9, 64), 2: (9, 0)}, {1: (0, 255)}, {0: (9, 128)}], 2, 3)
    table = weights.distribution(index.postings)
    assert table.groupby("side", sort=False).size().to_dict() == {"bm25": 50, "learned": 50}
    assert table["bin_low"][:3].tolist() == pytest.approx([0, 0.02, 0.04])
    assert table["bin_high"][:3].tolist() == pytest.approx([0.02, 0.04, 0.06])
    counts = {side: part["count"].to_numpy() for side, part in table.groupby("side")}
    # Weights 64, 128, 255 → scaled 0, 64/191, 1; neither zeros nor sentinels count.
    assert np.flatnonzero(counts["learned"]).tolist() == [0, int(64 / 191 * 50), 49]
    assert counts["learned"].sum() == 3
    # Weights that are all equal have no range: they are at its lower end.
    assert np.flatnonzero(counts["bm25"]).tolist() == [0] and counts["bm25"][0] == 3


def test_a_side_without_weights_is_counted_as_nothing():
    table = weights.distribution(make_index([{0: (1, 0)}, {}], 2, 1).postings)
    assert table.groupby("side")["count"].sum().to_dict() == {"bm25": 1, "learned": 0}
