import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from espalier.sparse import blocks

FACTOR = (1 + blocks.EPSILON_2) * (1 + 2 * blocks.EPSILON_1 / (1 - blocks.EPSILON_1))
"""What the sparsified programme may cost relative to the best partition."""


def price(weights, begins, cost):
    """Σ over blocks of length · maximum − Σ weights + cost."""
    cut = np.split(np.asarray(weights, dtype=np.float64), begins[1:])
    return sum(len(block) * block.max() - block.sum() + cost for block in cut)


def cheapest(weights, cost):
    """The same for the best of all partitions, by the quadratic programme."""
    weights = np.asarray(weights, dtype=np.float64)
    best = [0.0]
    for end in range(1, len(weights) + 1):
        best.append(min(best[i] + price(weights[i:end], [0], cost) for i in range(end)))
    return best[-1]


def partition(weights, cost):
    """Where the blocks of one list begin."""
    starts = np.zeros(len(weights), dtype=np.bool_)
    found = blocks.partition(weights, 0, len(weights), cost, starts)
    begins = np.flatnonzero(starts)
    assert found == len(begins) and begins[0] == 0
    return begins.tolist()


def test_a_list_is_cut_where_that_pays():
    weights = np.array([1, 1, 1, 9, 9, 1, 1], np.uint8)
    # Three even blocks cost 3 · λ; one costs 7 · 9 − 23 + λ = 40 + λ, two at least 16 + 2 λ.
    assert partition(weights, 3.0) == [0, 3, 5]
    assert partition(weights, 15.0) == [0, 3, 5]
    assert partition(weights, 30.0) == [0]


lists = st.one_of(
    arrays.arrays(np.uint8, st.integers(1, 40), elements=st.integers(0, 255)),
    arrays.arrays(np.uint8, st.integers(1, 40), elements=st.sampled_from([1, 2, 200])),
    arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(0, 3, width=32)),
)


@settings(deadline=None)
@given(lists, st.floats(-3, 12))
def test_a_partition_costs_at_most_the_proven_factor_of_the_best(weights, exponent):
    cost = 2.0**exponent
    best, found = cheapest(weights, cost), price(weights, partition(weights, cost), cost)
    assert best * (1 - 1e-9) <= found <= best * FACTOR * (1 + 1e-9)


def test_partitions_are_close_to_the_best_on_ordinary_lists():
    rng = np.random.default_rng(5)
    weights = [rng.integers(1, 256, 60).astype(np.uint8) for _ in range(20)]
    found = sum(price(w, partition(w, 100.0), 100.0) for w in weights)
    assert found <= 1.1 * sum(cheapest(w, 100.0) for w in weights)


def ended(parts, dtype=np.uint8):
    """Lists with their sentinels: weights [P], term_begin int64[V+1]."""
    weights = [[*part, 0] for part in parts]
    begin = np.cumsum([0, *map(len, weights)]).astype(np.int64)
    return np.array([w for part in weights for w in part], dtype), begin


def lengths(block_begin, postings):
    """Postings of each block."""
    return np.diff(np.append(block_begin, postings))


def without_sentinels(term_block, block_begin, postings):
    """Lengths of the blocks that hold postings of documents."""
    return np.delete(lengths(block_begin, postings), term_block[1:] - 1)


def test_fixed_blocks_and_their_maxima_by_hand():
    weights, term_begin = ended([[3, 1, 2, 9, 4], [], [7], [5, 6]])
    assert term_begin.tolist() == [0, 6, 7, 9, 12]
    term_block, block_begin = blocks.fixed(term_begin, 2)
    # Five postings are three blocks, and every list's sentinel is one more.
    assert term_block.tolist() == [0, 4, 5, 7, 9]
    assert block_begin.tolist() == [0, 2, 4, 5, 6, 7, 8, 9, 11]
    assert blocks.maxima(weights, block_begin).tolist() == [3, 9, 4, 0, 0, 7, 0, 6, 0]
    assert blocks.maxima(weights, term_begin[:-1]).tolist() == [9, 0, 7, 6]
    nothing = blocks.maxima(weights[:0], block_begin[:0])
    assert (len(nothing), nothing.dtype) == (0, np.uint8)


def test_no_posting_s_place_is_held_in_32_bits():
    # One list of 2^33 postings and an empty one, in blocks of 2^31: nothing is as long in memory.
    term_begin = np.array([0, 2**33 + 1, 2**33 + 2])
    term_block, block_begin = blocks.fixed(term_begin, 2**31)
    assert term_block.tolist() == [0, 5, 6]
    assert block_begin.tolist() == [0, 2**31, 2**32, 3 * 2**31, 2**33, 2**33 + 1]
    assert term_block.dtype == block_begin.dtype == np.int64


parts_of_lists = st.lists(arrays.arrays(np.uint8, st.integers(0, 30)), max_size=6)


