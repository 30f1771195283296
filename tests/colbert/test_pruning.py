import numpy as np
import pytest

from espalier.colbert import encoder, pruning
from tests.colbert.conftest import ID, VOCABULARY


@pytest.fixture(scope="module")
def layout(bert):
    shape = {"layers": 1, "dimensions": 8, "query_length": 12, "doc_maxlen": 10}
    return encoder.new(bert, **shape, drop_punctuation=True).layout


@pytest.fixture
def frequency():
    counts = np.zeros(len(VOCABULARY), dtype=np.int64)
    for token, count in {"graph": 5, "tree": 2, "of": 90, "edge": 5, "[CLS]": 40}.items():
        counts[ID[token]] = count
    return counts


def test_first_is_the_order_of_the_query(layout, frequency):
    queries = layout.queries(["graph of edge", "tree"])
    order = pruning.orders(layout, frequency)["first"](queries)
    assert order.tolist() == [list(range(12))] * 2


def test_icf_by_hand(layout, frequency):
    # 0 [CLS], 1 [Q], 2 graph, 3 of, 4 norm (unseen), 5 edge, 6 tree, 7 vector (unseen), 8 [SEP]
    queries = layout.queries(["graph of norm edge tree vector", "of"])
    order = pruning.orders(layout, frequency)["icf"](queries)
    assert order[0].tolist() == [6, 2, 5, 3, 4, 7, 0, 1, 8, 9, 10, 11]
    assert order[1].tolist() == [2, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_kinds_count_as_the_paper_does(layout):
    queries = layout.queries(["graph of edge", "tree"])
    assert pruning.kinds(queries, layout) == {
        "masks_per_query": 7.0,
        "tokens_without_masks_per_query": 5.0,
        "word_pieces_per_query": 2.0,
    }
