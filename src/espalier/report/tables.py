"""The report's tables: data frames turned into rows of formatted cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd
import yaml

from espalier.evaluation.results import Absent, Results


@dataclass(frozen=True)
class Table:
    """A captioned table; the first `text_columns` columns are text, the others numbers."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    folded: bool = False
    """Shown only when asked for."""


def cell(value: Any) -> str:
    """A number as one reads it: up to four significant digits, thousands grouped."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


def p_value(p: float) -> str:
    """A p-value: three decimals, or '<.001'."""
    return "<.001" if p < 0.001 else f"{p:.3f}"


def means_by_system(table: pd.DataFrame) -> pd.DataFrame:
    """Mean of every number column, float64[systems, columns]."""
    return table.drop(columns="query_id").groupby("system").mean(numeric_only=True)


def milliseconds(latency: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95th percentile of `total_ns` by system, in ms."""
    groups = latency.groupby("system")["total_ns"]
    return pd.DataFrame({"mean ms": groups.mean(), "p95 ms": groups.quantile(0.95)}) / 1e6


def systems_table(quality: pd.DataFrame, costs: Sequence[pd.DataFrame], caption: str) -> Table:
    """One row per system: its measures, then its mean costs where they are known."""
    whole = pd.concat([quality, *costs], axis=1).reindex(quality.index)
    header = ["system", *(str(name).replace("_", " ") for name in whole.columns)]
    rows = [[str(system), *map(cell, values)] for system, values in zip(
        whole.index, whole.to_numpy().tolist(), strict=True)]  # fmt: skip
    return Table(caption, header, rows)


def comparisons_table(comparisons: pd.DataFrame) -> Table:
    """Every declared comparison with its tests."""
    header = [
        "family", "system", "baseline", "measure", "mean", "baseline's", "difference", "interval",
        "p", "Bonferroni", "Holm", "TOST", "outcome",
    ]  # fmt: skip
    rows = []
    for r in comparisons.to_dict("records"):
        names = [r[name] for name in ("family", "system", "baseline", "measure")]
        interval = f"[{r['ci_low']:+.4f}, {r['ci_high']:+.4f}]"
        means = [cell(r["mean_system"]), cell(r["mean_baseline"]), f"{r['difference']:+.4f}"]
        ps = [p_value(r[name]) for name in ("p", "p_bonferroni", "p_holm", "p_tost")]
        rows.append([*names, *means, interval, *ps, r["outcome"]])
    return Table(f"All comparisons ({len(rows)})", header, rows, text_columns=4, folded=True)


def published_table(paper: str, results: Results) -> Table | None:
    """Published values beside this run's; None when the paper publishes none that we have."""
    text = files("espalier.report").joinpath("published.yaml").read_text()
    rows = [
        [
            entry["system"], entry["what"], entry["where"], entry["source"],
            cell(entry["value"]), cell(here(entry, results)),
        ]
        for entry in yaml.safe_load(text)
        if entry["paper"] == paper
    ]  # fmt: skip
    header = ["system", "quantity", "published on", "source", "published", "this run"]
    caption = "Published values, with where they were measured, beside this run's"
    return Table(caption, header, rows, text_columns=4) if rows else None


def here(entry: Mapping[str, Any], results: Results) -> float | None:
    """The value of a published quantity in this run, if there is any."""
    source, system = entry["from"], entry["system"]
    try:
        if "measure" in source:
            means = results.require(entry["paper"])["systems"]
            return float(means[system][source["measure"]])
        values = results.per_query(source, system)
        return float(values.mean()) / float(source.get("per", 1))
    except (Absent, KeyError):
        return None


def cost_table(records: Mapping[str, Mapping[str, Any]]) -> Table:
    """Wall time, CPU time and peak memory of each stage, in the order of the chain."""
    rows = [
        [
            name,
            f"{cost['wall_seconds']:,.1f}",
            f"{cost['cpu_seconds']:,.1f}",
            f"{cost['peak_memory_bytes'] / 2**20:,.0f}",
            str(cost["threads"]),
        ]
        for name, cost in ((name, record["cost"]) for name, record in in_order(records))
    ]
    header = ["stage", "wall [s]", "CPU [s]", "peak memory [MiB]", "threads"]
    return Table("Cost by stage", header, rows)


def in_order(
    records: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, Mapping[str, Any]]]:
    """Records by the time at which their stage began."""
    return sorted(records.items(), key=lambda item: (item[1]["cost"]["started"], item[0]))


def measures_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """What each paper's part was measured on, and by whom."""
    rows = []
    for paper, summary in sorted(summaries.items()):
        queries = summary["queries"]
        lacking = sum(1 for n in queries["without_results"].values() if n)
        providers = sorted({m["provider"] for m in summary["measures"].values()})
        rows.append(
            [
                paper,
                summary["collection"]["split"],
                ", ".join(m["measure"] for m in summary["measures"].values()),
                "; ".join(providers),
                cell(summary["collection"]["docs_count"]),
                cell(queries["judged"]),
                cell(queries["unjudged"]),
                cell(lacking),
            ]
        )
    header = [
        "part", "split", "measures", "computed by", "documents", "judged queries",
        "unjudged, left out", "systems with queries without results (zero)",
    ]  # fmt: skip
    return Table("What was measured, and how", header, rows, text_columns=4)


def collections_table(manifests: Mapping[str, Mapping[str, Any]]) -> Table:
    """The collections as snapshot: id, size, digest."""
    rows = [
        [name, manifest["docs"], str(manifest["docs_sha256"])[:16], cell(manifest["docs_count"])]
        for name, manifest in sorted(manifests.items())
    ]
    return Table("Collections", ["view", "ir_datasets id", "SHA-256", "documents"], rows, 3)


def environment_table(records: Mapping[str, Mapping[str, Any]]) -> Table:
    """Package versions, Python and commit, as the records have them; several where they differ."""
    found: dict[str, set[str]] = {}
    for record in records.values():
        about = {**record["packages"], **record["machine"], "commit": record["commit"]}
        for name, value in about.items():
            found.setdefault(name, set()).add(str(value))
    rows = [[name, ", ".join(sorted(values))] for name, values in sorted(found.items())]
    return Table("Environment", ["what", "version"], rows, text_columns=2)
