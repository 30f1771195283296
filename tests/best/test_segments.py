import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from espalier.best.segments import fixed_lengths, random_lengths, split
from espalier.text.sentences import sentences

TEXTS = st.lists(
    st.sampled_from(
        ["Word.", "two words", "A much longer sentence without an end ", "\n\n", " ", "Oh!"]
    ),
    max_size=12,
).map(" ".join)


def words(text: str) -> np.ndarray:
    """First characters of the words: a stand-in for word pieces."""
    return np.array(
        [i for i, c in enumerate(text) if c.strip() and not text[i - 1 : i].strip()], dtype=np.int64
    )


@given(TEXTS, st.integers(1, 8), st.integers(0, 5))
def test_segments_are_the_whole_text_within_the_limit(text: str, limit: int, seed: int) -> None:
    offsets = words(text)
    for draw in (fixed_lengths(limit), random_lengths(seed, "d", limit, 1 / 3)):
        found = split(sentences(text), offsets, limit, draw)
        assert "".join(text[s.start : s.end] for s in found) == text
        assert all(s.length <= limit for s in found)
        assert [i for s in found for i in range(s.first, s.last)] == list(range(len(offsets)))
        for segment in found:
            inside = (offsets >= segment.start) & (offsets < segment.end)
            assert np.flatnonzero(inside).tolist() == list(range(segment.first, segment.last))


@given(TEXTS, st.integers(1, 8), st.integers(0, 5))
def test_only_too_long_sentences_are_cut(text: str, limit: int, seed: int) -> None:
    bounds = sentences(text)
    offsets = words(text)
    ends = {end for _, end in bounds}
    for segment in split(bounds, offsets, limit, random_lengths(seed, "d", limit, 1 / 3))[:-1]:
        if segment.end not in ends:
            (start, end) = next((a, b) for a, b in bounds if a < segment.end < b)
            assert ((offsets >= start) & (offsets < end)).sum() > limit


def test_whole_sentences_while_they_fit() -> None:
    text = "One two. Three four five. Six."
    found = split(sentences(text), words(text), 5, fixed_lengths(5))
    assert [text[s.start : s.end] for s in found] == ["One two. Three four five. ", "Six."]
    found = split(sentences(text), words(text), 5, fixed_lengths(1))
    assert [s.length for s in found] == [2, 3, 1]


def test_a_text_without_words_is_one_segment() -> None:
    assert [tuple(s) for s in split([], words(""), 5, fixed_lengths(5))] == [(0, 0, 0, 0)]
    assert len(split(sentences(" \n "), words(" \n "), 5, fixed_lengths(5))) == 1


def test_drawn_lengths_depend_on_document_and_seed_alone() -> None:
    draws = [random_lengths(seed, doc, 90, 1 / 3) for seed, doc in ((1, "a"), (1, "a"), (1, "b"))]
    first, again, other = ([draw() for _ in range(200)] for draw in draws)
    assert first == again != other
    assert min(first) >= 30 and max(first) <= 90 and len(set(first)) > 40
