"""One section of the report per paper: its figures and tables redrawn on this run."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from espalier.evaluation.results import Results
from espalier.report import figures, tables
from espalier.report.tables import Table

POINTS = ("bm25", *(f"{order}-p{p:02}" for order in ("first", "icf") for p in (1, 2, 3, 8, 32)))
"""Systems of the pruning sweep that its table shows."""

EXTENDED = re.compile(r"-s[\d.]+$|-d[\d.]+$")
"""Ends of the names of pruned systems beyond the paper: p chosen by query, smaller indexes."""

PRUNING_COSTS = ["documents_retrieved", "relevant_retrieved", "embeddings", "index_bytes"]
"""Columns of the pruning counts that differ between systems."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name and caption."""

    name: str
    svg: str
    caption: str


@dataclass
class Section:
    """What the report shows of one paper."""

    paper: str
    title: str
    reference: str
    drawings: list[Drawing] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def draw(self, name: str, svg: str, caption: str) -> None:
        """Add a figure."""
        self.drawings.append(Drawing(name, svg, caption))


def quality(results: Results, paper: str) -> pd.DataFrame:
    """Mean measures, float64[systems, measures], measures in the config's order."""
    summary = results.summaries[paper]
    frame = pd.DataFrame.from_dict(summary["systems"], orient="index")
    return frame[[name for name in summary["measures"] if name in frame]]


def best(results: Results, alpha: float) -> Section:
    """BeST: ranking quality, segment selection and training history."""
    section = Section(
        "best",
        "BeST: query-driven segment selection",
        "Kim, Rahimi, Bonab, Allan, CIKM 2021",
    )
    section.tables.append(
        tables.systems_table(
            quality(results, "best"), [], "Ranking of the test queries' candidates (as Table 1)"
        )
    )
    history = results.tables.get("best/history", pd.DataFrame())
    dev = pd.Series(dtype="float64")
    if "dev_rr" in history:
        dev = history.groupby("system")["dev_rr"].max()
    if "best/selection" in results.tables:
        hits = tables.means_by_system(results.tables["best/selection"])
        hits = hits[[c for c in ("hit", "hit_strict") if c in hits]]
        names = {"hit": "larger part of the answer", "hit_strict": "whole answer"}
        hits = hits.rename(columns=names)
        section.tables.append(
            tables.systems_table(
                hits,
                [dev.rename("dev RR").to_frame()] if not dev.empty else [],
                "Segment selection, P@1: does the chosen segment hold the answer? (as Table 2)",
            )
        )
        section.draw(
            "best-selection",
            figures.selection(hits, dev),
            "Segment selection by system (as Table 2): how often the segment chosen in a relevant "
            "page holds the answer; dev RR beside it.",
        )
    if not history.empty:
        x, *columns = history.select_dtypes("number").columns
        section.draw(
            "best-history",
            figures.history(history, str(x), [str(c) for c in columns]),
            "Training histories.",
        )
    return section


def colbert(results: Results, alpha: float) -> Section:
    """Query embedding pruning: Figures 2 and 3, cost table."""
    section = Section(
        "colbert",
        "Query embedding pruning",
        "Tonellotto, Macdonald, CIKM 2021",
    )
    means = quality(results, "colbert")
    comparisons = results.tables["evaluation/colbert.comparisons"]
    costs = []
    if "colbert/counts" in results.tables:
        counts = tables.means_by_system(results.tables["colbert/counts"])
        costs.append(counts[[name for name in PRUNING_COSTS if name in counts]])
        documents = counts["documents_retrieved"]
        shown = [m for m in ("nDCG@10", "AP") if m in means]
        relevant = counts["relevant_retrieved"].rename("relevant retrieved")
        section.draw(
            "pruning-figure-2",
            figures.pruning_by_p(
                pd.concat([means[shown], relevant], axis=1),
                documents,
                [*shown, "relevant retrieved"],
            ),
            "Figure 2 on this run: effectiveness and documents retrieved against the number p of "
            "query embeddings, in First order.",
        )
        family = comparisons[comparisons["family"] == "pruning"]
        different = (
            family.pivot_table(index="system", columns="measure", values="p_bonferroni") < alpha
        )
        shown = [m for m in ("nDCG@10", "AP", "RR@10") if m in different and m in means]
        section.draw(
            "pruning-figure-3",
            figures.pruning_trade(means, documents, different, shown),
            "Figure 3 on this run: effectiveness against documents retrieved, p = 1 … 32. Hollow: "
            f"different from p = 32 (paired t-test, Bonferroni, p < {alpha:g}). "
            "Diamonds, beyond the paper: p chosen by query.",
        )
    if "colbert/latency" in results.tables:
        costs.append(tables.milliseconds(results.tables["colbert/latency"]))
    shown_systems = means.loc[[s for s in POINTS if s in means.index]]
    section.tables.append(tables.systems_table(shown_systems, costs, "Some points of the sweep"))
    extended = means.loc[[s for s in means.index if EXTENDED.search(str(s))]]
    if not extended.empty:
        section.tables.append(
            tables.systems_table(
                extended,
                costs,
                "Beyond the paper: p chosen by query (icf-s: share of the inverse collection "
                "frequency) and indexes of a share of each document's embeddings (-d)",
            )
        )
    return section


