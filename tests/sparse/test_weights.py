import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from espalier.errors import EspalierError
from espalier.sparse import bm25, index, quantize, queries, retrieval, shards, weights
from espalier.sparse.splade import Splade

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


def test_bm25_by_hand():
    # Two documents of 2 and 4 word pieces; the term stands twice in the longer one only.
    weight = bm25.weights(
        np.array([2.0, 0.0]), np.array([4.0, 2.0]), np.array([1.0, 1.0]), 2, 3.0, 0.9, 0.4
    )
    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 1.9 / (2 + 0.9 * (0.6 + 0.4 * 4 / 3))
    assert weight.tolist() == [pytest.approx(expected), 0.0]


sizes = st.just(0.0) | st.floats(1e-6, 1e6)


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=sizes))
def test_quantisation_keeps_zero_presence_order_and_half_a_step(values):
    largest = values.max()
    quantised = quantize.postings(values, largest)
    assert ((quantised > 0) == ((values > 0) & (largest > 0))).all()
    assert (np.diff(quantised[np.argsort(values)].astype(int)) >= 0).all()
    restored = quantised * (largest / 255)
    step = largest / 255
    kept = (quantised > 1) | (values == 0)
    assert (np.abs(restored - values)[kept] <= step * 0.5000001).all()
    assert (np.abs(restored - values) <= step).all()


def test_an_all_equal_range_is_quantised_to_the_top():
    assert quantize.postings(np.array([3.0, 3.0, 0.0]), 3.0).tolist() == [255, 255, 0]
    assert quantize.postings(np.array([0.0]), 0.0).tolist() == [0]


def sparse(**terms):
    ids = np.array([WORDS.index(t) for t in terms], np.int32)
    order = np.argsort(ids)
    return ids[order], np.array(list(terms.values()), np.float32)[order]


def example_shards():
    red, fox, dog = (WORDS.index(w) for w in ("red", "fox", "dog"))
    first = shards.build(["a", "b"], [[red, fox, red], [dog]], [sparse(fox=1.0), sparse(red=0.5)])
    second = shards.build(["c", "d"], [[], [fox, dog]], [sparse(), sparse(dog=2.0)])
    return [first, second]


def test_postings_stand_on_the_union_of_both_supports(tmp_path):
    shards.write(tmp_path / "s", example_shards()[0])
    shard = shards.read(tmp_path / "s")
    rows = list(zip(shard.terms, shard.frequency, shard.learned, strict=True))
    red, fox, dog = (WORDS.index(w) for w in ("red", "fox", "dog"))
    assert rows == [(red, 2, 0.0), (fox, 1, 1.0), (red, 0, 0.5), (dog, 1, 0.0)]
    assert shard.doc_begin.tolist() == [0, 2, 4]
    assert shard.lengths.tolist() == [3, 1]


def build(parts=None, block_size=1):
    return index.build(parts or example_shards(), len(WORDS), block_size, 0.9, 0.4)


def test_the_index_does_not_depend_on_the_cut_into_shards():
    whole = build()
    parts = [s for s in example_shards() if s.doc_ids]
    merged = shards.Shard(
        [d for s in parts for d in s.doc_ids],
        np.concatenate([s.lengths for s in parts]),
        np.concatenate([parts[0].doc_begin, parts[1].doc_begin[1:] + parts[0].doc_begin[-1]]),
        *(np.concatenate([getattr(s, f) for s in parts]) for f in shards.Shard._fields[3:]),
    )
    for a, b in zip(whole.postings, build([merged]).postings, strict=True):
        assert a.tolist() == b.tolist()


def test_block_and_term_maxima():
    built = build(block_size=2)
    postings = built.postings
    red, fox = WORDS.index("red"), WORDS.index("fox")
    span = slice(int(postings.term_begin[red]), int(postings.term_begin[red + 1]))
    assert postings.docs[span].tolist() == [0, 1]
    assert postings.term_bm25[red] == postings.bm25[span].max() == 255
    # fox: learned 1.0 of a largest 2.0.
    assert postings.term_learned[fox] == round(255 / 2)
    assert built.meta["largest"]["learned"] == 2.0
    blocks_of_red = slice(int(postings.term_block[red]), int(postings.term_block[red + 1]))
    assert postings.block_last[blocks_of_red].tolist() == [1]
    assert postings.block_learned[blocks_of_red].tolist() == [round(0.5 / 2 * 255)]


