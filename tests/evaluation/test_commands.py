"""The stages on a made-up view: replicates, runs and judgments of one's own, bad input."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from espalier.cli import dispatch, parser_for
from espalier.errors import EspalierError
from espalier.evaluation import runs
from espalier.evaluation.commands import room

DOCS = [f"d{i}" for i in range(8)]
QUERIES = [f"q{i}" for i in range(1, 7)]
SETTINGS = {
    "measures": ["P@1", "RR@10", "Judged@10"],
    "relevance_levels": {},
    "alpha": 0.05,
    "margin": {"absolute": 0.01, "relative": 0.02},
    "bootstrap_samples": 200,
    "families": [{"name": "f", "baseline": "base", "systems": ["*"], "measures": ["P@1", "RR@10"]}],
    "own_runs": [],
    "originals": [],
}


def ranking(first: dict[str, int], depth: int = 4, queries=QUERIES) -> pd.DataFrame:
    """A run in which the relevant document (d0) of each query stands at a rank that is given."""
    rows = []
    for query in queries:
        docs = DOCS[1:depth]
        docs.insert(first.get(query, 1) - 1, "d0")
        rows += [(query, doc, 10.0 - i) for i, doc in enumerate(docs)]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])


@pytest.fixture
def view(tmp_path) -> Path:
    """Six queries, d0 relevant to each; two more were left out, three not sampled."""
    folder = tmp_path / "view"
    folder.mkdir()
    split = {"id": "c/test", "queries": 6, "qrels": 6, "unanswerable": 2, "not_sampled": 3}
    manifest = {"docs": "c", "docs_count": 8, "splits": {"test": split}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "test.queries.tsv").write_text("".join(f"{q}\ttext\n" for q in QUERIES))
    (folder / "test.qrels").write_text("".join(f"{q} 0 d0 1\n" for q in QUERIES))
    return folder


def call(tmp_path: Path, verb: str, settings: dict, **inputs: list[Path]) -> dict[str, Path]:
    """Run a stage by its command line; its outputs by name."""
    outputs = {name: tmp_path / "out" / name for name in room.verbs[verb].outputs}
    line = ["evaluation", verb, "--record", str(tmp_path / "out" / f"{verb}.json")]
    line += ["--settings", json.dumps({"seed": 1, "paper": "colbert", **settings})]
    for name, paths in [*inputs.items(), *((name, [path]) for name, path in outputs.items())]:
        line += [f"--{name.replace('_', '-')}", *map(str, paths)]
    dispatch(parser_for(line).parse_args(line))
    return outputs


def evaluated(tmp_path, view, folders, qrels=(), **changes) -> dict[str, Path]:
    settings = {"evaluation": {**SETTINGS, **changes}}
    return call(tmp_path, "evaluate", settings, view=[view], runs=list(folders), qrels=list(qrels))


@pytest.fixture
def base(tmp_path) -> Path:
    """A folder with the run of the baseline, right at rank 2 for all queries."""
    folder = tmp_path / "base"
    runs.write(folder / "base.run.gz", ranking(dict.fromkeys(QUERIES, 2)), {})
    return folder


def test_replicates_count_as_one_system(tmp_path, view, base) -> None:
    """Two seeds: one right at rank 1 for q1 to q3, one for q4 to q6 and nothing for q1."""
    half = dict.fromkeys(QUERIES[3:], 2)
    runs.write(tmp_path / "a/seeded.run.gz", ranking(half), {})
    other = ranking(dict.fromkeys(QUERIES[:3], 2))
    runs.write(tmp_path / "b/seeded.run.gz", other[other["query_id"] != "q1"], {})
    out = evaluated(tmp_path, view, [base, tmp_path / "a", tmp_path / "b"])
    table = pd.read_parquet(out["per_query"])
    chosen = table[(table["system"] == "seeded") & (table["measure"] == "P@1")]
    assert chosen.set_index("query_id")["value"].to_dict() == dict.fromkeys(QUERIES, 0.5)
    reciprocal = table[(table["system"] == "seeded") & (table["measure"] == "RR@10")]
    expected = [0.5, 0.75, 0.75, 0.75, 0.75, 0.75]
    assert reciprocal.sort_values("query_id")["value"].tolist() == expected
    summary = json.loads(out["summary"].read_text())
    assert list(summary["replicates"]) == ["seeded"]
    assert summary["replicates"]["seeded"]["runs"] == 2
    assert summary["replicates"]["seeded"]["means"]["P@1"] == [0.5, 0.5]
    assert summary["queries"]["without_results"] == {"base": 0, "seeded": 0.5}
    compared = pd.read_parquet(out["comparisons"]).set_index("measure")
    assert compared.loc["P@1", ["n", "difference"]].tolist() == [6, 0.5]
    assert compared.loc["P@1", "outcome"] == "different"


def test_queries_are_counted_by_why_they_count_or_not(tmp_path, view, base) -> None:
    """q6 without results is zero; q9 is unknown; two have no judgment, three are not sampled."""
    run = ranking({}, queries=[*QUERIES[:5], "q9"])
    runs.write(tmp_path / "x/other.run.gz", run, {})
    out = evaluated(tmp_path, view, [base, tmp_path / "x"])
    summary = json.loads(out["summary"].read_text())
    assert summary["queries"] == {
        "judged": 6, "judgments": 6, "unjudged": 2, "not_sampled": 3, "judged_elsewhere": 0,
        "without_results": {"base": 0, "other": 1}, "unknown": {"base": 0, "other": 1},
    }  # fmt: skip
    assert summary["systems"]["other"]["P@1"] == pytest.approx(5 / 6)
    assert summary["replicates"] == {}
    assert summary["measures"]["RR@10"]["provider"].startswith("msmarco (ir_measures ")


def test_own_runs_and_judgments_stand_in_the_same_tables(tmp_path, view, base) -> None:
    """Theirs has ties, which trec_eval reads as d3, d0; the judgments make d1 relevant to q1."""
    own = tmp_path / "theirs.txt"
    own.write_text("".join(f"{q} Q0 d0 1 3 x\n{q} Q0 d3 2 3 x\n" for q in QUERIES))
    adopted = call(tmp_path, "adopt", {"names": ["theirs"]}, view=[view], own=[own])["runs"]
    sidecar = yaml.safe_load((adopted / "theirs.run.gz.ir_metadata.yaml").read_text())
    assert sidecar["method"]["retrieval"][0]["file"] == "theirs.txt"
    assert runs.read(adopted / "theirs.run.gz")["doc_id"].tolist() == ["d3", "d0"] * 6
    out = evaluated(tmp_path, view, [base, adopted], own_runs=["theirs"])
    summary = json.loads(out["summary"].read_text())
    assert summary["systems"]["theirs"] == {"P@1": 0.0, "RR@10": 0.5, "Judged@10": 0.5}
    assert set(pd.read_parquet(out["comparisons"])["system"]) == {"theirs"}

    qrels = tmp_path / "mine.qrels"
    qrels.write_text("q1 0 d3 1\nq2 0 d0 1\nq9 0 d0 1\n")
    out = evaluated(tmp_path, view, [base, adopted], [qrels], own_runs=["theirs"])
    summary = json.loads(out["summary"].read_text())
    assert summary["qrels"] == "mine.qrels"
    assert summary["systems"]["theirs"]["RR@10"] == pytest.approx((1 + 1 / 2) / 2)
    assert summary["queries"]["judged"] == 2
    assert summary["queries"]["unjudged"] == 4 + 2
    assert summary["queries"]["judged_elsewhere"] == 1

    runs.write(base / "theirs.run.gz", ranking({}), {})
    with pytest.raises(EspalierError, match="'theirs' is the name of a system already"):
        evaluated(tmp_path, view, [base, adopted], own_runs=["theirs"])


def test_judgments_and_runs_that_do_not_meet_are_refused(tmp_path, view, base) -> None:
    qrels = tmp_path / "x.qrels"
    qrels.write_text("1 0 d0 1\n")
    with pytest.raises(EspalierError, match=r"x\.qrels:1: query '1' and all others are unknown to"):
        evaluated(tmp_path, view, [base], [qrels])
    qrels.write_text("q1 0 d0 1\n")
    runs.write(tmp_path / "y/late.run.gz", ranking({}, queries=["q2", "q3"]), {})
    message = r"late\.run\.gz:1: no query of this run has a judgment in x\.qrels; name judgments"
    with pytest.raises(EspalierError, match=message):
        evaluated(tmp_path, view, [base, tmp_path / "y"], [qrels])


def test_times_become_ratios(tmp_path) -> None:
    times = {"base": [100, 200, 400], "fast": [50, 100, 100], "other": [1, 1, 1]}
    table = pd.DataFrame(
        [(s, q, ns) for s, row in times.items() for q, ns in zip("abc", row, strict=True)],
        columns=["system", "query_id", "total_ns"],
    )
    table.to_parquet(tmp_path / "latency.parquet")
    family = {"name": "f", "baseline": "base", "systems": ["fast"], "columns": ["total_ns"]}
    settings = {"evaluation": {"alpha": 0.05, "bootstrap_samples": 200, "families": [family]}}
    out = call(tmp_path, "latencies", settings, latency=[tmp_path / "latency.parquet"])
    found = pd.read_parquet(out["ratios"]).set_index("statistic")
    assert found.loc["mean", "ratio"] == pytest.approx(250 / 700)
    assert found.loc["paired", "ratio"] == pytest.approx((1 / 2 * 1 / 2 * 1 / 4) ** (1 / 3))
    assert found.loc["p95", "value_baseline"] == pytest.approx(200 + 0.9 * 200)
    assert found.loc["p95", "ratio"] == pytest.approx(100 / 380)
    assert found.loc["mean", ["family", "system", "baseline", "n"]].tolist() == [
        "f", "fast", "base", 3,
    ]  # fmt: skip
    for change, message in (
        ({"baseline": "gone"}, "baseline 'gone' was not timed; there are base, fast, other"),
        ({"columns": ["total_ms"]}, "column 'total_ms'; there are total_ns"),
    ):
        settings["evaluation"]["families"] = [{**family, **change}]
        with pytest.raises(EspalierError, match=message):
            call(tmp_path, "latencies", settings, latency=[tmp_path / "latency.parquet"])


def test_original_runs_are_held_against_ours(tmp_path, view, base) -> None:
    """Ours of 'base' is the original; 'better' has d0 at rank 1 for all, the original for half."""
    runs.write(tmp_path / "x/better.run.gz", ranking({}), {})
    runs.write(tmp_path / "orig.run.gz", ranking(dict.fromkeys(QUERIES[3:], 2)), {})
    originals = [base / "base.run.gz", tmp_path / "orig.run.gz"]
    settings = {"evaluation": {**SETTINGS, "originals": ["base", "better"]}}
    out = call(
        tmp_path, "reproduction", settings,
        view=[view], runs=[base, tmp_path / "x"], originals=originals,
    )  # fmt: skip
    found = pd.read_parquet(out["reproduction"])
    values = found.set_index(["system", "measure", "statistic"])["value"]
    assert values["base", "", "kendall_tau_union"] == pytest.approx(1)
    assert values["base", "", "rank_biased_overlap"] == pytest.approx(1)
    assert values["base", "P@1", "rmse"] == 0
    assert values["base", "P@1", "p"] == 1
    assert values["better", "P@1", "rmse"] == pytest.approx(0.5**0.5)
    assert values["better", "P@1", "mean_original"] == 0.5
    assert values["better", "P@1", "mean_here"] == 1
    # The effect on P@1 is .5 in the original and 1 here; on RR, means .75 and 1 over .5.
    assert values["better", "P@1", "effect_ratio"] == pytest.approx(2)
    assert values["better", "RR@10", "effect_ratio"] == pytest.approx(2)
    assert values["better", "RR@10", "delta_relative_improvement"] == pytest.approx(-0.5)
    assert pd.isna(values["better", "P@1", "delta_relative_improvement"])
    settings["evaluation"]["originals"] = ["base", "gone"]
    with pytest.raises(EspalierError, match="'gone' is no system of ours; there are base, better"):
        call(
            tmp_path, "reproduction", settings,
            view=[view], runs=[base, tmp_path / "x"], originals=originals,
        )  # fmt: skip
