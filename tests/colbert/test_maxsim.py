from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.colbert import maxsim
from espalier.colbert.retrieval import distinct, top


def brute_force(query, embeddings, offsets, documents):
    """Equation 1, one product at a time."""
    rows = [embeddings[offsets[d] : offsets[d + 1]].astype(np.float64) for d in documents]
    return [
        sum(max((float(q @ row) for row in doc), default=-np.inf) for q in query.astype(np.float64))
        for doc in rows
    ]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    # Less than a tile, a full one, one more, several; so for dimensions.
    shape=st.tuples(st.sampled_from([1, 5, 16, 32, 33, 70]), st.sampled_from([1, 8, 37])),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**20),
)
def test_maxsim_is_equation_1(lengths, shape, threads, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    embeddings = rng.normal(size=(offsets[-1], shape[1])).astype(np.float16)
    query = rng.normal(size=shape).astype(np.float32)
    documents = np.flatnonzero(rng.random(len(lengths)) < 0.7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maxsim.torch, "get_num_threads", lambda: threads)
        scores = maxsim.maxsim(query, embeddings, offsets, documents)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(
        scores, brute_force(query, embeddings, offsets, documents), rtol=1e-5, atol=1e-4
    )


def test_half_precision_is_widened_exactly():
    """Every finite number of it, subnormal ones too: the maximum of one row of one column."""
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    each = np.arange(len(numbers) + 1, dtype=np.int64)
    one = np.ones((1, 1), dtype=np.float32)
    scores = maxsim.maxsim(one, numbers[:, None], each, each[:-1])
    np.testing.assert_array_equal(scores, numbers.astype(np.float32))
    # Many at once, of which the processor may widen whole vectors.
    for count in (len(numbers), 16, 33):
        wide = np.zeros(count + 1, dtype=np.float32)
        maxsim.widen(numbers.view(np.int16), 0, count, wide)
        np.testing.assert_array_equal(wide[:-1], numbers[:count].astype(np.float32))
        assert wide[-1] == 0


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="3 dimensions against 2"):
        maxsim.maxsim(
            np.ones((1, 3), np.float32),
            np.ones((1, 2), np.float16),
            np.array([0, 1]),
            np.array([0]),
        )


def test_a_negative_maximum_stays_negative():
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    embeddings = np.array([[-0.5, 0.0], [-0.25, 0.5]], dtype=np.float16)
    assert maxsim.maxsim(query, embeddings, np.array([0, 2]), np.array([0])) == [-0.25]


@given(lengths=st.lists(st.integers(0, 9), max_size=30), threads=st.integers(1, 5))
def test_shares_cover_the_documents_evenly(lengths, threads):
    bounds = maxsim.shares(np.array(lengths, dtype=np.int64), threads)
    assert bounds[0] == 0 and bounds[-1] == len(lengths) and len(bounds) == threads + 1
    assert bounds == sorted(bounds)
    fair = sum(lengths) / threads
    # A bound stands at most a document off.
    assert all(sum(lengths[a:b]) <= fair + 9 for a, b in pairwise(bounds))


@settings(deadline=None)  # the first call compiles
@given(
    hits=st.lists(st.lists(st.integers(-1, 19), min_size=3, max_size=3), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_distinct_documents_and_the_first_embedding_that_finds_each(hits, seed):
    document_of = np.random.default_rng(seed).integers(0, 8, 20).astype(np.int32)
    stamps = np.zeros(8, dtype=np.int64)
    expected: dict[int, int] = {}
    for row, numbers in enumerate(hits):
        for number in numbers:
            if number >= 0:
                expected.setdefault(int(document_of[number]), row)
    for stamp in (1, 2):  # the second call meets the first's stamps
        documents, rows = distinct(np.array(hits, dtype=np.int64), document_of, stamps, stamp)
        assert dict(zip(documents.tolist(), rows.tolist(), strict=True)) == expected


def test_top_breaks_ties_by_document():
    documents, scores = top(np.array([3, 5, 8, 9]), np.float32([1.0, 2.0, 1.0, 2.0]), 3)
    assert documents.tolist() == [5, 9, 3]
    assert scores.tolist() == [2.0, 2.0, 1.0]
