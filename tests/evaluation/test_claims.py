"""Every kind of claim, on made-up results that lead to each verdict it can have."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from espalier.errors import EspalierError
from espalier.evaluation import claims, comparisons, ledger, shapes
from espalier.evaluation.findings import (
    DIRECTION,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    VERDICTS,
    Rules,
)
from espalier.evaluation.results import Results, load
from espalier.evaluation.significance import Margin

ROOT = Path(__file__).parents[2]
RULES = Rules(alpha=0.05, margin=Margin(0.01, 0.02), samples=200, seed=1)
N = 400
GENERATOR = np.random.default_rng(2)
BASE = GENERATOR.uniform(0.3, 0.7, size=N)
QUALITY = {
    "base": BASE,
    "same": BASE + GENERATOR.normal(0, 0.01, N),
    "better": BASE + 0.05 + GENERATOR.normal(0, 0.05, N),
    "best": BASE + 0.1 + GENERATOR.normal(0, 0.05, N),
    "worse": BASE - 0.05 + GENERATOR.normal(0, 0.05, N),
    "noisy": BASE + (noise := GENERATOR.normal(0, 0.5, N)) - noise.mean(),
    "even": BASE + np.where(np.arange(N) % 2, 0.06, -0.06) + 0.0052,
}
"""'even' is not different, though 400 queries suffice for that; nor equivalent within 0.01."""
COSTS = {"base": 100.0, "half": 50.0, "third": 33.0, "double": 200.0}


def per_query(values: dict[str, np.ndarray], column: str) -> pd.DataFrame:
    queries = [f"q{i:03}" for i in range(N)]
    return pd.concat(
        pd.DataFrame({"system": system, "query_id": queries, column: v})
        for system, v in values.items()
    )


def results() -> Results:
    quality = per_query(QUALITY, "value").assign(measure="AP")
    generator = np.random.default_rng(3)  # of its own: the same whichever tests ran before
    spread = generator.uniform(0.8, 1.2, size=N)
    costs = per_query({s: c * spread for s, c in COSTS.items()}, "total_ns")
    wild = per_query({"wild": 100 * generator.lognormal(-0.98, 1.5, N)}, "total_ns")
    names = ["family", "system", "measure", "outcome", "p_bonferroni"]
    sweep = [("f", f"{order}-p{p:02}", "AP", outcome, 0.01 if outcome == "different" else 0.4)
             for order, outcomes in SWEEPS.items()
             for p, outcome in enumerate(outcomes, start=1)]  # fmt: skip
    documents = {f"{name}-p{p}": 100.0 * p for name in CURVES for p in range(1, 5)}
    counts = per_query({s: np.full(N, x) for s, x in documents.items()}, "documents")
    curves = per_query({f"{name}-p{p}": values + 0.05 * p for name, shifts in CURVES.items()
                        for p, values in enumerate(shifts, start=1)}, "value")  # fmt: skip
    return Results(
        tables={
            "evaluation/colbert.per_query": pd.concat([quality, curves.assign(measure="AP")]),
            "evaluation/colbert.comparisons": pd.DataFrame(sweep, columns=names),
            "colbert/latency": pd.concat([costs, wild]),
            "colbert/counts": counts.assign(twice=2 * counts["documents"]),
            "colbert/data": pd.DataFrame({"quantity": ["length"], "count": [9], "median": [797.0]}),
        },
        summaries={
            "colbert": {
                "collection": {"docs": "c", "docs_count": 10, "split": "c/test"},
                "queries": {"judged": N, "judgments": 3 * N},
                "systems": dict.fromkeys([*QUALITY, *documents]),
            }
        },
    )


SMALL, LOUD = (np.random.default_rng(3).normal(0, spread, N) for spread in (0.01, 0.6))
LOUD = LOUD - LOUD.mean()
CURVES = {
    "low": [BASE] * 4,
    "high": [BASE + 0.04 + SMALL] * 4,
    "crossing": [BASE + 0.1, BASE + 0.1, BASE + 0.1, BASE - 0.1],
    "level": [BASE + SMALL] * 4,
    "loud": [BASE + LOUD] * 4,
    "bent": [BASE, BASE + 0.2, BASE + 0.2 - 0.05, BASE + 0.2 - 0.1],
}
"""Shifts of quality at four points; 0.05 more from each to the next."""


SWEEPS = {
    "early": ["different"] * 2 + ["equivalent"] * 14,
    "late": ["different"] * 5 + ["equivalent"] * 11,
    "never": ["different"] * 16,
    "unsure": ["different"] * 2 + ["undecided"] * 4 + ["equivalent"] * 10,
    "bumpy": ["equivalent"] * 12 + ["different"] + ["equivalent"] * 3,
}


def compare(system: str, expect: str, **changes) -> dict:
    kind = "direction" if expect in ("greater", "less") else "no-difference"
    query = {"paper": "colbert", "measure": "AP", "system": system, "baseline": "base"}
    return claim(kind, "in words", {"compare": {**query, "expect": expect}}, **changes)


def ratio(system: str, published: float, expect: str = "close", **changes) -> dict:
    query = {"table": "colbert/latency", "column": "total_ns", "expect": expect}
    query |= {"system": system, "baseline": "base"}
    return claim("ratio", published, {"ratio": query | changes}, tolerance={"relative": 0.1})


def onset(order: str, published: int = 3) -> dict:
    query = {"paper": "colbert", "family": "f", "systems": f"{order}-p*", "measure": "AP"}
    return claim("shape", published, {"onset": query}, tolerance={"absolute": 1})


def rising(*systems: str) -> dict:
    query = {"paper": "colbert", "measure": "AP", "systems": list(systems)}
    return claim("shape", "rises", {"rising": query})


def above(system: str, baseline: str = "low") -> dict:
    query = {"paper": "colbert", "measure": "AP", "table": "colbert/counts"}
    query |= {"column": "documents", "system": f"{system}-p?", "baseline": f"{baseline}-p?"}
    return claim("shape", "always higher", {"above": query})


def fewer(system: str, baseline: str) -> dict:
    query = {"paper": "colbert", "family": "f", "measure": "AP"}
    query |= {"system": f"{system}-p*", "baseline": f"{baseline}-p*"}
    return claim("shape", "fewer", {"fewer-different": query})


def flattening(name: str, knee: int = 2) -> dict:
    systems = [f"{name}-p{p}" for p in (1, knee, 4)]
    query = {"paper": "colbert", "measure": "AP", "systems": systems}
    return claim("shape", "more slowly", {"flattening": query})


def together(*systems: str, column: str = "twice") -> dict:
    x, y = ({"table": "colbert/counts", "column": name} for name in ("documents", column))
    if column == "AP":
        y = {"paper": "colbert", "measure": "AP"}
    return claim("shape", "together", {"together": {"x": x, "y": y, "systems": list(systems)}})


def size(published: float, quantity: str, **scale) -> dict:
    scale = {"name": "somewhere", "collections": ["c/test"]} | scale
    here = {"size": {"paper": "colbert", "quantity": quantity}}
    return claim("value", published, here, tolerance={"absolute": 0.05}, scale=scale)


def described(published: float, quantity: str = "length", column: str = "median", **scale) -> dict:
    here = {"described": {"table": "colbert/data", "quantity": quantity, "column": column}}
    scale = {"name": "somewhere", "collections": ["c/test"]} | scale
    return claim("value", published, here, tolerance={"relative": 0.1}, scale=scale)


def count(published: float, **query) -> dict:
    here = {"mean": {"table": "colbert/counts", "column": "documents", "system": "low-p3", **query}}
    scale = {"name": "somewhere", "collections": ["c/test"]}
    return claim("value", published, here, tolerance={"absolute": 0.01}, scale=scale)


def value(published: float, **scale) -> dict:
    query = {"paper": "colbert", "measure": "AP", "system": "base"}
    scale = {"name": "somewhere", "collections": ["c/test"]} | scale
    return claim("value", published, {"mean": query}, tolerance={"absolute": 0.05}, scale=scale)


def claim(kind: str, published, here: dict, **changes) -> dict:
    return {
        "id": "x", "paper": "colbert", "claim": "something is so", "kind": kind,
        "source": "Table 1", "scale": {"name": "somewhere"}, "published": published, "here": here,
    } | changes  # fmt: skip


CASES = [
    (value(0.5), REPRODUCED, r"published 0\.5 ± 0\.05"),
    (value(0.7), NOT_REPRODUCED, "published 0.7"),
    (value(0.5, collections=["d/test"]), NOT_TESTED, "this run is on c/test"),
    (value(0.5, documents=1000), NOT_TESTED, "published on 1,000 documents; this run has 10"),
    (compare("better", "greater"), REPRODUCED, "a difference, as published"),
    (compare("worse", "greater"), NOT_REPRODUCED, "but not as published"),
    (compare("better", "greater", scale={"name": "all", "only": ["c/*"]}), REPRODUCED, "as publ"),
    (
        compare("better", "greater", scale={"name": "long texts", "only": ["*/long"]}),
        NOT_TESTED,
        "about long texts; this run is on c/test",
    ),
    (compare("worse", "less"), REPRODUCED, "a difference, as published"),
    (compare("noisy", "greater"), NOT_TESTED, r"about \d+,\d+ queries would decide"),
    (compare("same", "greater"), NOT_REPRODUCED, "400 queries suffice"),
    (compare("same", "equivalent"), REPRODUCED, "TOST ± 0.01, p = .*: equivalent"),
    (compare("base", "equivalent"), REPRODUCED, "equivalent"),
    (compare("better", "equivalent"), NOT_REPRODUCED, ": different"),
    (compare("noisy", "equivalent"), NOT_TESTED, "neither different nor equivalent; about"),
    (compare("same", "not-less"), REPRODUCED, "not lower"),
    (compare("best", "not-less"), REPRODUCED, "not lower"),
    (compare("worse", "not-less"), NOT_REPRODUCED, ": lower"),
    (compare("even", "equivalent"), NOT_REPRODUCED, "400 queries suffice to tell"),
    (compare("noisy", "not-less"), NOT_TESTED, "a loss is not ruled out"),
    (compare("gone", "greater"), NOT_TESTED, "no system 'gone'"),
    (ratio("half", 0.5), REPRODUCED, "as published"),
    (ratio("third", 0.5), DIRECTION, "another size"),
    (ratio("third", 0.5, "at-most"), REPRODUCED, "as published"),
    (ratio("half", 0.3, "at-most"), DIRECTION, "another size"),
    (ratio("double", 1.5, "at-least"), REPRODUCED, "as published"),
    (ratio("double", 0.5), NOT_REPRODUCED, "the other way"),
    (ratio("base", 0.5), NOT_REPRODUCED, "no effect shown"),
    (ratio("half", 0.5, statistic="p95"), REPRODUCED, "p95 total ns"),
    (ratio("wild", 1.25), NOT_TESTED, "both no effect and the published one fit"),
    (onset("early"), REPRODUCED, "from p = 3 on"),
    (onset("late"), DIRECTION, "from p = 6 on"),
    (onset("never"), NOT_REPRODUCED, "at no point"),
    (onset("bumpy"), NOT_REPRODUCED, "from p = 14 on"),
    (onset("unsure"), NOT_TESTED, "undecided"),
    (onset("nothing"), NOT_TESTED, "no such sweep"),
    (rising("base", "better", "best"), REPRODUCED, "a difference, as published"),
    (rising("base", "best", "better"), DIRECTION, "not at each step"),
    (rising("best", "base"), NOT_REPRODUCED, "but not as published"),
    (rising("base", "noisy"), NOT_TESTED, "would decide"),
    (count(300), REPRODUCED, r"documents of low-p3 is 300"),
    (count(0.3, per=1000), REPRODUCED, r"documents per 1000 of low-p3 is 0\.3 with"),
    (count(200, less="low-p1"), REPRODUCED, "documents of low-p3 less low-p1 is 200 "),
    (count(0.5, per="twice"), REPRODUCED, r"is 0\.5 with 95% interval \[0\.5, 0\.5\]"),
    (count(0.4, per="twice"), NOT_REPRODUCED, r"published 0\.4 ± 0\.01"),
    (count(0.4, per="twice", expect="at-least"), REPRODUCED, r"published at least 0\.4"),
    (count(0.4, per="twice", expect="at-most"), NOT_REPRODUCED, r"published at most 0\.4"),
    (size(400, "queries"), REPRODUCED, "^400 queries; published 400"),
    (size(3, "judgments-per-query"), REPRODUCED, "^3 judgments per query"),
    (size(2.9, "judgments-per-query"), NOT_REPRODUCED, "published 2.9"),
    (size(3, "queries", collections=["d"]), NOT_TESTED, "this run is on c/test"),
    (above("high"), REPRODUCED, r"mean distance \+0\.0\d+ .*of 4 points .*above throughout"),
    (above("crossing"), DIRECTION, "below by 0.01"),
    (above("low", "high"), NOT_REPRODUCED, "not above"),
    (above("level"), NOT_REPRODUCED, "not above"),
    (above("loud"), NOT_TESTED, "too few queries"),
    (above("none"), NOT_TESTED, "no system like 'none-p"),
    (fewer("early", "late"), REPRODUCED, "at 2 of 16 points, late-p. at 5 of 16"),
    (fewer("late", "late"), NOT_REPRODUCED, "at 5 of 16"),
    (fewer("gone", "late"), NOT_TESTED, "no comparison of 'gone-p"),
    (flattening("bent"), REPRODUCED, r"\+0\.25 from 1 to 2, \S+ from there to 4; .* as published"),
    (flattening("crossing", 3), REPRODUCED, "a difference, as published"),
    (flattening("low"), NOT_REPRODUCED, "no difference shown"),
    (together(*(f"low-p{p}" for p in range(1, 5))), REPRODUCED, "over 4 systems: 1 "),
    (together("low-p1", "high-p1", "level-p1"), NOT_TESTED, "over 3 systems: 0 "),  # all tie
    (
        together("low-p1", "low-p2", "low-p3", "bent-p1", "bent-p2", column="AP"),
        REPRODUCED,
        "correlation of documents and AP",
    ),
    (together("crossing-p1", "low-p2", "crossing-p4", column="AP"), NOT_REPRODUCED, "not positive"),
    (together("noisy", "base", "same", column="AP"), NOT_TESTED, "no system 'noisy'"),
    (described(797), REPRODUCED, "^median of length is 797; published 797 ± 80"),
    (described(880), REPRODUCED, "published 880 ± 88"),
    (described(900), NOT_REPRODUCED, "median of length is 797; published 900 ± 90"),
    (described(9, column="count"), REPRODUCED, "count of length is 9"),
    (described(797, "gold_share"), NOT_TESTED, "collection has no gold share"),
    (described(797, collections=["d/test"]), NOT_TESTED, "this run is on c/test, where median"),
    (
        claim("shape", "so", {"untested": {"reason": "nobody can know"}}),
        NOT_TESTED,
        "nobody can know",
    ),
]


@pytest.mark.parametrize(("case", "verdict", "why"), CASES)
def test_each_kind_gives_each_verdict(case, verdict, why) -> None:
    (row,) = claims.judge([case], results(), RULES)
    assert row["verdict"] == verdict, row["why"]
    assert re.search(why, row["why"]), row["why"]


def test_every_case_is_a_claim_as_the_schema_has_it(tmp_path) -> None:
    path = tmp_path / "claims.yaml"
    cases = [case | {"id": f"c{i}"} for i, (case, *_) in enumerate(CASES)]
    path.write_text(yaml.safe_dump(json.loads(json.dumps(cases))))
    assert claims.load([path]) == cases
    assert {next(iter(case["here"])) for case in cases} == set(claims.QUERIES) - {"skew"}


def test_values_and_ratios_are_what_was_measured() -> None:
    rows = claims.judge([value(0.5), ratio("half", 0.5)], results(), RULES)
    assert rows[0]["here"] == pytest.approx(BASE.mean(), rel=1e-5)
    assert rows[1]["here"] == pytest.approx(0.5)
    assert rows[1]["query"]["ratio"]["system"] == "half"
    low, high = rows[0]["interval"]
    assert low < BASE.mean() < high


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"summaries": {}}, "leaves out the part 'colbert'"),
        ({"tables": {}}, "made no table evaluation/colbert.per_query"),
    ],
)
def test_what_did_not_run_is_not_tested(change, reason) -> None:
    whole = results()
    partial = Results(**({"tables": whole.tables, "summaries": whole.summaries} | change))
    (row,) = claims.judge([compare("better", "greater")], partial, RULES)
    assert row["verdict"] == NOT_TESTED
    assert reason in row["why"]


def test_a_column_that_no_table_has_is_an_error() -> None:
    case = ratio("half", 0.5)
    case["here"]["ratio"]["column"] = "total_ms"
    with pytest.raises(EspalierError, match="no column 'total_ms'; there are system"):
        claims.judge([case], results(), RULES)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        # Of ten postings in ten bins, the median bin's middle: .25 and .75; .25 and .35; equal.
        ([0, 4, 2, 2, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2, 2, 2, 2, 2], REPRODUCED),
        ([0, 4, 2, 2, 1, 1, 0, 0, 0, 0], [0, 2, 2, 2, 2, 2, 0, 0, 0, 0], DIRECTION),
        ([0, 4, 2, 2, 1, 1, 0, 0, 0, 0], [0, 4, 2, 2, 1, 1, 0, 0, 0, 0], NOT_REPRODUCED),
    ],
)
def test_skewed_distributions(low, high, verdict) -> None:
    edges = np.linspace(0, 1, 11)
    histogram = pd.concat(
        [
            pd.DataFrame({"side": side, "bin_low": edges[:-1], "bin_high": edges[1:], "count": n})
            for side, n in (("bm25", low), ("learned", high))
        ]
    )
    query = {"paper": "sparse", "table": "splade/weights", "low": "bm25", "high": "learned"}
    found = shapes.skew(query, {}, Results({"splade/weights": histogram}, {"sparse": {}}), RULES)
    assert found.verdict == verdict
    absent = shapes.skew(query, {}, Results({}, {"sparse": {}}), RULES)
    assert absent.verdict == NOT_TESTED


def test_our_own_claims_are_valid_and_name_what_exists() -> None:
    rows = claims.load(sorted((ROOT / "claims").glob("*.yaml")))
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["paper"] for row in rows} == {"best", "colbert", "sparse"}
    for row in rows:
        ((_, query),) = row["here"].items()
        source = query.get("paper") or query.get("table", row["paper"]).split("/")[0]
        assert source == row["paper"]
    judged = claims.judge(rows, Results(), RULES)
    assert {row["verdict"] for row in judged} == {NOT_TESTED}
    assert all(row["why"] for row in judged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "ratio"}, "claim x: kind"),
        ({"here": {"guess": {}}}, "claim x: here"),
        ({"verdict": "reproduced"}, "claim x: claim.*'verdict'"),
        ({"published": None}, "claim x: published"),
    ],
)
def test_a_malformed_claim_is_named(tmp_path, change, message) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([compare("better", "greater") | change]))
    with pytest.raises(EspalierError, match=message):
        claims.load([path])


def test_an_id_that_occurs_twice_is_named(tmp_path) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([compare("better", "greater")] * 2))
    with pytest.raises(EspalierError, match="'x' occurs twice"):
        claims.load([path])


def test_the_ledger_as_json_and_text() -> None:
    cases = [case | {"id": f"c{i}"} for i, (case, *_) in enumerate(CASES)]
    rows = claims.judge(cases, results(), RULES)
    assert json.loads(ledger.as_json(rows)) == rows
    assert sum(ledger.tally(rows).values()) == len(rows)
    assert list(ledger.tally(rows)) == list(VERDICTS)
    lines = ledger.as_text(rows).splitlines()
    assert max(map(len, lines)) <= 100
    table = lines[lines.index("") :]
    assert sum(line.rstrip().endswith(VERDICTS) for line in table) == len(rows)


def test_results_are_read_by_folder_and_name(tmp_path) -> None:
    table = per_query({"base": BASE}, "value").assign(measure="AP")
    for name in ("evaluation/colbert.per_query.parquet", "colbert/counts.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        table.to_parquet(tmp_path / name, index=False)
    (tmp_path / "evaluation/colbert.summary.json").write_text('{"systems": {}}')
    found = load(sorted(p for p in tmp_path.rglob("*") if p.is_file()))
    assert sorted(found.tables) == ["colbert/counts", "evaluation/colbert.per_query"]
    assert found.summaries == {"colbert": {"systems": {}}}
    (tmp_path / "colbert/counts.parquet").write_text("nonsense")
    with pytest.raises(EspalierError, match=r"counts\.parquet: not a parquet table"):
        load([tmp_path / "colbert/counts.parquet"])


def test_comparisons_have_the_columns_that_onset_reads() -> None:
    assert {"family", "system", "measure", "outcome"} <= set(comparisons.COLUMNS)
