"""The papers' figures, redrawn on this run. Each takes data frames and returns what was drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from espalier.evaluation.findings import number_of
from espalier.report.drawing import BLUE, COLOURS, GREY, OCHRE, RED, Drawn, canvas, drawn

ORDERS = {"first": ("First", RED, "o"), "icf": ("ICF", BLUE, "s")}

Points = Sequence[Mapping[str, Any]]
"""Published points: order, p, documents, and a measure with its quality where there is one."""

STAGES = {"encode": BLUE, "ann": RED, "dedupe": OCHRE, "score": "#3c7a4a", "top": GREY}
"""Stages of late interaction, in the order in which a query passes them."""


def sweep(table: pd.Series, order: str) -> pd.Series:
    """Values of `<order>-pNN`, by p, of a series whose index holds system names."""
    chosen = table[table.index.str.match(rf"{order}-p\d+$")]
    return chosen.set_axis([number_of(name) for name in chosen.index]).sort_index()


def pruning_by_p(
    means: pd.DataFrame, documents: pd.Series, measures: list[str], published: Points
) -> Drawn:
    """Pruning, Figure 2: measures and documents retrieved against p, embeddings in First order.

    `means` is float64[systems, measures], `documents` the mean documents retrieved by system.
    Crosses: published points.
    """
    panels = [(m, means[m]) for m in measures] + [("documents retrieved", documents)]
    with canvas(1, len(panels), 2.55 * len(panels), 2.5) as (figure, axes):
        label, colour, marker = ORDERS["first"]
        for ax, (name, values) in zip(axes, panels, strict=True):
            points = sweep(values, "first")
            ax.plot(points.index, points, marker=marker, markersize=3, color=colour, label=label)
            ax.set(title=name, xlabel="query embeddings p", xlim=(0, None))
        first = [point for point in published if point["order"] == "first"]
        cross(axes[-1], [p["p"] for p in first], [p["documents"] for p in first], GREY)
        return drawn(figure, "colbert-figure-2")


def pruning_trade(
    means: pd.DataFrame,
    documents: pd.Series,
    different: pd.DataFrame,
    measures: list[str],
    published: Points,
) -> Drawn:
    """Pruning, Figure 3: quality against documents retrieved, p = 1 … 32, First and ICF.

    Crosses: published points. Diamonds, which the paper has not: systems that choose p by query.

    `different` is bool[systems, measures]: hollow points, those that differ significantly from
    the full system.
    """
    with canvas(1, len(measures), 3.4 * len(measures), 3.1) as (figure, axes):
        for ax, measure in zip(axes, measures, strict=True):
            for order, (label, colour, marker) in ORDERS.items():
                y = sweep(means[measure], order)
                x = sweep(documents, order).reindex(y.index)
                hollow = sweep(different[measure], order).reindex(y.index, fill_value=False)
                full = ~hollow.to_numpy(dtype=bool)
                ax.plot(x, y, color=colour, linewidth=1, zorder=1)
                style: dict[str, Any] = {"marker": marker, "s": 20, "edgecolors": colour}
                ax.scatter(x[full], y[full], color=colour, label=label, zorder=2, **style)
                ax.scatter(x[~full], y[~full], facecolors="white", zorder=2, **style)
                mark_points(ax, x, y, colour, above=order == "icf")
                points = [
                    p for p in published if p["order"] == order and p.get("measure") == measure
                ]
                cross(ax, [p["documents"] for p in points], [p["quality"] for p in points], colour)
            chosen = means.index[means.index.str.match(r"icf-s[\d.]+$")]
            named = "ICF, p by query" if len(chosen) else None
            x, y = documents.reindex(chosen), means.loc[chosen, measure]
            ax.scatter(x, y, color=GREY, marker="D", s=14, label=named)
            ax.set(title=measure, xlabel="documents retrieved")
        axes[0].legend(loc="lower right")
        return drawn(figure, "colbert-figure-3")


def cross(ax: Axes, x: list[float], y: list[float], colour: str) -> None:
    """Mark published points."""
    ax.scatter(x, y, marker="x", s=34, color=colour, linewidths=1.3, zorder=3)


def mark_points(ax: Axes, x: pd.Series, y: pd.Series, colour: str, *, above: bool) -> None:
    """Write p beside some points of a curve."""
    for p in (1, 3, 8, 32):
        if p in y.index:
            ax.annotate(
                str(p),
                (x[p], y[p]),
                xytext=(0, 5 if above else -11),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=colour,
            )


def stages_of_a_query(latency: pd.DataFrame) -> Drawn:
    """Pruning: where the time of a query goes, a bar per system.

    `latency` is float64[systems, stages], mean milliseconds; the columns are names in `STAGES`.
    """
    ordered = latency.loc[latency.sum(axis=1).sort_values().index]
    with canvas(1, 1, 7.4, 0.75 + 0.3 * len(ordered)) as (figure, (ax,)):
        place = np.arange(len(ordered))[::-1]
        left = np.zeros(len(ordered))
        for name in ordered.columns:
            width = ordered[name].to_numpy()
            ax.barh(place, width, left=left, height=0.65, color=STAGES[name], label=name)
            left += width
        for y, total in zip(place, left, strict=True):
            ax.text(total, y, f" {total:.1f}", va="center", fontsize=7.5, color=GREY)
        ax.set_yticks(place, ordered.index.tolist())
        ax.set(xlabel="mean time per query [ms]")
        ax.grid(visible=False, axis="y")
        ax.legend(ncols=len(STAGES), loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=8)
        return drawn(figure, "colbert-stages")


def per_query(
    baseline: pd.Series, system: pd.Series, worst: Sequence[str], measure: str, name: str
) -> Drawn:
    """A system's value of each query against its baseline's, the worst queries ringed.

    `baseline` and `system` have one value per query (same index), and their names. Points are
    as large as the queries that lie there are many.
    """
    with canvas(1, 1, 4.4, 4.0) as (figure, (ax,)):
        together = pd.DataFrame({"x": baseline, "y": system})
        counted = together.round(3).value_counts().reset_index()
        below = counted["y"] < counted["x"]
        ax.plot([0, 1], [0, 1], color="#9aa1a9", linewidth=0.8, transform=ax.transAxes)
        for chosen, colour in ((~below, BLUE), (below, RED)):
            some = counted[chosen]
            ax.scatter(some["x"], some["y"], s=9 + 5 * np.sqrt(some["count"]), color=colour,
                       alpha=0.55, linewidths=0)  # fmt: skip
        ringed = together.loc[list(worst)]
        ax.scatter(ringed["x"], ringed["y"], s=70, facecolors="none", edgecolors=RED)
        low = min(0.0, float(together.min().min()))
        high = max(1.0, float(together.max().max()))
        span = (low - 0.03 * (high - low), high + 0.03 * (high - low))
        ax.set(xlim=span, ylim=span, xlabel=f"{measure} of {baseline.name}",
               ylabel=f"{measure} of {system.name}")  # fmt: skip
        return drawn(figure, name)


def quality_against_time(
    quality: pd.Series, milliseconds: pd.Series, measure: str, name: str
) -> Drawn:
    """Dual skipping guidance: each system's quality against its mean time per query.

    Points are numbered by time; a list beside them tells which is which.
    """
    timed = milliseconds.reindex(quality.index).dropna().sort_values(kind="stable")
    with canvas(1, 1, 7.4, max(3.4, 0.4 + 0.155 * len(timed))) as (figure, (ax,)):
        for number, system in enumerate(timed.index, start=1):
            point = (timed[system], quality[system])
            ax.scatter(*point, s=105, color=BLUE, edgecolors="white", linewidths=0.7)
            ax.annotate(str(number), point, ha="center", va="center", fontsize=6.5, color="white")
        listed = [f"{number}  {system}" for number, system in enumerate(timed.index, start=1)]
        ax.annotate(
            "\n".join(listed), (1, 1), xycoords="axes fraction", xytext=(10, 0),
            textcoords="offset points", va="top", fontsize=7.5, linespacing=1.35,
        )  # fmt: skip
        ax.set(xlabel="mean time per query [ms]", ylabel=measure, xlim=(0, None))
        ax.margins(x=0.06, y=0.1)
        return drawn(figure, name)


def bm25_scale(quality: pd.Series, documents: pd.Series, measure: str, name: str) -> Drawn:
    """Dual skipping guidance as BM25's weights are scaled; both series by scale, ascending."""
    panels = ((measure, quality, BLUE), ("documents scored", documents, RED))
    with canvas(1, len(panels), 6.4, 2.5) as (figure, axes):
        for ax, (title, values, colour) in zip(axes, panels, strict=True):
            ax.plot(values.index, values, marker="o", markersize=4, color=colour)
            ax.set_xscale("log", base=2)
            ax.set(title=title, xlabel="scale of BM25's weights")
        return drawn(figure, name)


