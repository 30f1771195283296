"""One section of the report per paper: its figures and tables redrawn on this run."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from espalier.evaluation.results import Results
from espalier.report import figures, published, tables
from espalier.report.drawing import Drawn
from espalier.report.tables import Table

POINTS = ("bm25", *(f"{order}-p{p:02}" for order in ("first", "icf") for p in (1, 2, 3, 8, 32)))
"""Systems of the pruning sweep that its table shows."""

EXTENDED = re.compile(r"-s[\d.]+$|-d[\d.]+$")
"""Ends of the names of pruned systems beyond the paper: p chosen by query, smaller indexes."""

PRUNING_COSTS = ["documents_retrieved", "relevant_retrieved", "embeddings", "index_bytes"]
"""Columns of the pruning counts that differ between systems."""

ARMS = {
    "bm25": "BM25",
    "firstp": "FirstP",
    "maxp": "MaxP",
    "first": "First segment",
    "random": "Random segment",
    "goldp": "GoldP",
    "best": "BeST",
}
"""BeST's systems, in the order of its tables; the iterations θ0, θ1 … follow."""

FURTHER = {
    "latencies": "Ratios of times [ns], system over baseline; paired: geometric mean over queries",
    "reproduction": "How near the runs come to the original run files",
}
"""Tables of the evaluation that an experiment may have, shown as they are."""

WORST = 10
"""Queries that are named beside a scatter."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name and caption."""

    name: str
    drawn: Drawn
    caption: str


@dataclass
class Section:
    """What the report shows of one paper, in this order."""

    paper: str
    title: str
    reference: str
    parts: list[Drawing | Table] = field(default_factory=list)

    @property
    def drawings(self) -> list[Drawing]:
        """Its figures."""
        return [part for part in self.parts if isinstance(part, Drawing)]

    @property
    def tables(self) -> list[Table]:
        """Its tables."""
        return [part for part in self.parts if isinstance(part, Table)]

    def draw(self, name: str, drawn: Drawn, caption: str) -> None:
        """Add a figure."""
        self.parts.append(Drawing(name, drawn, caption))


def quality(results: Results, paper: str) -> pd.DataFrame:
    """Mean measures, float64[systems, measures], measures in the config's order."""
    summary = results.summaries[paper]
    frame = pd.DataFrame.from_dict(summary["systems"], orient="index")
    return frame[[name for name in summary["measures"] if name in frame]]


def arms(names: Iterable[str]) -> dict[str, str]:
    """BeST's systems among some, as its tables call and order them."""
    there = set(names)
    iterations = sorted(name for name in there if re.fullmatch(r"theta\d+", name))
    known = [name for name in ARMS if name in there]
    others = sorted(there - {*iterations, *known})
    labels = {**ARMS, **{name: name.replace("theta", "θ") for name in iterations}}
    return {name: labels.get(name, name) for name in (*known, *iterations, *others)}


