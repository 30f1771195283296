"""Measures worked out by hand, and against trec_eval's own rule for ties."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

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


@st.composite
def tied_runs(draw) -> pd.DataFrame:
    """A run of two queries with many ties, of the sizes that float32 tells apart and some not."""
    docs = [f"d{i:02}" for i in draw(st.permutations(range(12)))]
    scores = st.sampled_from([0.0, 1.0, 1.0 + 1e-9, 1.0 + 2e-7, -3.0, 1e-40, 7e30])
    return pd.DataFrame(
        {
            "query_id": ["q1"] * 12 + ["q2"] * 12,
            "doc_id": docs * 2,
            "score": draw(st.lists(scores, min_size=24, max_size=24)),
        }
    )


TREC = {
    "nDCG@10": "ndcg_cut_10", "nDCG@20": "ndcg_cut_20", "AP": "map", "RR": "recip_rank",
    "R@10": "recall_10", "P@1": "P_1", "NumRelRet": "num_rel_ret",
}  # fmt: skip


@pytest.mark.parametrize("ties_ascending", [True, False])
@given(run=tied_runs())
@settings(max_examples=40, deadline=None)
def test_every_evaluator_gives_the_same_figures(run, ties_ascending) -> None:
    """Written runs are strictly ordered: trec_eval, ir_measures and we agree on them.

    The expected order is sorted here by hand; reciprocal rank at a cutoff is MS MARCO's own.
    """
    qrels = pd.DataFrame(
        [(q, f"d{i:02}", i % 3) for q in ("q1", "q2") for i in range(12)],
        columns=["query_id", "doc_id", "relevance"],
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.run.gz"
        runs.write(path, runs.order(run, ties_ascending=ties_ascending), {})
        written = runs.read(path)
    for query_id, rows in written.groupby("query_id"):
        assert (np.diff(rows["score"].to_numpy()) < 0).all()
        given_scores = run[run["query_id"] == query_id].assign(
            score=lambda x: x["score"].astype("float32")
        )
        expected = given_scores.sort_values("doc_id", ascending=ties_ascending)
        expected = expected.sort_values("score", ascending=False, kind="stable")
        assert rows["doc_id"].tolist() == expected["doc_id"].tolist()
    names = [*TREC, "RR@10", "RR@100", "Judged@10"]
    evaluator = measures.Evaluator(qrels, measures.choose(names))
    table = evaluator.per_query(written.sample(frac=1, random_state=1))
    ours = {(r.query_id, r.measure): r.value for r in table.itertuples()}
    judged = measures.nested(qrels, "relevance")
    theirs = pytrec_eval.RelevanceEvaluator(judged, set(TREC.values())).evaluate(
        measures.nested(written, "score")
    )
    for query_id, rows in written.groupby("query_id"):
        for name, other in TREC.items():
            assert ours[query_id, name] == theirs[query_id][other]
        grades = [judged[query_id][d] for d in rows["doc_id"]]
        first = 1 + next(i for i, grade in enumerate(grades) if grade > 0)
        assert ours[query_id, "RR@10"] == (1 / first if first <= 10 else 0)
        assert ours[query_id, "RR@100"] == 1 / first
        assert ours[query_id, "Judged@10"] == 1


def test_adopted_ties_are_ordered_as_trec_eval_orders_them() -> None:
    """The figures of a file with ties are those that trec_eval gives on the file itself."""
    tied = pd.DataFrame({"query_id": "q1", "doc_id": ["b", "c", "a"], "score": 1.0})
    qrels = pd.DataFrame([("q1", "a", 1)], columns=["query_id", "doc_id", "relevance"])
    trec_eval = pytrec_eval.RelevanceEvaluator({"q1": {"a": 1}}, {"recip_rank"})
    theirs = trec_eval.evaluate(measures.nested(tied, "score"))["q1"]["recip_rank"]
    ordered = runs.order(tied, ties_ascending=False)
    evaluator = measures.Evaluator(qrels, measures.choose(["RR", "RR@10"]))
    assert evaluator.per_query(ordered)["value"].tolist() == [theirs, theirs]
    assert theirs == pytest.approx(1 / 3)


def test_replicates_are_averaged_by_query_and_their_spread_is_told() -> None:
    evaluator = measures.Evaluator(QRELS, measures.choose(["P@1", "RR"]))
    other = RUN.assign(score=-RUN["score"])
    tables = [evaluator.per_query(RUN), evaluator.per_query(other)]
    found = measures.averaged(tables)
    values = {(r.query_id, r.measure): r.value for r in found.itertuples()}
    # P@1 of q1: c first (0), then a first (1); of q2: d (1), then x (0); q3 has no results.
    assert [values[q, "P@1"] for q in ("q1", "q2", "q3")] == [0.5, 0.5, 0.0]
    assert values["q1", "RR"] == pytest.approx((1 / 2 + 1) / 2)
    spread = measures.spread(tables)
    assert spread["runs"] == 2
    assert spread["means"]["P@1"] == pytest.approx([1 / 3, 1 / 3])
    assert spread["means"]["RR"] == pytest.approx([(1 / 2 + 1) / 3, (1 + 1 / 2) / 3])
    assert spread["standard_deviation"]["P@1"] == pytest.approx(0)
    whole = measures.spread([tables[0], tables[0].assign(value=0.0)])
    assert whole["standard_deviation"]["RR"] == pytest.approx(0.5 / 2**0.5)


def test_means_count_every_judged_query() -> None:
    table = measures.Evaluator(QRELS, measures.choose(["P@1"])).per_query(RUN)
    assert measures.means(table.assign(system="s")) == {"s": {"P@1": pytest.approx(1 / 3)}}
