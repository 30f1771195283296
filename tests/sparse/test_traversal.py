import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.sparse import retrieval
from espalier.sparse.guidance import Guidance, empty_queue, offer_uniform
from espalier.sparse.postings import Query
from espalier.sparse.retrieval import search
from tests.sparse.made import make_index, make_query
from tests.sparse.section3 import brute_force, dual_guidance

SAFE = ("daat", "taat", "maxscore", "blockmax-maxscore", "wand", "bmw", "vbmw", "auto")
DOCUMENTS = 40
# Few distinct weights, so that ties are everywhere.
weight = st.sampled_from([0, 1, 2, 3, 200, 255])
posting_list = st.dictionaries(
    st.integers(0, DOCUMENTS - 1), st.tuples(weight, weight), max_size=DOCUMENTS
)
collections = st.tuples(st.lists(posting_list, min_size=1, max_size=6), st.integers(1, 5))
share = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])
factor = st.sampled_from([1.0, 1.3, 1.7])
query_weights = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 130)), min_size=6, max_size=6)
guidances = st.builds(Guidance, share, share, factor, factor, st.booleans(), st.booleans())


def guided(guidance):
    """A config's setting for DTHS."""
    return {
        "algorithm": "dths",
        **dict(zip(("alpha", "beta", "f_s", "f_f"), guidance[:4], strict=True)),
        "threshold": "dual" if guidance.dual else "single",
        "view": "uniform" if guidance.uniform else "independent",
    }


def pairs(ranking):
    return list(zip(ranking[0].tolist(), ranking[1].tolist(), strict=True))


@settings(max_examples=120, deadline=None)
@given(collections, query_weights, share, st.integers(1, 50))
def test_every_safe_setting_equals_brute_force(collection, weights, beta, k):
    lists, block_size = collection
    index, query = make_index(lists, block_size, DOCUMENTS), make_query(weights[: len(lists)])
    expected = brute_force(lists, query, beta, k)
    for algorithm in SAFE:
        found = search(index, query, {"algorithm": algorithm, "beta": beta}, k)
        assert pairs(found) == expected, algorithm
    for dual in (False, True):
        for uniform in (False, True):
            safe = guided(Guidance(beta, beta, dual=dual, uniform=uniform))
            assert pairs(search(index, query, safe, k)) == expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2]), st.sampled_from([1, 7, 100, 3000]))
def test_safe_settings_equal_exhaustive_scoring_over_many_windows(seed, beta, k):
    rng = np.random.default_rng(seed)
    documents = 3000
    lists = [
        {
            int(doc): (int(rng.integers(256)), int(rng.integers(1, 256)))
            for doc in rng.choice(documents, int(documents * rng.choice([0.003, 0.1, 0.6])), False)
        }
        for _ in range(5)
    ]
    index = make_index(lists, 16, documents)
    query = make_query([(1, int(w)) for w in rng.integers(1, 50, 5)])
    expected = brute_force(lists, query, beta, k)
    for algorithm in SAFE:
        found = search(index, query, {"algorithm": algorithm, "beta": beta}, k)
        assert pairs(found) == expected, algorithm


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2]), st.sampled_from([1, 10, 40]))
def test_long_queries_with_many_cursors_at_one_document(seed, beta, k):
    rng = np.random.default_rng(seed)
    documents = 200
    lists = [
        {
            int(doc): (int(rng.integers(9)), min(int(rng.geometric(0.02)), 255))
            for doc in rng.choice(documents, int(documents * rng.uniform(0.05, 0.5)), False)
        }
        for _ in range(20)
    ]
    index = make_index(lists, 3, documents)
    query = make_query([(1, int(w)) for w in rng.integers(1, 9, 20)])
    expected = brute_force(lists, query, beta, k)
    for algorithm in SAFE:
        found = search(index, query, {"algorithm": algorithm, "beta": beta}, k)
        assert pairs(found) == expected, algorithm
    for dual in (False, True):
        assert pairs(search(index, query, guided(Guidance(beta, beta, dual=dual)), k)) == expected


@settings(max_examples=200, deadline=None)
@given(collections, query_weights, guidances, st.integers(1, 12))
@example(([{0: (1, 0)}], 1), [(1, 1)] * 6, Guidance(1.0, 0.0, dual=True), 1)
def test_the_kernel_follows_section_3(collection, weights, guidance, k):
    lists, block_size = collection
    index, query = make_index(lists, block_size, DOCUMENTS), make_query(weights[: len(lists)])
    expected, (scored, read, loaded) = dual_guidance(index, query, DOCUMENTS, guidance, k)
    ranking = search(index, query, guided(guidance), k)
    assert pairs(ranking) == expected
    counters = ranking[2]
    assert (counters.documents_scored, counters.postings) == (scored, read)
    assert counters.blocks_loaded == loaded <= counters.blocks