def weights(histogram: pd.DataFrame, name: str) -> Drawn:
    """Dual skipping guidance, Figure 1: distribution of posting weights, min-max scaled.

    `histogram` has the columns side, bin_low, bin_high and count.
    """
    with canvas(1, 1, 6.4, 2.8) as (figure, (ax,)):
        for colour, (side, rows) in zip(COLOURS, histogram.groupby("side"), strict=False):
            low, high = rows["bin_low"].min(), rows["bin_high"].max()
            edges = np.append(rows["bin_low"], high)
            share = rows["count"] / rows["count"].sum()
            ax.stairs(100 * share, (edges - low) / (high - low), label=str(side), color=colour,
                      fill=True, alpha=0.35)  # fmt: skip
        ax.set(xlabel="weight, min-max scaled", ylabel="postings [%]", xlim=(0, 1))
        ax.legend()
        return drawn(figure, name)


def selection(hits: pd.DataFrame, dev: pd.Series) -> Drawn:
    """BeST, Table 2 as a figure: segment-selection P@1 by system, and dev RR where there is one.

    `hits` is float64[systems, criteria].
    """
    with canvas(1, 1, 6.4, 2.8) as (figure, (ax,)):
        place = np.arange(len(hits))
        width = 0.8 / max(1, hits.shape[1])
        for i, (criterion, colour) in enumerate(zip(hits.columns, (BLUE, "#8fb3cc"), strict=False)):
            offset = (i - (hits.shape[1] - 1) / 2) * width
            ax.bar(place + offset, hits[criterion], width, color=colour, label=str(criterion))
        if not dev.empty:
            y = dev.reindex(hits.index)
            ax.plot(place, y, "D", color=RED, markersize=6, label="dev RR")
        ax.set_xticks(place, hits.index)
        ax.set(ylabel="P@1", ylim=(0, None))
        ax.legend(ncols=3, loc="upper left", bbox_to_anchor=(0, 1.16))
        return drawn(figure, "best-selection")


