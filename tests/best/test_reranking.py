from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from espalier.best.dev import reciprocal_ranks
from espalier.best.reranking import aggregate, join, write
from espalier.evaluation import runs


def test_first_max_and_mean() -> None:
    scores = pd.DataFrame(
        {"query_id": ["q"] * 4, "doc_id": ["d", "d", "e", "e"], "segment": [0, 1, 0, 1],
         "score": [1.0, 3.0, 2.0, 0.0]}
    )  # fmt: skip
    assert aggregate(scores, "first")["score"].tolist() == [1.0, 2.0]
    assert aggregate(scores, "max")["score"].tolist() == [3.0, 2.0]
    assert aggregate(scores, "mean")["score"].tolist() == [2.0, 1.0]


def scores_of(query_id: str) -> pd.DataFrame:
    """Segments of d: 1, 4; of e: 3, 3; of f, which is not ranked: 9."""
    return pd.DataFrame(
        [("d", 1, 0, 1.0), ("d", 1, 1, 4.0), ("e", 2, 0, 3.0), ("e", 2, 1, 3.0), ("f", 0, 0, 9.0)],
        columns=["doc_id", "rank", "segment", "score"],
    ).assign(query_id=query_id)


def test_runs_of_a_ranker(tmp_path: Path) -> None:
    write(tmp_path / "one", "maxp", scores_of("q1"), 2)
    write(tmp_path / "two", "theta1", scores_of("q1"), 2)
    ranking = {
        name: runs.read(path)["doc_id"].tolist()
        for folder in ("one", "two")
        for name, path in runs.in_folder(tmp_path / folder).items()
    }
    assert ranking == {
        "firstp": ["e", "d"], "maxp": ["d", "e"], "meanp": ["e", "d"],
        "theta1-first": ["e", "d"], "theta1": ["d", "e"], "theta1-mean": ["e", "d"],
    }  # fmt: skip


def test_folds_are_joined_by_system(tmp_path: Path) -> None:
    folders = []
    for number in (1, 2):
        folders.append(tmp_path / f"s1-f{number}")
        write(folders[-1], "maxp", scores_of(f"q{number}"), 2)
    assert join(folders, tmp_path / "s1") == 3
    joined = runs.read(tmp_path / "s1" / f"firstp{runs.SUFFIX}")
    assert joined["query_id"].tolist() == ["q1", "q1", "q2", "q2"]
    assert joined["doc_id"].tolist() == ["e", "d", "e", "d"]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_reciprocal_ranks_by_brute_force(queries: list[list[tuple[int, bool]]]) -> None:
    expected = []
    for documents in queries:
        ordered = sorted(documents, key=lambda row: (-row[0], row[1]))
        places = [i for i, (_, relevant) in enumerate(ordered, start=1) if relevant]
        expected.append(1 / places[0] if places else 0)
    flat = [row for documents in queries for row in documents]
    group = np.repeat(np.arange(len(queries)), [len(documents) for documents in queries])
    found = reciprocal_ranks(
        np.array([score for score, _ in flat], dtype=np.float32),
        group,
        np.array([relevant for _, relevant in flat], dtype=bool),
    )
    np.testing.assert_allclose(found, expected)
