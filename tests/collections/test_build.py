from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.collections.pydocs.build import build, is_query, split_of
from espalier.collections.pydocs.duplicates import ALIKE, SHINGLE, near_duplicates
from espalier.collections.pydocs.pages import Member, Page
from espalier.collections.splits import SPLITS


def body(word):
    return " ".join(f"{word}{i} answers in a way of its own." for i in range(6))


def member(name, summary, text=None):
    return Member(name, f"{name}(x)", summary, body(name) if text is None else text)


def page(name, *members, text=""):
    return Page(name, text, members)


def test_queries_lead_to_passage_and_span():
    adds, counts = (
        member("m.add", "Adds two numbers with great care."),
        member("m.count", "Counts all sheep over the fence."),
    )
    collection = build([page("m", adds, counts, text="A module of sums.")])
    assert [q.text for q in collection.questions] == [adds.summary, counts.summary]
    assert {p.doc_id: p.text for p in collection.passages} == {
        "m.add": adds.text,
        "m.count": counts.text,
    }
    (document,) = collection.documents
    assert document.text == (
        f"A module of sums.\n\nm.add(x)\n{adds.text}\n\nm.count(x)\n{counts.text}"
    )
    assert [document.text[q.start : q.end] for q in collection.questions] == [
        adds.text,
        counts.text,
    ]


def test_a_summary_shared_by_members_is_no_query_and_stays_on_its_page():
    summary = "Fits the model to the data."
    pages = [page("A", member("A.fit", summary)), page("B", member("B.fit", summary))]
    collection = build(pages)
    assert not collection.questions
    assert all(summary in document.text for document in collection.documents)


def test_a_summary_that_stands_elsewhere_on_its_page_is_no_query():
    adds = member("m.add", "Adds two numbers with great care.")
    assert not build([page("m", adds, text="add -- adds two numbers, with great care")]).questions


def test_a_repeated_text_is_kept_once():
    text = body("word")
    first = member("A.get", "Gets one thing out of A.", text)
    again = member("B.get", "Gets one thing out of B.", text.replace("word3", "term3"))
    collection = build([page("A", first), page("B", again, text=body("page"))])
    assert [p.doc_id for p in collection.passages] == ["A.get"]
    assert "answers" not in collection.documents[1].text.replace(body("page"), "")


def test_short_pages_are_left_out():
    assert not build([page("m", text="Only a few words.")]).documents


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("Return the sum of all elements.", True),
        ("Return the sum of a + b.", True),
        ("Return the sum.", False),
        ("Return %(what)s of the given thing.", False),
        ("Return {what} of the given thing.", False),
        ("See the base class for all details.", False),
        ("Return one of the following things:", False),
        ("Return `what` of the given thing.", False),
        ("word " * 26, False),
        ("x = (a + b) * c / d", False),
    ],
)
def test_is_query(summary, expected):
    assert is_query(summary) is expected


def test_splits_have_their_shares():
    counts = Counter(split_of(f"package.module{i}") for i in range(20_000))
    assert {s: counts[s] / 20_000 for s in SPLITS} == pytest.approx(SPLITS, abs=0.015)


def similarity(one, other):
    def shingles(text):
        words = text.split()
        return {tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))}

    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=8).map(" ".join), max_size=8))
def test_only_texts_like_an_earlier_one_are_duplicates(texts):
    marks = near_duplicates(texts)
    kept = []
    for text, mark in zip(texts, marks, strict=True):
        likeness = max((similarity(text, other) for other in kept), default=0)
        assert not (mark and likeness < ALIKE)
        assert mark or likeness < 1
        if not mark:
            kept.append(text)


def test_nearly_all_close_copies_are_found():
    originals = [" ".join(f"w{n}x{i}" for i in range(60)) for n in range(100)]
    copies = [text.replace(f"w{n}x59", "other") for n, text in enumerate(originals)]
    marks = near_duplicates(originals + copies)
    assert not marks[:100].any()
    assert marks[100:].all()
