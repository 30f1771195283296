import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.sparse import blocks
from espalier.sparse.traversal import Guidance, Postings, exhaustive, guided
from tests.sparse.section3 import brute_force, dual_guidance


def make_postings(lists, block_size):
    """Postings from [{doc: (bm25, learned)}…] per term."""
    rows = [(t, d, *w) for t, posting in enumerate(lists) for d, w in sorted(posting.items())]
    terms = np.array([r[0] for r in rows], np.int64)
    docs = np.array([r[1] for r in rows], np.uint32)
    b, learned = (np.array([r[c] for r in rows], np.uint8) for c in (2, 3))
    begin = np.searchsorted(terms, np.arange(len(lists) + 1)).astype(np.int64)
    term_block, block_begin = blocks.fixed(begin, block_size)

    def per_term(w):
        return np.array([w[terms == t].max(initial=0) for t in range(len(lists))], np.uint8)

    return Postings(
        docs, b, learned, begin, per_term(b), per_term(learned), term_block, block_begin,
        docs[block_begin[1:] - 1], blocks.maxima(b, block_begin),
        blocks.maxima(learned, block_begin),
    )  # fmt: skip


DOCUMENTS = 40
# Few distinct weights, so that ties are everywhere.
weight = st.sampled_from([0, 1, 2, 3, 200, 255])
posting_list = st.dictionaries(
    st.integers(0, DOCUMENTS - 1), st.tuples(weight, weight), max_size=DOCUMENTS
)
indexes = st.tuples(st.lists(posting_list, min_size=1, max_size=6), st.integers(1, 5))
share = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])
factor = st.sampled_from([1.0, 1.3, 1.7])
query_weights = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 130)), min_size=6, max_size=6)


def make_query(lists, weights):
    n = len(lists)
    columns = ([w[c] for w in weights[:n]] for c in (0, 1))
    return (np.arange(n), *(np.array(c, np.int64) for c in columns))


def pairs(ranking):
    return list(zip(ranking[0].tolist(), ranking[1].tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(indexes, query_weights, share, st.integers(1, 12))
def test_exhaustive_and_safe_guidance_equal_brute_force(index, weights, beta, k):
    postings, query = make_postings(*index), make_query(index[0], weights)
    expected = brute_force(postings, query, DOCUMENTS, beta, k)
    assert pairs(exhaustive(postings, query, DOCUMENTS, beta, k)) == expected
    for dual in (False, True):
        for uniform in (False, True):
            safe = Guidance(beta, beta, dual=dual, uniform=uniform)
            assert pairs(guided(postings, query, DOCUMENTS, safe, k)) == expected


@settings(max_examples=200, deadline=None)
@given(
    indexes, query_weights,
    st.builds(Guidance, share, share, factor, factor, st.booleans(), st.booleans()),
    st.integers(1, 12),
)  # fmt: skip
@example(([{0: (1, 0)}], 1), [(1, 1)] * 6, Guidance(1.0, 0.0, dual=True), 1)
def test_the_kernel_follows_section_3(index, weights, guidance, k):
    postings, query = make_postings(*index), make_query(index[0], weights)
    expected, (scored, read, loaded) = dual_guidance(postings, query, DOCUMENTS, guidance, k)
    ranking = guided(postings, query, DOCUMENTS, guidance, k)
    assert pairs(ranking) == expected
    counters = ranking[2]
    assert (counters.documents_scored, counters.postings) == (scored, read)
    assert counters.blocks_loaded == loaded <= counters.blocks


def test_guidance_skips_what_scores_low_under_bm25():
    # Document 1 has the higher final (learned) score, but its BM25 bound is under the threshold
    # that document 0 set: by section 3, α = 1 skips it unscored.
    postings = make_postings([{0: (9, 5), 1: (3, 50)}], 1)
    query = (np.array([0]), np.array([1]), np.array([1]))
    docs, scores, counters = guided(postings, query, 2, Guidance(1.0, 0.0), 1)
    assert (docs.tolist(), scores.tolist(), counters.documents_scored) == ([0], [5.0], 1)
    # With k = 2 the queue is not full and nothing may be skipped.
    docs, _, _ = guided(postings, query, 2, Guidance(1.0, 0.0), 2)
    assert docs.tolist() == [1, 0]


def test_over_estimation_skips_what_is_not_far_better():
    # Weights 1 … 40 in document order, one a block, k = 1. F = 1 scores all 40. With F = 1.3 the
    # next scored is the first above 1.3 times the last: 1 2 3 4 6 8 11 15 20 27 36, and no
    # weight is above 46.8.
    postings = make_postings([{d: (0, d + 1) for d in range(40)}], 1)
    query = (np.array([0]), np.array([0]), np.array([1]))
    for factor, scored, best in ((1.0, 40, 39), (1.3, 11, 35)):
        docs, _, counters = guided(postings, query, 40, Guidance(0, 0, f_s=factor), 1)
        assert counters.documents_scored == scored
        assert docs.tolist() == [best]


@pytest.mark.parametrize("terms", [[], [1]])
def test_no_terms_and_absent_terms_retrieve_nothing(terms):
    postings = make_postings([{0: (1, 1)}, {}], 2)
    query = (np.array(terms, np.int64), *(np.ones(len(terms), np.int64) for _ in range(2)))
    for ranking in (
        exhaustive(postings, query, 1, 0.5, 3),
        guided(postings, query, 1, Guidance(0.5, 0.5), 3),
    ):
        assert len(ranking[0]) == 0
        assert ranking[2].documents_scored == 0
