"""Judgments of one's own: what is read, and what is wrong is named."""

import pytest

from espalier.errors import EspalierError
from espalier.evaluation import judgments


def test_grades_and_white_space_are_read(tmp_path) -> None:
    path = tmp_path / "x.qrels"
    path.write_text("q1 0 a 2\nq1\t0\tb\t-1\nq2 Q0 a 0\n")
    found = judgments.read(path)
    assert found.to_numpy().tolist() == [["q1", "a", 2], ["q1", "b", -1], ["q2", "a", 0]]
    assert found["relevance"].dtype == "int64"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 a 1\nq1 0 b\n", r":2: not a TREC qrels line .*; correct it or leave it out"),
        ("q1 0 a 1\nq1 0 b 0.5\n", ":2: not a TREC qrels line"),
        ("q1 0 a 1\nq2 0 a 1\nq1 0 a 0\n", ":3: document 'a' occurs in query 'q1' on line 1"),
        ("", ":1: the file holds no judgments; name another or none"),
    ],
)
def test_bad_judgments_are_named(tmp_path, text, message) -> None:
    path = tmp_path / "x.qrels"
    path.write_text(text)
    with pytest.raises(EspalierError, match=r"x\.qrels" + message):
        judgments.read(path)
