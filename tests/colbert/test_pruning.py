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
    order = pruning.orders(layout, frequency, frequency, 1)["first"](queries)
    assert order.tolist() == [list(range(12))] * 2


def test_icf_by_hand(layout, frequency):
    # 0 [CLS], 1 [Q], 2 graph, 3 of, 4 norm (unseen), 5 edge, 6 tree, 7 vector (unseen), 8 [SEP]
    queries = layout.queries(["graph of norm edge tree vector", "of"])
    order = pruning.orders(layout, frequency, frequency, 1)["icf"](queries)
    assert order[0].tolist() == [6, 2, 5, 3, 4, 7, 0, 1, 8, 9, 10, 11]
    assert order[1].tolist() == [2, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_unseen_word_pieces_can_come_first(layout, frequency):
    queries = layout.queries(["graph of norm edge tree vector", "norm"])
    order = pruning.orders(layout, frequency, frequency, 1)["icf-unseen"](queries)
    assert order[0].tolist() == [4, 7, 6, 2, 5, 3, 0, 1, 8, 9, 10, 11]
    assert order[1].tolist() == [2, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_idf_takes_the_frequency_in_documents(layout, frequency):
    in_documents = frequency.copy()
    in_documents[ID["graph"]] = 1  # all five in one document, so rarer than tree
    queries = layout.queries(["graph of norm edge tree vector"])
    order = pruning.orders(layout, frequency, in_documents, 1)["idf"](queries)
    assert order[0].tolist() == [2, 6, 5, 3, 4, 7, 0, 1, 8, 9, 10, 11]


def test_the_published_codes_order_by_hand(layout, frequency):
    # tree 2, graph 5, edge 5, [CLS] 40, of 90; then [Q], norm, vector, [SEP] (no count), masks.
    queries = layout.queries(["graph of norm edge tree vector"])
    order = pruning.orders(layout, frequency, frequency, 1)["icf-code"](queries)
    assert order[0].tolist() == [6, 2, 5, 0, 3, 1, 4, 7, 8, 9, 10, 11]


def test_random_orders_are_permutations_that_seed_and_query_decide(layout, frequency):
    queries = layout.queries([f"{word} of edge" for word in ("graph", "tree", "norm")] * 2)
    order = pruning.orders(layout, frequency, frequency, 1)["random"](queries)
    assert (np.sort(order, axis=1) == np.arange(12)).all()
    assert order[:3].tolist() == order[3:].tolist()
    assert len({tuple(row) for row in order.tolist()}) == 3
    alone = pruning.orders(layout, frequency, frequency, 1)["random"](queries[1:2])
    assert alone[0].tolist() == order[1].tolist()
    other = pruning.orders(layout, frequency, frequency, 2)["random"](queries)
    assert other.tolist() != order.tolist()


@pytest.mark.parametrize(
    ("text", "share", "p"),
    [
        # Weights in ICF order: tree 1/2, graph 1/5, edge 1/5, of 1/90; unseen ones nothing.
        # Sums .5, .7, .9, .911; shares of the whole .549, .768, .988, 1.
        ("graph of norm edge tree vector", 0.5, 1),
        ("graph of norm edge tree vector", 0.6, 2),
        ("graph of norm edge tree vector", 0.9, 3),
        ("graph of norm edge tree vector", 0.99, 4),
        ("graph of norm edge tree vector", 1.0, 4),
        ("of of of of", 0.5, 2),  # each a quarter: two reach one half exactly
        ("of of of of", 0.51, 3),
        ("of", 1.0, 1),
        ("norm vector", 0.9, 1),  # no document has them
        ("", 0.9, 1),
    ],
)
def test_p_by_query_by_hand(layout, frequency, text, share, p):
    assert pruning.selective(layout.queries([text]), layout, frequency, share).tolist() == [p]


def test_p_by_query_does_not_depend_on_other_queries(layout, frequency):
    texts = ["graph of edge", "tree of", "", "norm"]
    together = pruning.selective(layout.queries(texts), layout, frequency, 0.6)
    alone = [pruning.selective(layout.queries([t]), layout, frequency, 0.6)[0] for t in texts]
    assert together.tolist() == alone == [2, 1, 1, 1]


def test_an_empty_query_is_searched_by_cls_first(layout, frequency):
    order = pruning.orders(layout, frequency, frequency, 1)["icf"](layout.queries([""]))
    assert order[0].tolist() == list(range(12))  # [CLS], [Q], [SEP], masks


def test_kinds_count_as_the_paper_does(layout):
    queries = layout.queries(["graph of edge", "tree"])
    counts = {kind: count.tolist() for kind, count in pruning.kinds(queries, layout).items()}
    assert counts == {"masks": [6, 8], "tokens_without_masks": [6, 4], "word_pieces": [3, 1]}