def history(table: pd.DataFrame, x: str, columns: list[str]) -> Drawn:
    """Training histories: one panel per column, one curve per system."""
    with canvas(1, len(columns), 3.6 * len(columns), 2.8) as (figure, axes):
        for ax, column in zip(axes, columns, strict=True):
            for i, (system, rows) in enumerate(table.groupby("system", sort=True)):
                points = rows.dropna(subset=[column]).sort_values(x)
                ax.plot(points[x], points[column], marker="o", markersize=3, label=str(system),
                        color=COLOURS[i % len(COLOURS)])  # fmt: skip
            ax.set(title=column.replace("_", " ").replace("rr", "RR"), xlabel=x)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0].legend(fontsize=7.5)
        return drawn(figure, "best-history")


def stage_times(names: list[str], seconds: list[float]) -> Drawn:
    """Wall time of each stage, in the order of the chain."""
    with canvas(1, 1, 7.4, 0.6 + 0.21 * len(names)) as (figure, (ax,)):
        place = np.arange(len(names))[::-1]
        ax.barh(place, seconds, color="#8fb3cc", height=0.7)
        for y, value in zip(place, seconds, strict=True):
            ax.text(value, y, f" {value:,.1f}", va="center", fontsize=7.5, color=GREY)
        ax.set_yticks(place, names, fontsize=8)
        ax.set(xlabel="wall time [s]")
        ax.grid(visible=False, axis="y")
        ax.margins(y=0.01, x=0.1)
        return drawn(figure, "stage-times")