@pytest.mark.parametrize("k", [9_999, 10_000])
def test_ten_thousand_results(k):
    rng = np.random.default_rng(k)
    documents = 12_000
    lists = [
        {int(doc): (int(rng.integers(9)), int(rng.integers(1, 9))) for doc in docs}
        for docs in (rng.choice(documents, size, False) for size in (11_000, 6_000, 300))
    ]
    index, query = make_index(lists, 64, documents), make_query([(1, 3), (2, 1), (1, 5)])
    expected = brute_force(lists, query, 0.2, k)
    assert len(expected) == k
    for algorithm in SAFE:
        assert pairs(search(index, query, {"algorithm": algorithm, "beta": 0.2}, k)) == expected
    for uniform in (False, True):
        safe = guided(Guidance(0.2, 0.2, dual=True, uniform=uniform))
        assert pairs(search(index, query, safe, k)) == expected


@settings(max_examples=100, deadline=None)
@given(
    collections, st.lists(st.integers(1, 130), min_size=6, max_size=6), factor, st.integers(1, 12)
)
def test_over_estimated_vbmw_follows_section_3_with_one_weight(collection, weights, factor, k):
    # What F skips and scores is thereby what the definition says, step by step. No weight is 0:
    # such a document is no result of VBMW's, but has a place in section 3's queues.
    lists = [
        {doc: (b, max(learned, 1)) for doc, (b, learned) in row.items()} for row in collection[0]
    ]
    block_size = collection[1]
    index = make_index(lists, block_size, DOCUMENTS)
    query = make_query([(1, w) for w in weights[: len(lists)]])
    guidance = Guidance(0.0, 0.0, factor)
    expected, (scored, read, loaded) = dual_guidance(index, query, DOCUMENTS, guidance, k)
    ranking = search(index, query, {"algorithm": "vbmw", "beta": 0.0, "f": factor}, k)
    assert pairs(ranking) == expected
    assert ranking[2][:3] == (scored, read, loaded)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.integers(1, 6))
