"""Run files: what is written is read back, and what is wrong is named."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.errors import EspalierError
from espalier.evaluation import runs

RUN = pd.DataFrame(
    [("q2", "b", 1.0), ("q1", "a", 0.5), ("q1", "b", 0.5), ("q1", "c", 2.0)],
    columns=["query_id", "doc_id", "score"],
)


def test_written_and_read_back(tmp_path) -> None:
    runs.write(tmp_path / "s.run.gz", RUN, {"method": {"automatic": True}})
    read = runs.read(tmp_path / "s.run.gz")
    assert read["query_id"].tolist() == ["q1", "q1", "q1", "q2"]
    assert read["doc_id"].tolist() == ["c", "a", "b", "b"]
    assert read["rank"].tolist() == [1, 2, 3, 1]
    assert read["score"].iloc[1] > read["score"].iloc[2]


def test_bytes_depend_on_the_run_alone(tmp_path) -> None:
    runs.write(tmp_path / "a" / "s.run.gz", RUN, {})
    runs.write(tmp_path / "b" / "s.run.gz", RUN.iloc[::-1], {})
    first, second = ((tmp_path / x / "s.run.gz").read_bytes() for x in "ab")
    assert first == second


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-30, 0.1, 3.0, 1e30]), min_size=1, max_size=30))
@settings(deadline=None)
def test_scores_decrease_strictly_and_keep_their_order(scores: list[float]) -> None:
    frame = pd.DataFrame(
        {"query_id": "q", "doc_id": [f"d{i:02}" for i in range(len(scores))], "score": scores}
    )
    ordered = runs.order(frame)
    assert (ordered["score"].diff().iloc[1:] < 0).all()
    lowered = sorted(np.float32(scores))[::-1]
    for i in range(1, len(lowered)):
        if lowered[i] >= lowered[i - 1]:
            lowered[i] = np.nextafter(lowered[i - 1], np.float32(-np.inf))
    assert ordered["score"].tolist() == lowered
    expected = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    assert ordered["doc_id"].tolist() == [f"d{i:02}" for i in expected]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (RUN.assign(score=float("nan")), "score of q2/b is nan"),
        (pd.concat([RUN, RUN.iloc[:1]]), "document b twice in query q2"),
    ],
)
def test_a_run_that_cannot_be_ordered_is_refused(tmp_path, run, message) -> None:
    with pytest.raises(EspalierError, match=message):
        runs.write(tmp_path / "s.run.gz", run, {})


GOOD = "q1 Q0 a 1 2.0 s\n"
BAD_LINES = [
    ("q1 Q0 b 1.0 s\n", "it has 5 fields; write six"),
    ("\n", "it has 0 fields"),
    ("q1 Q0 b one 1.0 s\n", "rank 'one' is no whole number; correct it"),
    ("q1 Q0 b 2 nan s\n", "score 'nan' is no finite number; correct it or leave the line out"),
    ("q1 Q0 b 2 -inf s\n", "score '-inf' is no finite number"),
    ("q1 Q0 b 2 1.2.3 s\n", "score '1.2.3' is no finite number"),
    ("q1 Q0 b 2 1e39 s\n", "score '1e39' is no finite number"),
    ("q1 Q0 a 2 1.0 s\n", "document 'a' occurs in query 'q1' on line 1 already; keep one"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_is_named_with_a_remedy(tmp_path, line, message) -> None:
    path = tmp_path / "s.run"
    path.write_text(GOOD + line)
    with pytest.raises(EspalierError) as caught:
        runs.read(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


def test_an_empty_or_absent_run_is_named(tmp_path) -> None:
    path = tmp_path / "s.run"
    with pytest.raises(EspalierError, match=r"s\.run: no such file; name one"):
        runs.read(path)
    path.write_text("")
    with pytest.raises(EspalierError, match=r"s\.run:1: the run holds no results; leave it out"):
        runs.read(path)


def test_notations_of_numbers_that_trec_eval_reads(tmp_path) -> None:
    path = tmp_path / "s.run"
    path.write_text("q1 Q0 a 1 +2. s\nq1\tQ0\tb\t2\t.5 s\nq1 Q0 c 3 -1E-2 s\r\n")
    assert runs.read(path)["score"].tolist() == np.float32([2, 0.5, -0.01]).tolist()


def test_queries_of_another_split_are_counted_or_refused(tmp_path, caplog) -> None:
    path = tmp_path / "s.run"
    run = pd.DataFrame({"query_id": ["q1", "q7", "q8", "q7"]})
    assert runs.strangers(path, run, {"q1", "q7", "q8"}, "c/test") == 0
    assert runs.strangers(path, run, {"q1"}, "c/test") == 2
    assert f"{path}:2: query 'q7' is not among the queries of c/test" in caplog.text
    assert "left out (2 such queries)" in caplog.text
    with pytest.raises(EspalierError, match=r"s\.run:1: query 'q1' and all others are unknown to"):
        runs.strangers(path, run, {"1"}, "c/test")


def test_a_truncated_file_is_named(tmp_path) -> None:
    path = tmp_path / "s.run.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 a 1 2.0 s\n" * 50)[:-12])
    with pytest.raises(EspalierError, match="truncated or damaged"):
        runs.read(path)


def test_runs_of_one_name_are_replicates(tmp_path) -> None:
    for name in ("x/one", "y/deep/two", "y/one"):
        runs.write(tmp_path / f"{name}.run.gz", RUN, {})
    folders = [tmp_path / "x", tmp_path / "y", tmp_path / "y" / "deep"]
    found = runs.replicates(folders)
    assert list(found) == ["one", "two"]
    assert found["one"] == [tmp_path / "x/one.run.gz", tmp_path / "y/one.run.gz"]
    assert len(found["two"]) == 1
    assert runs.in_folders(folders)["one"] == tmp_path / "x/one.run.gz"
    runs.refuse_names(["two"], found)
    with pytest.raises(EspalierError, match="'one' is the name of a system already"):
        runs.refuse_names(["one"], found)
    with pytest.raises(EspalierError, match="no run file"):
        runs.replicates([tmp_path / "x" / "deep"])
