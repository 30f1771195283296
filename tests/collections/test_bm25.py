import math
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.collections.bm25 import Bm25, top

DOCS = [
    SimpleNamespace(doc_id="d3", title="Red fox", text="quick red fox jumps over lazy dogs"),
    SimpleNamespace(doc_id="d1", title="", text="Dogs sleep; dogs eat, and dogs sleep again."),
    SimpleNamespace(doc_id="d2", title="", text="the fox eats"),
    SimpleNamespace(doc_id="d0", title="", text="the fox eats"),
]
STOP = {"the", "and"}


def words(text):
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP]


def by_hand(query, k1, b):
    texts = [words(f"{doc.title} {doc.text}") for doc in DOCS]
    mean = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score, tf = 0.0, Counter(text)
        for word in words(query):
            df = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            score += idf * tf[word] / (tf[word] + k1 * (1 - b + b * len(text) / mean))
        scores.append(score)
    return scores


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (0.5, 0.0)])
@pytest.mark.parametrize("query", ["fox", "Dogs eat", "red dogs sleep", "dogs dogs unicorn"])
def test_scores_are_the_formula(query, k1, b):
    assert Bm25(DOCS, k1=k1, b=b).scores(query) == pytest.approx(by_hand(query, k1, b), rel=1e-5)


def test_ties_go_by_doc_id_and_nothing_unmatched_is_returned():
    run = Bm25(DOCS).retrieve({"q1": "eats", "q2": "unicorn", "q3": "the", "q4": "fox"}, depth=2)
    assert run.groupby("query_id")["doc_id"].agg(list).to_dict() == {
        "q1": ["d0", "d2"],
        "q4": ["d3", "d0"],
    }
    assert run["score"].dtype == np.float32


def test_no_query_matches_at_all():
    run = Bm25(DOCS).retrieve({"q": "unicorn"})
    assert run.empty
    assert list(run.columns) == ["query_id", "doc_id", "score"]


@given(st.lists(st.sampled_from([0, 0, 1, 2, 3.5]), min_size=1, max_size=30), st.data())
def test_top_is_a_full_sort_cut_off(scores, data):
    places = np.array(data.draw(st.permutations(range(len(scores)))))
    depth = data.draw(st.integers(1, 40))
    expected = sorted((-s, places[i], i) for i, s in enumerate(scores) if s > 0)[:depth]
    found = top(np.array(scores, dtype=np.float32), places, depth)
    assert found.tolist() == [i for _, _, i in expected]