def test_an_index_is_read_as_it_was_written_and_faults_are_named(tmp_path):
    built = build()
    index.write(tmp_path / "i", built)
    opened = index.read(tmp_path / "i")
    assert opened.doc_ids == ["a", "b", "c", "d"]
    for a, b in zip(opened.postings, built.postings, strict=True):
        assert a.tolist() == b.tolist()

    damaged = tmp_path / "i" / "learned.npy"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(EspalierError, match=r"learned\.npy: missing, truncated or altered"):
        index.read(tmp_path / "i")
    damaged.write_bytes(content[:-1])
    with pytest.raises(EspalierError, match=r"learned\.npy: missing, truncated or altered"):
        index.read(tmp_path / "i")
    meta = tmp_path / "i" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "version": 99}))
    with pytest.raises(EspalierError, match="version 99, this is 1"):
        index.read(tmp_path / "i")
    meta.write_text("{")
    with pytest.raises(EspalierError, match=r"meta\.json: missing or damaged"):
        index.read(tmp_path / "i")


def test_bad_input_is_one_clear_error():
    first, _ = example_shards()
    with pytest.raises(EspalierError, match="document 'a' occurs twice"):
        build([first, first])
    for bad in (-1.0, float("nan"), float("inf")):
        broken = first._replace(learned=np.full_like(first.learned, bad))
        with pytest.raises(EspalierError, match="must be finite and not negative"):
            build([broken])


def test_query_weights_fill_the_same_range_on_both_sides():
    red, fox, dog = (WORDS.index(w) for w in ("red", "fox", "dog"))
    terms, b, learned = queries.encoded([red, fox, red], sparse(fox=0.5, dog=2.0), 1.0)
    # Repeated word pieces are one term. The most frequent weighs as much as the largest learned.
    assert terms.tolist() == [red, fox, dog]
    assert b.tolist() == [2.0 * 64, 1.0 * 64, 0]
    assert learned.tolist() == [0, 0.5 * 64, 2.0 * 64]
    assert queries.encoded([red, fox, red], sparse(dog=2.0), 0.5)[1].tolist() == [64, 32, 0]
    # Without learned weights the most frequent weighs 1.
    assert queries.encoded([red, fox, red], sparse(), 1.0)[1].tolist() == [64, 32]
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(EspalierError, match="query: 1 weights are negative"):
            queries.encoded([], sparse(dog=bad), 1.0)


def test_queries_are_read_from_their_table():
    encoded = {
        "b": queries.encoded([5, 6], sparse(dog=1.0), 1.0),
        "none": queries.encoded([], sparse(), 1.0),
        "a": queries.encoded([7], sparse(), 1.0),
    }
    back = queries.by_query(queries.table(encoded))
    assert list(back) == ["b", "a"]
    for query_id, query in back.items():
        for column, expected in zip(query, encoded[query_id], strict=True):
            assert column.tolist() == expected.tolist()
    assert queries.by_query(queries.table({})) == {}


def test_runs_and_counters_for_settings():
    built = build()
    dog = WORDS.index("dog")
    asked = {
        "1": (np.array([dog, WORDS.index("red")]), np.array([64, 0]), np.array([64, 64])),
        "none": tuple(np.zeros(0, np.int64) for _ in range(3)),
    }
    exhaustive = {"name": "x", "algorithm": "exhaustive", "beta": 0}
    run, counts = retrieval.retrieve(built, asked, exhaustive, 10)
    # d: learned dog 255; b: learned red 64 (0.5 of 2.0); a has red on the BM25 side alone.
    assert list(zip(run["doc_id"], run["score"], strict=True)) == [("d", 255 * 64), ("b", 64 * 64)]
    assert run["query_id"].tolist() == ["1", "1"]
    assert counts["query_id"].tolist() == ["1", "none"]
    assert counts["documents_scored"].tolist() == [2, 0]
    guided = {
        "name": "g", "algorithm": "guided", "alpha": 0, "beta": 0, "f_s": 1, "f_f": 1,
        "threshold": "single", "view": "independent",
    }  # fmt: skip
    assert retrieval.retrieve(built, asked, guided, 10)[0].equals(run)
    timed = retrieval.latencies(built, asked, [exhaustive, guided], 10, 1)
    assert timed["system"].tolist() == ["x", "g", "x", "g"]
    assert (timed["total_ns"] > 0).all()


def test_distribution_is_min_max_scaled():
    table = weights.distribution(build().postings)
    learned = table[table["side"] == "learned"]["count"].to_numpy()
    # Weights 0.5, 1, 2 of a largest 2 → 64, 128, 255 → scaled 0, 64/191, 1.
    assert learned.sum() == 3
    assert np.flatnonzero(learned).tolist() == [0, int(64 / 191 * 50), 49]
