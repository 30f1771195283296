from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from espalier.text.sentences import sentences


@given(
    st.text(alphabet=st.sampled_from("aB.?! \n\t日本。é😀e.g(1)“”"), max_size=200),
    st.integers(1, 5),
)
def test_ranges_are_the_whole_text(part: str, times: int) -> None:
    text = part * times
    ranges = sentences(text)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert all(a[1] == b[0] for a, b in pairwise(ranges))


def test_abbreviations_do_not_end_a_sentence() -> None:
    text = "It fits, e.g. Fig. 3 of Smith et al. shows it. Then it stops! Does it?"
    assert [text[a:b].strip() for a, b in sentences(text)] == [
        "It fits, e.g. Fig. 3 of Smith et al. shows it.",
        "Then it stops!",
        "Does it?",
    ]


def test_a_paragraph_break_ends_a_sentence_and_belongs_to_it() -> None:
    assert sentences("A heading\n\nIts text.") == [(0, 11), (11, 20)]


OPENED = [
    ("(", ")"), ('"', '"'), ("“", "”"), ("[", "]"), ("• ", ""), ("(", ""), ('"', ""), ("“", ""),
    ('A list: 2) 5" pipe, ', ""),
]  # fmt: skip


def test_a_bracket_left_open_does_not_join_pages() -> None:
    said = [
        f"Trial {number} went as it was meant to go, and nobody was hurt. " for number in range(20)
    ]
    for opening, closing in OPENED:
        parts = [opening + said[0], *said[1:-1], said[-1].strip() + closing]
        assert texts("".join(parts)) == parts
    short = 'He said "It fits. It does." Then he left.'
    assert texts(short) == ['He said "It fits. It does." ', "Then he left."]


def texts(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def test_offsets_count_characters_not_bytes() -> None:
    text = "Élève. 日本語。"
    assert sentences(text)[-1][1] == len(text)


def test_an_empty_text_has_none() -> None:
    assert sentences("") == []
