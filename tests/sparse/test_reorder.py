import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from espalier.errors import EspalierError
from espalier.sparse import reorder


def forward(documents):
    """The forward index of documents given as lists of terms: terms, doc_begin."""
    terms = np.array([term for document in documents for term in document], dtype=np.int32)
    return terms, np.cumsum([0, *map(len, documents)]).astype(np.int64)


def shuffled_clusters(documents, seed):
    """Documents with 10 of the 30 terms of one of 8 topics and 5 of 200 common ones."""
    rng = np.random.default_rng(seed)
    return [
        [
            *(200 + 30 * rng.integers(8) + rng.choice(30, 10, replace=False)).tolist(),
            *rng.choice(200, 5, replace=False).tolist(),
        ]
        for _ in range(documents)
    ]


documents = st.lists(st.lists(st.integers(0, 20), max_size=8, unique=True), max_size=80)


@settings(deadline=None)
@given(documents)
def test_an_order_is_a_permutation_and_comes_out_again(made):
    index = forward(made)
    order = reorder.bisection(*index, 21)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(len(made)))
    assert reorder.bisection(*index, 21).tolist() == order.tolist()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_few_documents_stay_as_they_are(count):
    index = forward([[0, 1], [1]][:count])
    assert reorder.bisection(*index, 2).tolist() == list(range(count))


@pytest.mark.parametrize("pattern", ["AB", "AABB", "ABBA", "AAB"])
def test_interleaved_topics_are_separated(pattern):
    made = [range(5) if pattern[i % len(pattern)] == "A" else range(5, 10) for i in range(60)]
    index = forward(made)
    order = reorder.bisection(*index, 10)
    topics = [made[old][0] for old in order]
    # Three ranges of 15 documents or less hold one topic alone, the fourth may hold both.
    leaves = [set(topics[begin : begin + 15]) for begin in range(0, 60, 15)]
    assert sum(len(leaf) > 1 for leaf in leaves) <= (pattern == "AAB")


def test_the_cost_of_two_interleaved_topics_by_hand():
    index = forward([range(5) if i % 2 == 0 else range(5, 10) for i in range(40)])
    # Of 20 gaps a term, all are 2 but the first of each term of the first topic, which is 1.
    assert reorder.log_gap_cost(*index, 10) == pytest.approx((5 * 19 + 5 * 20) / 200)
    # Apart, all are 1 but the first of each term of the second topic, which is 21.
    order = reorder.bisection(*index, 10)
    assert reorder.log_gap_cost(*index, 10, order) == pytest.approx(5 * math.log2(21) / 200)


def test_the_cost_follows_the_order_that_is_given():
    index = forward([[0], [1], [0], []])
    # Term 0 in documents 0 and 2: gaps 1 and 2; term 1 in document 1: gap 2.
    assert reorder.log_gap_cost(*index, 2) == pytest.approx(2 / 3)
    # Now documents 0 and 1 have term 0 (gaps 1, 1), document 3 has term 1 (gap 4).
    assert reorder.log_gap_cost(*index, 2, np.array([2, 0, 3, 1])) == pytest.approx(2 / 3)
    assert reorder.log_gap_cost(*index, 2, np.array([2, 0, 1, 3])) == pytest.approx(np.log2(3) / 3)
    assert reorder.log_gap_cost(*forward([[], []]), 2) == 0


def test_the_cost_falls_on_clustered_documents():
    index = forward(shuffled_clusters(1000, 7))
    order = reorder.bisection(*index, 440)
    before, after = (reorder.log_gap_cost(*index, 440, o) for o in (np.arange(1000), order))
    # With 125 documents a topic side by side instead of spread, a topic's gaps shrink by log2(8)
    # = 3 bits, two thirds of all gaps, and the common terms' stay.
    assert 1.5 < before - after < 2.2


pulls = arrays.arrays(np.float64, st.integers(2, 40), elements=st.integers(-5, 5).map(float))


@given(pulls, st.data())
def test_selection_finds_what_sorting_does(values, data):
    rank = data.draw(st.integers(0, len(values) - 1))
    expected = np.sort(values)
    assert reorder.smallest(values, 0, len(values), rank) == expected[rank]
    assert np.sort(values).tolist() == expected.tolist()


@given(pulls)
def test_as_many_pairs_swap_as_the_sorted_gains_allow(pull):
    low, middle, high = 0, len(pull) // 2, len(pull)
    left, right = np.sort(pull[:middle])[::-1], np.sort(pull[middle:])[:middle]
    paying = int((left > right).sum())
    # Document d has term d alone, so the degrees tell who is on which side.
    terms, doc_begin = forward([[d] for d in range(high)])
    order = np.arange(high, dtype=np.int64)
    degree = np.zeros((2, high), np.int32)
    degree[0, :middle] = degree[1, middle:] = 1
    last = np.sort(pull)[middle - 1]
    swapped = reorder.swap(
        terms, doc_begin, order, low, middle, high, pull, last, degree, np.ones(1, np.uint64)
    )
    assert swapped == (paying > 0)
    assert np.flatnonzero(degree[0]).tolist() == sorted(order[:middle].tolist())
    assert np.flatnonzero(degree[1]).tolist() == sorted(order[middle:].tolist())
    moved = int((order[:middle] >= middle).sum())
    if paying < middle:
        assert moved == paying
        assert pull[order[:middle]].max() <= pull[order[middle:]].min()
    else:
        assert moved <= paying


def test_a_term_outside_the_vocabulary_is_one_clear_error():
    for term in (-1, 3):
        with pytest.raises(EspalierError, match="outside a vocabulary of 3"):
            reorder.bisection(*forward([[0, term]]), 3)
        with pytest.raises(EspalierError, match="outside a vocabulary of 3"):
            reorder.log_gap_cost(*forward([[0, term]]), 3)