def sparse(results: Results, alpha: float) -> Section:
    """Dual skipping guidance: Tables 1 to 3, Figure 1."""
    section = Section(
        "sparse",
        "Dual skipping guidance",
        "Qiao, Yang, Lin, Yang, 2022",
    )
    means = quality(results, "sparse")
    costs = []
    if "sparse/counts" in results.tables:
        counts = tables.means_by_system(results.tables["sparse/counts"])
        share = 100 * counts["blocks_loaded"] / counts["blocks"]
        costs += [counts, share.rename("blocks %").to_frame()]
    weightings = {
        name.split("/")[0]: table
        for name, table in sorted(results.tables.items())
        if name.endswith("/weights")
    }
    if "sparse/latency" in results.tables:
        times = tables.milliseconds(results.tables["sparse/latency"])
        costs.append(times)
        for weighting in weightings:
            shown = means.iloc[:, 0]
            shown = shown[shown.index.str.startswith(f"{weighting}-")]
            shown.index = shown.index.str.removeprefix(f"{weighting}-")
            ms = times["mean ms"]
            ms.index = ms.index.str.removeprefix(f"{weighting}-")
            section.draw(
                f"dths-quality-time-{weighting}",
                figures.quality_against_time(shown, ms, str(means.columns[0])),
                f"Quality against mean time per query, {weighting}; one thread, all settings "
                "interleaved.",
            )
    for weighting, histogram in weightings.items():
        section.draw(
            f"dths-figure-1-{weighting}",
            figures.weights(histogram),
            f"Figure 1 on this run: distribution of posting weights of {weighting}, min-max "
            "scaled.",
        )
    for number, caption, belongs in PAPER_TABLES:
        chosen = [name for name in means.index if belongs(str(name))]
        section.tables.append(
            tables.systems_table(
                means.loc[chosen], costs, f"{caption} (as Table {number}); work is a mean per query"
            )
        )
    return section


def designed(system: str) -> bool:
    """Whether a system's setting is one of the paper's Table 3."""
    return any(part in system for part in ("-dths", "-hybrid", "-original")) and "-k" not in system


PAPER_TABLES: list[tuple[int, str, Callable[[str], bool]]] = [
    (1, "Relevance and time of each weighting", lambda system: "-k" not in system),
    (2, "Another k", lambda system: "-k" in system),
    (3, "Design options", designed),
]
"""DTHS's tables: number, caption, and whether a system belongs there."""


SECTIONS: dict[str, Callable[[Results, float], Section]] = {
    "best": best,
    "colbert": colbert,
    "sparse": sparse,
}


def build(results: Results, alpha: float) -> list[Section]:
    """The sections of the papers whose parts ran; `alpha` is the level of hollow points."""
    sections = []
    for paper, section_of in SECTIONS.items():
        if paper in results.summaries:
            section = section_of(results, alpha)
            published = tables.published_table(paper, results)
            compared = tables.comparisons_table(results.tables[f"evaluation/{paper}.comparisons"])
            section.tables += [t for t in (published, compared) if t is not None]
            sections.append(section)
    return sections
