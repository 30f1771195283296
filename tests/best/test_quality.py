import pandas as pd
import pytest

from espalier.best import quality

PLACES = pd.DataFrame(
    [("d", 0, 0, 10), ("d", 1, 10, 20), ("d", 2, 20, 30), ("e", 0, 0, 5)],
    columns=["doc_id", "segment", "start", "end"],
)


def judged(*spans: tuple[str, str, int, int]) -> pd.DataFrame:
    frame = pd.DataFrame(spans, columns=["query_id", "doc_id", "start", "end"])
    return quality.judged(PLACES, frame)


@pytest.mark.parametrize(
    ("start", "end", "hits", "strict"),
    [
        (12, 18, [0, 1, 0], [0, 1, 0]),
        (10, 20, [0, 1, 0], [0, 1, 0]),
        (7, 12, [1, 0, 0], [0, 0, 0]),  # three of five characters
        (8, 12, [0, 0, 0], [0, 0, 0]),  # half is not the larger part
        (5, 30, [0, 1, 1], [0, 0, 0]),  # none has more than ten of 25: what is answer itself
        (4, 27, [1, 1, 1], [0, 0, 0]),  # six and seven of ten are
        (25, 40, [0, 0, 0], [0, 0, 0]),  # reaches beyond the segments, half of one is answer
        (24, 33, [0, 0, 1], [0, 0, 0]),
    ],
)
def test_the_larger_part_of_the_span(
    start: int, end: int, hits: list[int], strict: list[int]
) -> None:
    table = judged(("q", "d", start, end))
    assert table["hit"].tolist() == hits
    assert table["hit_strict"].tolist() == strict


def test_any_of_several_answers_counts() -> None:
    assert judged(("q", "d", 1, 2), ("q", "d", 21, 29))["hit"].tolist() == [1, 0, 1]


def test_references() -> None:
    table = judged(("q", "d", 12, 18), ("r", "e", 0, 3), ("s", "d", 90, 99))
    means = quality.references(table).pivot(index="system", columns="query_id", values="hit")
    assert means.loc["first"].tolist() == [0, 1, 0]
    assert means.loc["chance"].tolist() == [pytest.approx(1 / 3), 1, 0]
    assert means.loc["oracle"].tolist() == [1, 1, 0]


def test_outcomes_of_the_highest_scored_segment() -> None:
    scores = pd.DataFrame(
        {
            "query_id": ["q"] * 3 + ["r"] * 3,
            "doc_id": ["d"] * 6,
            "segment": [0, 1, 2] * 2,
            "score": [0.1, 0.7, 0.7, 5.0, 1.0, 2.0],
        }
    )
    top = quality.top(scores)
    assert top["segment"].tolist() == [1, 0]
    table = quality.outcomes("x", judged(("q", "d", 12, 18), ("r", "d", 12, 18)), top)
    assert table.values.tolist() == [["x", "q", "d", 1, 1], ["x", "r", "d", 0, 0]]


def test_nothing_known_gives_empty_tables() -> None:
    nothing = judged()
    assert quality.references(nothing).empty
    assert quality.means("p", quality.references(nothing)) == {}