@given(parts_of_lists, st.integers(1, 12))
def test_fixed_blocks_are_full_but_for_each_list_s_last(parts, size):
    weights, term_begin = ended(parts)
    term_block, block_begin = blocks.fixed(term_begin, size)
    assert term_block.dtype == block_begin.dtype == np.int64
    expected, counts = [], [0]
    for begin, end in zip(term_begin[:-1].tolist(), term_begin[1:].tolist(), strict=True):
        expected += [*range(begin, end - 1, size), end - 1]
        counts.append(len(expected))
    assert block_begin.tolist() == expected
    assert term_block.tolist() == counts
    largest = [max(cut) for cut in np.split(weights, expected[1:])] if expected else []
    assert blocks.maxima(weights, block_begin).tolist() == largest


@settings(deadline=None, max_examples=50)
@given(parts_of_lists, st.sampled_from([0.0, 1.0, 1.5, 4.0, 1000.0]))
@example([np.array([0, 1], np.uint8)], 1000.0)
def test_variable_blocks_tile_every_list(parts, mean):
    weights, term_begin = ended(parts)
    term_block, block_begin = blocks.variable(weights, term_begin, mean)
    assert term_block.dtype == block_begin.dtype == np.int64
    assert len(term_block) == len(term_begin) and term_block[0] == 0
    assert term_block[-1] == len(block_begin)
    assert np.append(block_begin, len(weights))[term_block].tolist() == term_begin.tolist()
    assert block_begin[term_block[1:] - 1].tolist() == (term_begin[1:] - 1).tolist()
    assert (np.diff(block_begin) > 0).all()
    inner = np.diff(term_block) - 1
    assert ((inner > 0) == (np.diff(term_begin) > 1)).all()
    if mean <= 1:
        assert len(block_begin) == len(weights)
    else:
        # Every list is cut as it is without its sentinel, at one cost for all.
        bare = np.concatenate([np.zeros(0, np.uint8), *parts])
        cost = blocks.tuned_cost(bare, term_begin - np.arange(len(term_begin)), mean)
        for term, part in enumerate(parts):
            begins = block_begin[term_block[term] : term_block[term + 1] - 1] - term_begin[term]
            assert begins.tolist() == (partition(part, cost) if len(part) else [])
    if mean == 1000:
        # No block spans lists, so the longest mean is a block for each list.
        assert (inner <= 1).all()


def collection(seed, postings):
    """Lists of skewed lengths whose weights wander: weights uint8[P], term_begin."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.zipf(1.3, postings), postings // 20)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), postings)]
    steps = rng.normal(0, 4, sizes.sum()).cumsum() + rng.normal(0, 25, sizes.sum())
    weights = (np.abs(steps) % 255 + 1).astype(np.uint8)
    return ended(np.split(weights, np.cumsum(sizes)[:-1]))


def excess(weights, block_begin):
    """Σ over blocks of length · maximum − Σ weights; sentinels add nothing."""
    bounds = blocks.maxima(weights, block_begin).astype(np.int64)
    sizes = lengths(block_begin, len(weights))
    return int((sizes * bounds).sum() - weights.sum(dtype=np.int64))


@pytest.mark.parametrize("mean", [6.0, 12.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_blocks_have_the_mean_length_and_bound_tighter_than_fixed_ones(mean, dtype):
    weights, term_begin = collection(1, 50_000)
    term_block, block_begin = blocks.variable(weights.astype(dtype), term_begin, mean)
    sizes = without_sentinels(term_block, block_begin, len(weights))
    assert sizes.mean() == pytest.approx(mean, rel=0.02)
    size = next(s for s in range(1, 99) if len(blocks.fixed(term_begin, s)[1]) <= len(block_begin))
    _, fixed = blocks.fixed(term_begin, size - 1)
    assert len(fixed) >= len(block_begin)
    assert excess(weights, block_begin) < 0.9 * excess(weights, fixed)


def test_a_sample_tunes_the_blocks_of_the_whole(monkeypatch):
    weights, term_begin = collection(2, 200_000)
    monkeypatch.setattr(blocks, "SAMPLE", 100_000)
    bare, bare_begin = (
        np.delete(weights, term_begin[1:] - 1),
        term_begin - np.arange(len(term_begin)),
    )
    sampled, begin = blocks.sample(bare, bare_begin, 10.0)
    assert len(sampled) == begin[-1] == pytest.approx(100_000, rel=0.05)
    term_block, block_begin = blocks.variable(weights, term_begin, 10.0)
    sizes = without_sentinels(term_block, block_begin, len(weights))
    assert sizes.mean() == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_equal_weights_stay_together(dtype):
    weight = 0.3 if dtype == np.float32 else 3
    weights, term_begin = ended([[weight] * 600, [], [weight] * 400], dtype)
    term_block, block_begin = blocks.variable(weights, term_begin, 10.0)
    # Each list's postings, then its sentinel; the empty list's stands alone.
    assert term_block.tolist() == [0, 2, 3, 5]
    assert block_begin.tolist() == [0, 600, 601, 602, 1002]


def test_lists_of_one_posting_have_one_block_each():
    weights, term_begin = ended([[7], [1], [255]])
    term_block, block_begin = blocks.variable(weights, term_begin, 40.0)
    assert term_block.tolist() == [0, 2, 4, 6]
    assert block_begin.tolist() == [0, 1, 2, 3, 4, 5]