def best(results: Results, alpha: float) -> Section:
    """BeST: ranking quality, segment selection and training history."""
    section = Section(
        "best",
        "BeST: query-driven segment selection",
        "Kim, Rahimi, Bonab, Allan, CIKM 2021",
    )
    means = quality(results, "best")
    named = arms(means.index)
    section.parts.append(
        tables.with_rivals(
            "best-table-1",
            means.loc[list(named)].rename(index=named),
            results.summaries["best"]["collection"]["split"],
            published.rivals("best"),
            "Ranking of the test queries' candidates (as Table 1)",
        )
    )
    if "best/data" in results.tables:
        section.parts.append(tables.data_table("best-data", results.tables["best/data"]))
    # Several parts (seeds, folds) are averaged, as the measures are.
    iterations = results.tables.get("best/iterations", pd.DataFrame())
    reached = pd.DataFrame(columns=["dev RR", "picked"], dtype="float64")
    if not iterations.empty:
        reached = iterations.groupby("system")[["dev_rr", "picked"]].mean()
        reached.columns = ["dev RR", "picked"]
        reached.loc[~reached.index.str.fullmatch(r"theta[1-9]\d*"), "picked"] = float("nan")
    if "best/selection" in results.tables:
        hits = tables.means_by_system(results.tables["best/selection"])
        hits = hits[[c for c in ("hit", "hit_strict") if c in hits]]
        named = arms([*hits.index, *reached.index])
        names = {"hit": "right segment", "hit_strict": "whole answer"}
        hits = hits.reindex(list(named)).rename(columns=names, index=named)
        reached = reached.rename(index=named)
        section.parts.append(
            tables.systems_table(
                "best-table-2",
                hits.add_prefix("P@1, "),
                [reached],
                "Segment selection, P@1: is the chosen segment right, the one with the larger "
                "part of the answer, or, where none does, one that is mostly answer? (as Table 2); "
                "picked: how often the dev measure picks this iteration",
            )
        )
        if hits.notna().any(axis=None):  # where answers are known
            section.draw(
                "best-selection",
                figures.selection(hits, reached["dev RR"].dropna()),
                "Segment selection by system (as Table 2): how often the segment chosen in a "
                "relevant page holds the answer; dev RR beside it.",
            )
    history = results.tables.get("best/history", pd.DataFrame())
    if not history.empty:
        history = history.groupby(["system", "epoch"], as_index=False)[["loss", "dev_rr"]].mean()
        section.draw(
            "best-history",
            figures.history(history, "epoch", ["loss", "dev_rr"]),
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
    points = published.points("colbert")
    costs = []
    if "colbert/counts" in results.tables:
        counts = tables.means_by_system(results.tables["colbert/counts"])
        costs.append(counts[[name for name in PRUNING_COSTS if name in counts]])
        documents = counts["documents_retrieved"]
        shown = [m for m in ("nDCG@10", "AP") if m in means]
        relevant = counts["relevant_retrieved"].rename("relevant retrieved")
        section.draw(
            "colbert-figure-2",
            figures.pruning_by_p(
                pd.concat([means[shown], relevant], axis=1),
                documents,
                [*shown, "relevant retrieved"],
                points,
            ),
            "Figure 2 on this run: effectiveness and documents retrieved against the number p of "
            "query embeddings, in First order. Crosses: published, on MS MARCO passages.",
        )
        family = comparisons[comparisons["family"] == "pruning"]
        different = (
            family.pivot_table(index="system", columns="measure", values="p_bonferroni") < alpha
        )
        shown = [m for m in ("nDCG@10", "AP", "RR@10") if m in different and m in means]
        section.draw(
            "colbert-figure-3",
            figures.pruning_trade(means, documents, different, shown, points),
            "Figure 3 on this run: effectiveness against documents retrieved, p = 1 … 32. Hollow: "
            f"different from p = 32 (paired t-test, Bonferroni, p < {alpha:g}). Crosses: "
            "published, on MS MARCO passages. Diamonds, beyond the paper: p chosen by query.",
        )
    if "colbert/latency" in results.tables:
        latency = results.tables["colbert/latency"]
        costs.append(tables.milliseconds(latency))
        spent = tables.means_by_system(latency) / 1e6
        stages = [name for name in figures.STAGES if f"{name}_ns" in spent]
        if stages:
            section.draw(
                "colbert-stages",
                figures.stages_of_a_query(
                    spent[[f"{name}_ns" for name in stages]].set_axis(stages, axis=1)
                ),
                "Where the time of a query goes: encoding it, nearest neighbours of its "
                "embeddings, each document once, exact scores (rows are read from the store as "
                "they are scored), the best.",
            )
    shown_systems = means.loc[[s for s in POINTS if s in means.index]]
    section.parts.append(
        tables.systems_table("colbert-sweep", shown_systems, costs, "Some points of the sweep")
    )
    extended = means.loc[[s for s in means.index if EXTENDED.search(str(s))]]
    if not extended.empty:
        section.parts.append(
            tables.systems_table(
                "colbert-extended",
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
    weightings = weightings_of(results)
    if "sparse/counts" in results.tables:
        counts = tables.means_by_system(results.tables["sparse/counts"])
        share = 100 * counts["blocks_loaded"] / counts["blocks"]
        costs += [counts, share.rename("blocks %").to_frame()]
        for weighting in weightings:
            scales = at_scales(means.index, weighting)
            if len(scales) > 1:
                name = f"sparse-scale-{weighting}"
                measure = str(means.columns[0])
                quality_at, scored_at = (
                    values.loc[list(scales.values())].set_axis(list(scales))
                    for values in (means[measure], counts["documents_scored"])
                )
                section.draw(
                    name,
                    figures.bm25_scale(quality_at, scored_at, measure, name),
                    f"Dual guidance, {weighting}, as BM25's weights are scaled, which the paper "
                    "leaves open; at 1 both weights have equal maxima.",
                )
    if "sparse/latency" in results.tables:
        times = tables.milliseconds(results.tables["sparse/latency"])
        costs.append(times)
        for weighting in weightings:
            shown = means.iloc[:, 0]
            shown = shown[shown.index.str.startswith(f"{weighting}-")]
            shown.index = shown.index.str.removeprefix(f"{weighting}-")
            ms = times["mean ms"]
            ms.index = ms.index.str.removeprefix(f"{weighting}-")
            name = f"sparse-quality-time-{weighting}"
            section.draw(
                name,
                figures.quality_against_time(shown, ms, str(means.columns[0]), name),
                f"Quality against mean time per query, {weighting}; one thread, all settings "
                "interleaved.",
            )
    for weighting in weightings:
        name = f"sparse-figure-1-{weighting}"
        section.draw(
            name,
            figures.weights(results.tables[f"{weighting}/weights"], name),
            f"Figure 1 on this run: distribution of posting weights of {weighting}, min-max "
            "scaled.",
        )
    for number, caption, belongs in PAPER_TABLES:
        chosen = [name for name in means.index if belongs(str(name))]
        section.parts.append(
            tables.systems_table(
                f"sparse-table-{number}",
                means.loc[chosen],
                costs,
                f"{caption} (as Table {number}); work is a mean per query",
            )
        )
    return section


def weightings_of(results: Results) -> list[str]:
    """The weightings whose postings' weights are among the results."""
    named = sorted(name for name in results.tables if name.endswith("/weights"))
    return [name.split("/")[0] for name in named]


def at_scales(systems: Iterable[str], weighting: str) -> dict[float, str]:
    """A weighting's systems under dual guidance by the scale of BM25's weights, ascending."""
    named = re.compile(rf"{re.escape(weighting)}-dths(?:-x([\d.]+))?")
    found = {system: named.fullmatch(system) for system in systems}
    return dict(sorted((float(m[1] or 1), system) for system, m in found.items() if m))


def of_another_k(system: str) -> bool:
    """Whether a system's setting has a k of its own, by its name."""
    return bool(re.search(r"-k\d+$", system))


def designed(system: str) -> bool:
    """Whether a system's setting is one of the paper's Table 3."""
    of_table = any(part in system for part in ("-dths", "-hybrid", "-original"))
    return of_table and not of_another_k(system) and "-dths-x" not in system


PAPER_TABLES: list[tuple[int, str, Callable[[str], bool]]] = [
    (1, "Relevance and time of each weighting", lambda system: not of_another_k(system)),
    (2, "Another k", of_another_k),
    (3, "Design options", designed),
]
"""DTHS's tables: number, caption, and whether a system belongs there."""


SECTIONS: dict[str, Callable[[Results, float], Section]] = {
    "best": best,
    "colbert": colbert,
    "sparse": sparse,
}


def leads(results: Results, paper: str) -> list[tuple[str, str]]:
    """What a paper is about: pairs of a baseline and the system that is held against it."""
    systems = results.summaries[paper]["systems"]
    if paper == "best":
        iterations = sorted(name for name in systems if re.fullmatch(r"theta\d+", name))
        pairs = [("maxp", system) for system in ("best", *iterations[-1:]) if system in systems][:1]
    elif paper == "colbert":
        pairs = [("first-p32", "icf-p03")]
    else:
        pairs = [(f"{name}-original", f"{name}-dths") for name in weightings_of(results)]
    return [pair for pair in pairs if set(pair) <= set(systems)]


def strongest(results: Results, paper: str) -> list[tuple[str, str]]:
    """Each family's baseline and the system that is best on the family's first measure."""
    compared = results.tables[f"evaluation/{paper}.comparisons"]
    pairs = []
    for _, rows in compared.groupby("family", sort=False):
        first = rows[rows["measure"] == rows["measure"].iloc[0]]
        best = first.loc[first["mean_system"].idxmax()]
        pairs.append((str(best["baseline"]), str(best["system"])))
    return pairs


def query_by_query(section: Section, results: Results, texts: Mapping[str, str]) -> None:
    """Add scatters of the queries, a paper's leading pairs first, and the worst queries of each."""
    measure = next(iter(results.summaries[section.paper]["measures"]))
    leading = leads(results, section.paper)
    for baseline, system in dict.fromkeys([*leading, *strongest(results, section.paper)]):
        source = {"paper": section.paper, "measure": measure}
        values = results.paired(source, baseline, system).set_axis([baseline, system], axis=1)
        difference = (values[system] - values[baseline]).sort_values(kind="stable")
        lost = difference[difference < 0]
        worst = [str(query) for query in lost.index[:WORST]]
        leads_here = (baseline, system) in leading
        pair = system if leads_here else f"{system}-{baseline}"
        why = "" if leads_here else " (the best of its family of comparisons)"
        name = f"{section.paper}-queries-{pair}"
        section.draw(
            name,
            figures.per_query(values[baseline], values[system], worst, measure, name),
            f"{measure} of each of {len(values):,} queries: {system}{why} against {baseline}. It "
            f"is better on {(difference > 0).sum():,}, worse (red) on {len(lost):,}; ringed: the "
            "worst, named below.",
        )
        if worst:
            section.parts.append(
                tables.worst_table(
                    f"{section.paper}-worst-{pair}",
                    values,
                    worst,
                    texts,
                    f"The {len(worst)} queries on which {system} loses most to {baseline}, "
                    f"{measure}",
                )
            )


def own_runs(section: Section, results: Results) -> None:
    """Add the measures of the run files that the user gave, where there are some."""
    if own := results.summaries[section.paper]["own_runs"]:
        means = quality(results, section.paper).loc[own]
        caption = "Run files of your own, measured as ours are"
        section.parts.append(tables.systems_table(f"{section.paper}-own", means, [], caption))


def build(
    results: Results,
    ledger: Sequence[Mapping[str, Any]],
    texts: Mapping[str, Mapping[str, str]],
    alpha: float,
) -> list[Section]:
    """The sections of the papers whose parts ran.

    `texts` holds each paper's queries by id; `alpha` is the level of hollow points.
    """
    sections = []
    for paper, section_of in SECTIONS.items():
        if paper in results.summaries:
            section = section_of(results, alpha)
            beside = tables.published_table(paper, ledger)
            section.parts += [beside] if beside is not None else []
            own_runs(section, results)
            query_by_query(section, results, texts[paper])
            compared = results.tables[f"evaluation/{paper}.comparisons"]
            section.parts.append(tables.comparisons_table(paper, compared))
            for name, caption in FURTHER.items():
                further = results.tables.get(f"evaluation/{paper}.{name}")
                if further is not None:
                    section.parts.append(tables.whole_table(f"{paper}-{name}", further, caption))
            sections.append(section)
    return sections
