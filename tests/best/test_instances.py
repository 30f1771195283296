import pandas as pd
import pytest

from espalier.best import instances
from espalier.errors import EspalierError


def run(**queries: list[str]) -> pd.DataFrame:
    rows = [(q, d, i) for q, docs in queries.items() for i, d in enumerate(docs, start=1)]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "rank"])


def qrels(*rows: tuple[str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


def drawn(
    judgments: pd.DataFrame, found: pd.DataFrame, **changed: int
) -> list[tuple[str, str, str]]:
    settings = {"negatives": 2, "depth": 10, "seed": 1} | changed
    table = instances.draw(["q1", "q2", "q3"], judgments, found, **settings)
    return list(table.itertuples(index=False, name=None))


def test_judged_documents_are_never_negatives_and_positives_need_no_candidate() -> None:
    rows = drawn(qrels(("q1", "p", 1), ("q1", "bad", 0)), run(q1=["bad", "a", "b", "c"]))
    assert len(rows) == 2
    assert {(q, p) for q, p, _ in rows} == {("q1", "p")}
    assert {n for *_, n in rows} < {"a", "b", "c"}


def test_negatives_stop_at_the_depth() -> None:
    judgments, found = qrels(("q1", "p", 1)), run(q1=["p", "a", "b", "c"])
    assert {n for seed in range(20) for *_, n in drawn(judgments, found, depth=3, seed=seed)} == {
        "a",
        "b",
    }


def test_fewer_candidates_than_asked_give_fewer_instances() -> None:
    assert drawn(qrels(("q1", "p", 1)), run(q1=["p", "a"])) == [("q1", "p", "a")]


def test_queries_without_positives_or_candidates_are_skipped() -> None:
    assert drawn(qrels(("q1", "p", 0), ("q2", "p", 1)), run(q1=["a"], q3=["b"])) == []


def test_candidates_and_what_they_miss() -> None:
    judgments = qrels(("q1", "b", 1), ("q1", "z", 2), ("q1", "y", 0))
    top = instances.candidates(judgments, run(q1=["a", "b", "z"]), depth=2)
    assert top.values.tolist() == [["q1", "a", 1, 0], ["q1", "b", 2, 1]]
    assert instances.missed(judgments, top).values.tolist() == [["q1", "z", 0, 2]]


def test_documents_outside_the_collection_are_left_out() -> None:
    table = pd.DataFrame(
        [("q1", "a", "b"), ("q2", "a", "z"), ("q3", "y", "b")],
        columns=["query_id", "positive", "negative"],
    )
    kept = instances.held(table, ["positive", "negative"], {"a", "b", "c"})
    assert kept["query_id"].tolist() == ["q1"]


@pytest.mark.parametrize("name", ["instances", "dev", "test"])
def test_nothing_to_work_on_is_the_users_error(name: str) -> None:
    tables = {key: pd.DataFrame({"query_id": ["q"]}) for key in ("instances", "dev", "test")}
    instances.check(tables, "some/docs")
    wanted = {"instances": "training query", "dev": "dev query", "test": "test query"}[name]
    with pytest.raises(EspalierError, match=f"some/docs: no {wanted} .*;"):
        instances.check({**tables, name: tables[name].head(0)}, "some/docs")


def test_positives_are_counted_once() -> None:
    drawn = pd.DataFrame(
        [("q1", "a", "b"), ("q1", "a", "c"), ("q2", "a", "b")],
        columns=["query_id", "positive", "negative"],
    )
    assert instances.positives(drawn).values.tolist() == [["q1", "a"], ["q2", "a"]]