def test_the_uniform_view_keeps_the_same_documents_in_both_queues_at_every_step(offered, k):
    queues, size = (empty_queue(k), empty_queue(k)), 0
    for doc, scores in enumerate(offered):
        size = offer_uniform(*queues, size, doc, *scores)
        # The k best by the final score, ties to those that came first, and their scores by both.
        best = sorted(range(doc + 1), key=lambda d: (-offered[d][1], d))[:k]
        for side, queue in enumerate(queues):
            held = dict(zip(queue.docs[:size].tolist(), queue.scores[:size].tolist(), strict=True))
            assert held == {d: offered[d][side] for d in best}
            slots = queue.heap[:size].tolist()
            assert sorted(slots) == list(range(size))
            ranks = [(queue.scores[slot], -queue.docs[slot]) for slot in slots]
            assert all(ranks[(i - 1) // 2] <= ranks[i] for i in range(1, size))


@settings(max_examples=60, deadline=None)
@given(collections, query_weights, factor, st.integers(1, 12))
def test_what_over_estimation_returns_is_scored_right_and_near_the_best(
    collection, weights, factor, k
):
    # Nothing above F · Θ is ever skipped, and Θ is never above the k-th best score.
    lists, block_size = collection
    index, query = make_index(lists, block_size, DOCUMENTS), make_query(weights[: len(lists)])
    everything = dict(brute_force(lists, query, 0.0, DOCUMENTS))
    best = list(everything.values())[:k]
    for algorithm in ("maxscore", "blockmax-maxscore", "wand", "bmw", "vbmw"):
        found = pairs(search(index, query, {"algorithm": algorithm, "beta": 0, "f": factor}, k))
        assert all(everything[doc] == score for doc, score in found)
        returned = [doc for doc, _ in found]
        if len(best) == k:
            assert all(d in returned for d, s in everything.items() if s > factor * best[-1])
        else:
            assert found == list(everything.items())


@settings(max_examples=60, deadline=None)
@given(collections, query_weights, st.integers(1, 50))
def test_exhaustive_counters_are_those_of_the_lists(collection, weights, k):
    lists, block_size = collection
    index = make_index(lists, block_size, DOCUMENTS)
    query = make_query([(1, 1 + w) for _, w in weights[: len(lists)]])
    documents = {doc for posting in lists for doc, (_, learned) in posting.items() if learned > 0}
    postings = sum(map(len, lists))
    for algorithm in ("daat", "taat"):
        counters = search(index, query, {"algorithm": algorithm, "beta": 0}, k)[2]
        if algorithm == "taat":
            assert counters.documents_scored == len(documents)
        assert counters.postings == postings
        assert counters.blocks_loaded == counters.blocks
    for algorithm in SAFE:
        counters = search(index, query, {"algorithm": algorithm, "beta": 0}, k)[2]
        assert counters.postings <= postings
        assert counters.blocks_loaded <= counters.blocks


@settings(max_examples=60, deadline=None)
@given(collections, query_weights, share, st.integers(1, 50))
def test_float_weights_on_a_binary_grid_are_exact_too(collection, weights, beta, k):
    lists, block_size = collection
    halves = [{d: (b / 2, w / 4) for d, (b, w) in posting.items()} for posting in lists]
    index = make_index(halves, block_size, DOCUMENTS, np.float32)
    query = make_query(weights[: len(lists)])
    expected = brute_force(halves, query, beta, k)
    for algorithm in SAFE:
        found = search(index, query, {"algorithm": algorithm, "beta": beta}, k)
        assert pairs(found) == expected, algorithm


def test_guidance_skips_what_scores_low_under_bm25():
    # Document 1 has the higher final (learned) score, but its BM25 bound is under the threshold
    # that document 0 set: by section 3, α = 1 skips it unscored.
    index = make_index([{0: (9, 5), 1: (3, 50)}], 1, 2)
    query = make_query([(1, 1)])
    setting = guided(Guidance(1.0, 0.0))
    docs, scores, counters = search(index, query, setting, 1)
    assert (docs.tolist(), scores.tolist(), counters.documents_scored) == ([0], [5.0], 1)
    # With k = 2 the queue is not full and nothing may be skipped.
    assert search(index, query, setting, 2)[0].tolist() == [1, 0]


def test_over_estimation_skips_what_is_not_far_better():
    # Weights 1 … 40 in document order, one a block, k = 1. F = 1 scores all 40. With F = 1.3 the
    # next scored is the first above 1.3 times the last: 1 2 3 4 6 8 11 15 20 27 36, and no
    # weight is above 46.8.
    index = make_index([{d: (0, d + 1) for d in range(40)}], 1, 40)
    query = make_query([(0, 1)])
    for factor, scored, best in ((1.0, 40, 39), (1.3, 11, 35)):
        by_hand = {"algorithm": "bmw", "beta": 0, "f": factor}
        for setting in (by_hand, guided(Guidance(0, 0, f_s=factor))):
            docs, _, counters = search(index, query, setting, 1)
            assert counters.documents_scored == scored
            assert docs.tolist() == [best]


@pytest.mark.parametrize("terms", [[], [1]])
@pytest.mark.parametrize("algorithm", [*SAFE, "dths"])
def test_no_terms_and_empty_lists_retrieve_nothing(terms, algorithm):
    index = make_index([{0: (1, 1)}, {}], 2, 1)
    ones = np.ones(len(terms), np.int64)
    query = Query(np.array(terms, np.int64), ones, ones)
    setting = {**guided(Guidance(0.5, 0.5)), "algorithm": algorithm}
    docs, scores, counters = search(index, query, setting, 3)
    assert len(docs) == len(scores) == counters.documents_scored == 0


def test_auto_adds_all_up_in_a_small_collection_and_prunes_in_a_larger_one(monkeypatch):
    # From the second window on, the second list alone cannot lift a document over the first five.
    documents = 2000
    lists = [{d: (0, 200 + d) for d in range(9)}, dict.fromkeys(range(documents), (0, 1))]
    index, query = make_index(lists, 16, documents), make_query([(0, 1), (0, 1)])

    def counters(algorithm):
        return search(index, query, {"algorithm": algorithm, "beta": 0.0}, 5)[2]

    assert counters("taat").postings == documents + 9 > counters("maxscore").postings
    monkeypatch.setattr(retrieval, "FEW_DOCUMENTS", documents)
    assert counters("auto") == counters("taat")
    monkeypatch.setattr(retrieval, "FEW_DOCUMENTS", documents - 1)
    assert counters("auto") == counters("maxscore")


def test_heavy_query_weights_do_not_overflow():
    index = make_index([{0: (1, 255), 1: (1, 254)}], 2, 2)
    query = make_query([(1, 10**12)])
    for algorithm in SAFE:
        found = search(index, query, {"algorithm": algorithm, "beta": 0}, 2)
        assert pairs(found) == [(0, 255e12), (1, 254e12)]
