"""The page and the verbs before it, on a made-up results folder."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from espalier import cli
from espalier.evaluation.comparisons import COLUMNS
from espalier.evaluation.findings import VERDICTS
from espalier.evaluation.results import load
from espalier.report import exports, figures, sections, tables
from espalier.report.drawing import GREY
from espalier.report.tables import P, Signed, Table
from tests.report import synthetic

ALL_FIGURES = {
    "best-history", "best-queries-theta2", "best-selection", "colbert-figure-2",
    "colbert-figure-3", "colbert-queries-icf-p03", "colbert-queries-icf-p32-first-p32",
    "colbert-queries-mine-first-p32", "colbert-stages", "sparse-figure-1-splade",
    "sparse-quality-time-splade", "sparse-queries-splade-dths", "sparse-scale-splade",
    "sparse-queries-splade-dths-k100-splade-original", "stage-times",
}  # fmt: skip


def page(folder: Path) -> str:
    return (folder / "report" / "index.html").read_text()


def test_evaluate_writes_what_the_other_stages_read(made) -> None:
    summary = json.loads((made / "evaluation" / "sparse.summary.json").read_text())
    assert summary["collection"] == {
        "docs": "made-up/docs",
        "docs_count": 60,
        "split": "made-up/docs/test",
    }
    assert summary["queries"]["judged"] == 39
    assert summary["queries"]["unjudged"] == 1
    assert set(summary["systems"]) == set(synthetic.SYSTEMS["sparse"])
    per_query = pd.read_parquet(made / "evaluation" / "sparse.per_query.parquet")
    assert list(per_query.columns) == ["system", "query_id", "measure", "value"]
    mean = per_query.query("system == 'splade-dths' and measure == 'AP'")["value"].mean()
    assert summary["systems"]["splade-dths"]["AP"] == pytest.approx(mean)
    compared = pd.read_parquet(made / "evaluation" / "sparse.comparisons.parquet")
    assert list(compared.columns) == list(COLUMNS)
    assert set(compared["system"]) == {
        "splade-dths", "splade-dths-st", "splade-dths-k100", "splade-dths-x0.5", "splade-dths-x4",
        "splade-hybrid",
    }  # fmt: skip


def test_the_ledger_judges_every_claim_and_the_page_shows_it(made) -> None:
    rows = json.loads((made / "claims.json").read_text())
    text = page(made)
    for row in rows:
        assert row["verdict"] in VERDICTS
        assert row["why"]
        assert f'id="claim-{row["id"]}"' in text
    tested = {row["paper"] for row in rows if row["verdict"] != VERDICTS[-1]}
    assert tested == {"best", "colbert", "sparse"}
    for verdict in VERDICTS:
        count = sum(row["verdict"] == verdict for row in rows)
        assert f"<b>{count}</b>{verdict}" in text


class Checker(HTMLParser):
    """Collects ids, what would be fetched, and unclosed elements."""

    VOID = frozenset({"meta", "input", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.fetched += [
            v for k, v in attrs if k in ("src", "href") and not v.startswith(("#", "data:"))
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(made) -> None:
    checker = Checker()
    checker.feed(page(made))
    assert checker.open == []
    assert checker.fetched == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert "@import" not in page(made)


def test_references_inside_figures_resolve(made) -> None:
    text = page(made)
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'xlink:href="#([^"]+)"', text)) <= ids
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= ids


def test_figures_stand_alone_as_svg(made) -> None:
    for suffix in ("svg", "pdf"):
        found = {p.stem: p for p in (made / "report" / "figures").glob(f"*.{suffix}")}
        assert set(found) == ALL_FIGURES
    for path in (made / "report" / "figures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    for path in (made / "report" / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF-")


def test_every_table_is_there_as_csv_and_latex(made) -> None:
    folder = made / "report" / "tables"
    names = {path.stem for path in folder.iterdir()}
    assert {
        "best-table-1",
        "best-table-2",
        "sparse-table-3",
        "colbert-sweep",
        "stage-costs",
    } <= names
    per_query = pd.read_parquet(made / "evaluation" / "best.per_query.parquet")
    theta2 = per_query.query("system == 'theta2' and measure == 'nDCG@10'")["value"].mean()
    table = pd.read_csv(folder / "best-table-1.csv").set_index("system")
    assert table.loc["θ2", "nDCG@10"] == theta2  # all digits
    text = (folder / "best-table-1.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == 1
    assert rf"$\theta$2 & this run & made-up/docs/test & {theta2:.3f} & " in text


def test_seeds_are_averaged_in_the_table_of_iterations(made) -> None:
    table = pd.read_csv(made / "report" / "tables" / "best-table-2.csv").set_index("system")
    assert table.loc["θ1", "dev RR"] == pytest.approx(0.5)
    assert table.loc[["θ1", "θ2"], "picked"].tolist() == [0.5, 0.5]
    assert np.isnan(table.loc["MaxP", "picked"]) and table.loc["MaxP", "dev RR"] == 0.3


def test_what_the_documents_are_like(made) -> None:
    table = pd.read_csv(made / "report" / "tables" / "best-data.csv").set_index("quantity")
    assert table.loc["document pieces", "median"] == 71
    assert table.loc["relevant passages train", "share"] == 0.58
    assert "<td>relevant passages train</td><td>1,000</td><td>0.580</td>" in (
        re.sub(r"\s*<(/?)td[^>]*>\s*", r"<\1td>", page(made))
    )


def test_published_rows_stand_apart(made) -> None:
    table = pd.read_csv(made / "report" / "tables" / "best-table-1.csv").set_index("system")
    assert list(table.index[:6]) == ["BM25", "FirstP", "MaxP", "θ0", "θ1", "θ2"]
    assert table.loc["TKL", "nDCG@10"] == 0.644
    assert table.loc["TKL", "source"].startswith("published")
    assert table.loc["TKL", "measured on"] == "TREC 2019 documents"
    assert page(made).count('<tr class="published">') == len(table) - 6
    assert table.loc["θ0", "source"] == "this run"


def test_the_worst_queries_are_named_with_their_texts(made) -> None:
    per_query = pd.read_parquet(made / "evaluation" / "colbert.per_query.parquet")
    values = per_query[per_query["measure"] == "nDCG@10"].pivot_table(
        index="query_id", columns="system", values="value"
    )
    lost = (values["icf-p03"] - values["first-p32"]).sort_values(kind="stable")
    lost = lost[lost < 0][:10]
    assert len(lost) > 3
    table = pd.read_csv(made / "report" / "tables" / "colbert-worst-icf-p03.csv")
    assert list(table["query"]) == list(lost.index)
    assert list(table["text"]) == [f"text of {query}" for query in lost.index]
    assert table["difference"].to_numpy() == pytest.approx(lost.to_numpy())
    assert f"text of {lost.index[0]}" in page(made)


def test_the_papers_numbers_stand_beside_this_runs(made) -> None:
    rows = json.loads((made / "claims.json").read_text())
    table = pd.read_csv(made / "report" / "tables" / "sparse-published.csv").set_index("claim")
    numeric = [r for r in rows if r["paper"] == "sparse" and not isinstance(r["published"], str)]
    assert len(table) == len(numeric) > 5
    for row in numeric:
        assert float(table.loc[row["claim"], "published"]) == row["published"]


def test_times_and_original_runs_are_compared_in_tables(made) -> None:
    folder = made / "report" / "tables"
    times = pd.read_csv(folder / "colbert-latencies.csv")
    latency = pd.read_parquet(made / "colbert" / "latency.parquet")
    means = latency.groupby("system")["total_ns"].mean()
    row = times[(times["system"] == "icf-p03") & (times["statistic"] == "mean")].iloc[0]
    assert row["ratio"] == pytest.approx(means["icf-p03"] / means["first-p32"])
    assert row["ci low"] < row["ratio"] < row["ci high"]
    near = pd.read_csv(folder / "best-reproduction.csv").set_index(["system", "statistic"])
    assert (near.loc[("maxp", "rmse"), "value"] == 0).all()
    assert near.loc[("theta2", "rmse"), "value"].max() > 0.1
    assert near.loc[("maxp", "kendall_tau_union"), "value"].item() == pytest.approx(1)
    assert len(near.loc[("theta2", "effect_ratio")]) == len(synthetic.MEASURES)
    assert not (folder / "sparse-reproduction.csv").exists()


def test_a_run_of_ones_own_has_its_means_and_its_queries_drawn(made) -> None:
    table = pd.read_csv(made / "report" / "tables" / "colbert-own.csv").set_index("system")
    # One relevant document of two, at the top: 1 / (1 + 1 / log2(3)) of the ideal gain.
    assert table.loc["mine", "nDCG@10"] == pytest.approx(0.6131, abs=1e-4)
    assert table.loc["mine", ["RR@10", "AP", "P@1"]].tolist() == [1, 0.5, 1]
    assert "mine (the best of its family of comparisons) against first-p32" in page(made)
    assert not (made / "report" / "tables" / "best-own.csv").exists()


def test_latex_reads_nothing_as_a_command() -> None:
    table = Table("t", "50% of a_b & c", ["x_y", "n"], [["#{\\}", 0.5], ["p", None]])
    lines = exports.as_latex(table).splitlines()
    assert r"\caption{50\% of a\_b \& c}" in lines
    assert r"x\_y & n \\" in lines
    assert r"\#\{\textbackslash{}\} & 0.500 \\" in lines
    assert r"p & -- \\" in lines
    assert exports.as_csv(table) == "x_y,n\n#{\\},0.5\np,\n"


@pytest.mark.parametrize(
    ("value", "text"), [(P(0.0004), "<.001"), (P(0.03), "0.030"), (Signed(0.5), "+0.5000")]
)
def test_numbers_with_a_way_of_their_own(value, text) -> None:
    assert tables.cell(value) == text


def test_crosses_are_the_published_points() -> None:
    systems = ["first-p01", "first-p32"]
    means = pd.DataFrame({"AP": [0.1, 0.5]}, index=systems)
    documents = pd.Series([10.0, 99.0], index=systems)
    none = pd.DataFrame({"AP": False}, index=systems)
    point = {"order": "first", "p": 1, "documents": 20, "measure": "AP", "quality": 0.2}
    count = [
        figures.pruning_trade(means, documents, none, ["AP"], points).svg.count("<use ")
        for points in ([], [point], [point, {**point, "measure": "nDCG@10"}])
    ]
    assert count[1] == count[0] + 1
    assert count[2] == count[1]


def test_the_same_inputs_give_the_same_bytes(made) -> None:
    before = synthetic.digests(made)
    assert cli.main(synthetic.report_arguments(made)) == 0
    for arguments in [
        *(synthetic.evaluate_arguments(made, paper) for paper in synthetic.SYSTEMS),
        synthetic.claims_arguments(made),
    ]:
        assert cli.main(arguments) == 0
    assert synthetic.digests(made) == before


def test_a_paper_left_out_leaves_its_section_out(tmp_path) -> None:
    for arguments in synthetic.results(tmp_path, papers=("colbert",)):
        assert cli.main(arguments) == 0
    assert cli.main(synthetic.claims_arguments(tmp_path)) == 0
    assert cli.main(synthetic.report_arguments(tmp_path)) == 0
    text = page(tmp_path)
    assert '<section id="colbert">' in text
    assert '<section id="best">' not in text
    assert "leaves out the part &#39;best&#39;" in text


def test_systems_that_choose_p_by_query_are_diamonds() -> None:
    systems = ["first-p01", "icf-p01", "icf-s0.5", "icf-s0.9"]
    means = pd.DataFrame({"AP": [0.1, 0.4, 0.3, 0.5]}, index=systems)
    documents = pd.Series([10.0, 12.0, 50.0, 70.0], index=systems)
    drawn = [
        figures.pruning_trade(
            means.loc[names], documents[names], pd.DataFrame({"AP": False}, index=names), ["AP"], []
        ).svg.count(f"fill: {GREY}; stroke: {GREY}")
        for names in (systems[:2], systems)
    ]
    assert drawn == [0, 2 + 1]  # the points, and one in the legend


def test_systems_beyond_the_paper_have_a_table_of_their_own(made) -> None:
    results = load([Path(name) for name in synthetic.tables(made)])
    section = sections.colbert(results, 0.05)
    paper, beyond = section.tables[:2]
    assert [row[0] for row in beyond.rows] == ["icf-p03-d0.5", "icf-s0.5"]
    assert {"icf-p03", "first-p32"} < {row[0] for row in paper.rows}
    assert not {"icf-p03-d0.5", "icf-s0.5"} & {row[0] for row in paper.rows}
    costs = ["documents retrieved", "relevant retrieved", "embeddings", "index bytes"]
    assert list(beyond.header)[-6:-2] == costs


def test_hollow_points_are_the_significant_ones() -> None:
    systems = [f"{order}-p{p:02}" for order in ("first", "icf") for p in (1, 32)]
    means = pd.DataFrame({"AP": [0.1, 0.5, 0.4, 0.5]}, index=systems)
    documents = pd.Series([10.0, 99.0, 12.0, 99.0], index=systems)
    none = pd.DataFrame({"AP": False}, index=systems)
    one = none.copy()
    one.loc["first-p01", "AP"] = True
    white = [
        figures.pruning_trade(means, documents, different, ["AP"], []).svg.count(
            "fill: #ffffff; stroke: #c0392b"
        )
        for different in (none, one)
    ]
    assert white[1] > white[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (7, "7"),
        (6980, "6,980"),
        (1234.5, "1,234"),
        (22.16, "22.2"),
        (0.3229, "0.323"),
        ("MS MARCO", "MS MARCO"),
    ],
)
def test_cells(value, text) -> None:
    assert tables.cell(value) == text


def test_costs_are_listed_in_the_order_of_the_chain() -> None:
    record = {
        name: {"cost": {"started": start, "wall_seconds": 1.5, "cpu_seconds": 1.0,
                        "peak_memory_bytes": 3 * 2**20, "threads": 2}}
        for name, start in (("second", 20.0), ("first", 10.0))
    }  # fmt: skip
    table = tables.cost_table(record)
    assert table.rows == [["first", 1.5, 1.0, 3.0, 2], ["second", 1.5, 1.0, 3.0, 2]]
