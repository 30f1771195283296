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
    limit=st.integers(1, 60),
    seed=st.integers(0, 2**20),
)
def test_maxsim_is_equation_1(lengths, limit, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    embeddings = rng.normal(size=(offsets[-1], 8)).astype(np.float16)
    query = rng.normal(size=(5, 8)).astype(np.float32)
    documents = np.flatnonzero(rng.random(len(lengths)) < 0.7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maxsim, "CHUNK_TOKENS", limit)
        scores = maxsim.maxsim(query, embeddings, offsets, documents)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(
        scores, brute_force(query, embeddings, offsets, documents), rtol=1e-4, atol=1e-4
    )


def test_a_negative_maximum_stays_negative():
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    embeddings = np.array([[-0.5, 0.0], [-0.25, 0.5]], dtype=np.float16)
    assert maxsim.maxsim(query, embeddings, np.array([0, 2]), np.array([0])) == [-0.25]


@given(lengths=st.lists(st.integers(0, 9), max_size=30), limit=st.integers(1, 12))
def test_chunks_cover_the_documents_within_the_limit(lengths, limit):
    bounds = maxsim.chunks(np.array(lengths, dtype=np.int64), limit)
    assert [i for a, b in bounds for i in range(a, b)] == list(range(len(lengths)))
    assert all(b - a == 1 or sum(lengths[a:b]) <= limit for a, b in bounds)


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
