"""Run files: what is written is read back, and what is wrong is named."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
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


def test_a_malformed_line_is_named(tmp_path) -> None:
    path = tmp_path / "s.run.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 a 1 2.0 s\nq1 Q0 b one 1.0 s\n"))
    with pytest.raises(EspalierError, match=r"s\.run\.gz:2: not a TREC run line"):
        runs.read(path)


def test_a_truncated_file_is_named(tmp_path) -> None:
    path = tmp_path / "s.run.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 a 1 2.0 s\n" * 50)[:-12])
    with pytest.raises(EspalierError, match="truncated or damaged"):
        runs.read(path)


def test_runs_below_several_folders(tmp_path) -> None:
    for name in ("x/one", "y/deep/two"):
        runs.write(tmp_path / f"{name}.run.gz", RUN, {})
    found = runs.in_folders([tmp_path / "x", tmp_path / "y"])
    assert list(found) == ["one", "two"]
    runs.write(tmp_path / "y" / "one.run.gz", RUN, {})
    with pytest.raises(EspalierError, match="system 'one' has another run"):
        runs.in_folders([tmp_path / "x", tmp_path / "y"])
    with pytest.raises(EspalierError, match="no run file"):
        runs.in_folders([tmp_path / "x" / "deep"])
