"""Measures worked out by hand, and against trec_eval's own rule for ties."""

import math

import pandas as pd
import pytest
import pytrec_eval

from espalier.errors import EspalierError
from espalier.evaluation import measures, runs

QRELS = pd.DataFrame(
    [
        ("q1", "a", 3), ("q1", "b", 1), ("q1", "c", 0),
        ("q2", "d", 1),
        ("q3", "e", 2),
    ],
    columns=["query_id", "doc_id", "relevance"],
)  # fmt: skip
RUN = pd.DataFrame(
    [
        ("q1", "c", 3.0), ("q1", "b", 2.0), ("q1", "a", 1.0),
        ("q2", "d", 5.0), ("q2", "x", 4.0),
        ("q9", "a", 1.0),
    ],
    columns=["query_id", "doc_id", "score"],
)  # fmt: skip
"""q3 is judged and has no results; q9 has results and no judgments."""

IDEAL = 3 + 1 / math.log2(3)
BY_HAND = {
    ("q1", "nDCG@10"): (1 / math.log2(3) + 3 / 2) / IDEAL,
    ("q1", "RR@10"): 1 / 2,
    ("q1", "AP"): (1 / 2 + 2 / 3) / 2,
    ("q1", "P@1"): 0.0,
    ("q1", "NumRelRet"): 2.0,
    ("q1", "Judged@10"): 1.0,
    ("q2", "nDCG@10"): 1.0,
    ("q2", "RR@10"): 1.0,
    ("q2", "AP"): 1.0,
    ("q2", "P@1"): 1.0,
    ("q2", "NumRelRet"): 1.0,
    ("q2", "Judged@10"): 0.5,
    **{("q3", m): 0.0 for m in ("nDCG@10", "RR@10", "AP", "P@1", "NumRelRet", "Judged@10")},
}
NAMES = ["nDCG@10", "RR@10", "AP", "P@1", "NumRelRet", "Judged@10"]


def values(run: pd.DataFrame, names: list[str], level: int = 1) -> dict[tuple[str, str], float]:
    evaluator = measures.Evaluator(QRELS, measures.choose(names, level))
    table = evaluator.per_query(run)
    return {(r.query_id, r.measure): r.value for r in table.itertuples()}


def test_values_by_hand_and_a_query_without_results_is_zero() -> None:
    assert values(RUN, NAMES) == pytest.approx(BY_HAND)


def test_missing_and_unjudged_queries_are_counted() -> None:
    evaluator = measures.Evaluator(QRELS, measures.choose(["AP"]))
    assert evaluator.missing(RUN) == 1
    assert measures.unjudged(["q1", "q3", "q9"], QRELS) == 1


def test_an_empty_run_is_zero_everywhere() -> None:
    assert set(values(RUN.iloc[:0], NAMES).values()) == {0.0}


def test_relevance_level_two_moves_binary_measures_alone() -> None:
    level_two = values(RUN, ["nDCG@10", "AP", "RR@10", "AP(rel=1)", "NumRelRet", "NumRet"], level=2)
    assert level_two["q1", "nDCG@10"] == pytest.approx(BY_HAND["q1", "nDCG@10"])
    assert level_two["q1", "AP"] == pytest.approx(1 / 3)
    assert level_two["q1", "RR@10"] == pytest.approx(1 / 3)
    assert level_two["q2", "AP"] == 0.0
    assert (level_two["q1", "NumRelRet"], level_two["q1", "NumRet"]) == (1.0, 3.0)
    assert level_two["q1", "AP(rel=1)"] == pytest.approx(BY_HAND["q1", "AP"])


def test_the_level_belongs_to_the_split() -> None:
    levels = {"msmarco-passage/trec-dl-*": 2}
    assert measures.level_of("msmarco-passage/trec-dl-2019/judged", levels) == 2
    assert measures.level_of("msmarco-passage/dev/small", levels) == 1


def test_provider_is_recorded() -> None:
    chosen = {c.name: c.described for c in measures.choose(["AP", "RR@10"], 2)}
    assert chosen["AP"]["measure"] == "AP(rel=2)"
    assert chosen["AP"]["provider"].startswith("pytrec_eval (pytrec_eval-terrier ")
    assert chosen["RR@10"]["provider"].startswith("msmarco (ir_measures ")


@pytest.mark.parametrize("name", ["nDGC@10", "not a measure", "alpha_nDCG@10"])
def test_an_unknown_measure_is_named(name: str) -> None:
    with pytest.raises(EspalierError, match=r"evaluation\.measures"):
        measures.choose([name])


def test_one_measure_under_two_names_is_refused() -> None:
    with pytest.raises(EspalierError, match=r"'AP\(rel=1\)' is there under another name"):
        measures.choose(["AP", "AP(rel=1)"])


def test_ties_are_broken_before_any_evaluator_sees_them(tmp_path) -> None:
    """trec_eval orders ties by doc_id, descending; the written run leaves it none to order."""
    tied = pd.DataFrame({"query_id": "q1", "doc_id": ["b", "c", "a"], "score": 1.0})
    path = tmp_path / "tied.run.gz"
    runs.write(path, tied, {})
    written = runs.read(path)
    assert written["doc_id"].tolist() == ["a", "b", "c"]
    qrels = {"q1": {"a": 1, "b": 0, "c": 0}}
    trec_eval = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "map"})
    theirs = trec_eval.evaluate(measures.nested(written, "score"))["q1"]
    unwritten = trec_eval.evaluate(measures.nested(tied, "score"))["q1"]
    ours = measures.Evaluator(
        pd.DataFrame([("q1", "a", 1)], columns=["query_id", "doc_id", "relevance"]),
        measures.choose(["RR", "RR@10", "AP"]),
    ).per_query(written)
    assert ours["value"].tolist() == [1.0, 1.0, 1.0]
    assert theirs == {"recip_rank": 1.0, "map": 1.0}
    assert unwritten["recip_rank"] == pytest.approx(1 / 3)


def test_means_count_every_judged_query() -> None:
    table = measures.Evaluator(QRELS, measures.choose(["P@1"])).per_query(RUN)
    assert measures.means(table.assign(system="s")) == {"s": {"P@1": pytest.approx(1 / 3)}}
