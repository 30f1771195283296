import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from espalier.best.dev import reciprocal_ranks
from espalier.best.reranking import aggregate


def test_first_and_max() -> None:
    scores = pd.DataFrame(
        {"query_id": ["q"] * 4, "doc_id": ["d", "d", "e", "e"], "segment": [0, 1, 0, 1],
         "score": [1.0, 3.0, 2.0, 0.0]}
    )  # fmt: skip
    assert aggregate(scores, "first")["score"].tolist() == [1.0, 2.0]
    assert aggregate(scores, "max")["score"].tolist() == [3.0, 2.0]


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
