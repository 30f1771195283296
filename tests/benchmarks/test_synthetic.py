import numpy as np
import pytest
from scipy import stats

from benchmarks import synthetic
from espalier.sparse import reorder


@pytest.fixture(scope="module")
def made():
    (block,) = synthetic.collection(20_000, seed=3, block=20_000)
    return block


def same(a, b):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(a, b, strict=True))


def test_the_same_seed_gives_the_same_documents_whatever_the_blocks(made):
    for size in (7_000, 15_000):
        parts = list(synthetic.collection(20_000, seed=3, block=size))
        assert [len(part.lengths) for part in parts[:-1]] == [size] * (len(parts) - 1)
        assert same(synthetic.joined(parts), made)
    (fewer,) = synthetic.collection(12_345, seed=3)
    assert same(fewer, synthetic.part(made, 0, 12_345))
    (other,) = synthetic.collection(12_345, seed=4)
    assert not np.array_equal(other.lengths, fewer.lengths)


def test_documents_are_well_formed(made):
    assert made.doc_begin[0] == 0 and made.doc_begin[-1] == len(made.terms)
    assert [a.dtype for a in made] == [np.int64, np.int64, np.int32, np.int32, np.float32]
    docs = np.repeat(np.arange(20_000), np.diff(made.doc_begin))
    assert (np.diff(docs * synthetic.VOCABULARY + made.terms) > 0).all()
    assert made.terms.min() >= 0 and made.terms.max() < synthetic.VOCABULARY
    assert made.frequency.min() == 1
    assert np.bincount(docs, made.frequency).tolist() == made.lengths.tolist()
    assert made.learned.min() > 0 and made.learned.max() <= synthetic.TOP


def test_statistics_are_as_stated(made):
    distinct = np.diff(made.doc_begin)
    assert distinct.mean() == pytest.approx(66, abs=1)
    low, high = np.percentile(distinct, [5, 95])
    assert 35 < low < 50 and 85 < high < 105
    assert (made.frequency == 1).mean() == pytest.approx(0.75, abs=0.01)
    frequency = np.bincount(made.terms, minlength=synthetic.VOCABULARY)
    # As in English text: the commonest term in most documents, half of the terms in few.
    assert frequency.argmax() == 0 and 0.6 < frequency[0] / 20_000 < 0.9
    assert np.median(frequency) < 0.002 * 20_000
    idf = np.log(20_000 / np.maximum(frequency, 1))[made.terms]
    lexical = made.frequency * idf
    assert stats.spearmanr(lexical, made.learned)[0] == pytest.approx(0.5, abs=0.05)
    # Learned weights lean to the high side of their range, tf · idf to the low one.
    assert stats.skew(made.learned) < -0.5 and np.median(made.learned) > 0.6 * synthetic.TOP
    assert stats.skew(lexical) > 0.5 and np.median(lexical) < 0.4 * lexical.max()
    stop = made.terms < synthetic.STOP_WORDS
    assert (made.learned[stop] < np.median(made.learned)).mean() > 0.8


def test_documents_of_a_topic_can_be_brought_together(made):
    some = synthetic.part(made, 0, 5_000)
    order = reorder.bisection(some.terms, some.doc_begin, synthetic.VOCABULARY)
    before, after = (
        reorder.log_gap_cost(some.terms, some.doc_begin, synthetic.VOCABULARY, o)
        for o in (None, order)
    )
    assert after < before - 0.5


def test_queries_are_drawn_from_documents(made):
    found = synthetic.queries(120, 20_000, seed=3)
    assert len(found) == 120
    assert all(
        same(a, b) for a, b in zip(found[:60], synthetic.queries(60, 20_000, 3), strict=True)
    )
    sizes = [len(query.terms) for query in found]
    assert min(sizes) == 5 and max(sizes) == 15
    documents = [set(part.tolist()) for part in np.split(made.terms, made.doc_begin[1:-1])]
    for query in found:
        assert (np.diff(query.terms) > 0).all()
        assert any(document.issuperset(query.terms.tolist()) for document in documents)
        assert (query.frequency == 1).all()
        assert query.learned.min() >= np.float32(0.3) and query.learned.max() <= 3
    # Rarer terms than those of documents.
    terms = np.concatenate([query.terms for query in found])
    assert np.median(terms) > 2 * np.median(made.terms)
