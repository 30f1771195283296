import json

import ir_datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import GenericDoc, GenericQuery, TrecQrel

from espalier.collections import snapshot
from espalier.collections.access import Doc, Judgment
from espalier.collections.alignment import align, in_text, relevant, squeezed
from espalier.collections.view import View
from tests.collections.test_snapshot import Fixed

SPACES = st.text(" \t\n\u00a0\u2003", max_size=3)


def test_passages_are_found_in_the_documents_of_their_query():
    text = "Birds.\n\nOwls hunt\tby night,\nnot by day.  Tits sing."
    documents = [
        Judgment("q1", "d1", 1),
        Judgment("q2", "d1", 3),
        Judgment("q2", "d2", 0),
        Judgment("q3", "d2", 1),
    ]
    passages = [
        Judgment("q1", "p1", 1),
        Judgment("q1", "p2", 1),
        Judgment("q2", "p3", 1),
        Judgment("q3", "p1", 1),
        Judgment("q9", "p1", 1),
    ]
    texts = [
        Doc("p1", "", "Owls hunt by night, not by day."),
        Doc("p2", "", "Tits sing."),
        Doc("p3", "", "Tits  dance."),
    ]
    found = relevant(passages, documents)
    align({"test": found}, texts, [Doc("d1", "", text), Doc("d2", "", "Nothing on owls.")])
    assert [text[s:e] for s, e in found.places["q1", "d1"]] == [
        "Owls hunt\tby night,\nnot by day.",
        "Tits sing.",
    ]
    assert set(found.places) == {("q1", "d1")}
    assert found.counts("test") == {
        "test_relevant_passages_of_all_queries": 5,
        "test_relevant_passages": 4,
        "test_relevant_passages_aligned": 2,
        "test_share_aligned": 0.5,
        "test_relevant_documents": 3,
        "test_relevant_documents_aligned": 1,
    }


def test_the_level_holds_for_passages_alone():
    documents, passages = [Judgment("q", "d", 1)], [Judgment("q", "p1", 1), Judgment("q", "p2", 2)]
    assert relevant(passages, documents, level=2).passages == [("q", "p2")]
    assert relevant(passages, documents, level=2).documents == {("q", "d")}


def test_an_empty_passage_stands_nowhere():
    found = relevant([Judgment("q", "p", 1)], [Judgment("q", "d", 1)])
    align({"test": found}, [Doc("p", "", " \n")], [Doc("d", "", "some text")])
    assert not found.places
    assert not found.found


@given(st.lists(st.tuples(st.text("aäß.", min_size=1, max_size=4), SPACES), min_size=1), st.data())
def test_places_survive_any_white_space(words, data):
    text = "".join(word + space for word, space in words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    passage = data.draw(SPACES).join(word for word, _ in words[first : last + 1])
    start = squeezed(text).find(squeezed(passage))
    ((begin, end),) = in_text(text, [(start, start + len(squeezed(passage)))])
    assert squeezed(text[begin:end]) == squeezed(passage)
    assert not text[begin].isspace()
    assert not text[end - 1].isspace()


@pytest.fixture
def registered(monkeypatch):
    def register(name, docs, queries, qrels):
        dataset = Dataset(Fixed(docs, queries, qrels))
        monkeypatch.setitem(ir_datasets.registry._registered, name, dataset)

    return register


def test_a_snapshot_with_passages(registered, tmp_path):
    registered(
        "long",
        [GenericDoc("d1", "first\nthe answer. last"), GenericDoc("d2", "nothing")],
        [GenericQuery("q1", "what"), GenericQuery("q2", "who")],
        [TrecQrel("q1", "d1", 1, "0"), TrecQrel("q2", "d2", 1, "0")],
    )
    registered(
        "short",
        [GenericDoc("p1", "The answer."), GenericDoc("p2", "the  answer.")],
        [],
        [TrecQrel("q1", "p1", 1, "0"), TrecQrel("q1", "p2", 2, "0"), TrecQrel("q9", "p1", 2, "0")],
    )
    config = {
        "docs": "long",
        "splits": {"test": "long"},
        "passages": {"docs": "short", "splits": {"test": "short"}, "relevance": {"test": 2}},
    }
    counts = snapshot.take(tmp_path / "view", config, 1)
    assert counts["test_share_aligned"] == 1
    assert counts["test_relevant_passages"] == 1
    assert View(tmp_path / "view").spans("test").to_numpy().tolist() == [["q1", "d1", 6, 17]]
    manifest = json.loads((tmp_path / "view/manifest.json").read_text())
    assert manifest["docs"] == "long"
    found = {"of_all_queries": 2, "relevant": 1, "aligned": 1}
    assert manifest["splits"]["test"]["passages"] == found
