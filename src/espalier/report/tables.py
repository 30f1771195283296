"""The report's tables: what they hold, and how a cell reads. Values stay numbers until then."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from espalier.report.published import Rival


class P(float):
    """A p-value: three decimals, or '<.001'."""


class Signed(float):
    """A difference: its sign always shown, four decimals."""


@dataclass(frozen=True)
class Table:
    """A captioned table; the first `text_columns` columns are text, the others numbers."""

    name: str
    """Of its files."""
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    text_columns: int = 1
    folded: bool = False
    """Shown only when asked for."""
    published: frozenset[int] = frozenset()
    """Rows that stand for what was published, not for this run."""


def cell(value: Any) -> str:
    """A value as one reads it: numbers with up to four significant digits, thousands grouped."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, P | Signed):
        return shown(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def shown(value: P | Signed) -> str:
    """A number that has a way of its own."""
    if isinstance(value, Signed):
        return f"{float(value):+.4f}"
    return "<.001" if value < 0.001 else f"{float(value):.3f}"


def means_by_system(table: pd.DataFrame) -> pd.DataFrame:
    """Mean of every number column, float64[systems, columns]."""
    return table.drop(columns="query_id").groupby("system").mean(numeric_only=True)


def milliseconds(latency: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95th percentile of `total_ns` by system, in ms."""
    groups = latency.groupby("system")["total_ns"]
    return pd.DataFrame({"mean ms": groups.mean(), "p95 ms": groups.quantile(0.95)}) / 1e6


def systems_table(
    name: str, quality: pd.DataFrame, costs: Sequence[pd.DataFrame], caption: str
) -> Table:
    """One row per system: its measures, then its mean costs where they are known."""
    whole = pd.concat([quality, *costs], axis=1).reindex(quality.index)
    header = ["system", *(str(column).replace("_", " ") for column in whole.columns)]
    columns = [counts_or_means(whole[column].tolist()) for column in whole.columns]
    rows = [[str(system), *row] for system, *row in zip(whole.index, *columns, strict=True)]
    return Table(name, caption, header, rows)


def counts_or_means(values: Sequence[float]) -> Sequence[float]:
    """Whole numbers as such where all are (and some exceed 1, as no measure does)."""
    known = [value for value in values if not pd.isna(value)]
    if not known or max(known) <= 1 or any(value != int(value) for value in known):
        return values
    return [value if pd.isna(value) else int(value) for value in values]


def with_rivals(
    name: str, quality: pd.DataFrame, split: str, rivals: Sequence[Rival], caption: str
) -> Table:
    """Systems of this run, then others with the values that were published of them."""
    measures = list(dict.fromkeys([*quality.columns, *(rival.measure for rival in rivals)]))
    ours = [
        [str(system), "this run", *row, split]
        for system, row in zip(
            quality.index, quality.reindex(columns=measures).to_numpy().tolist(), strict=True
        )
    ]
    theirs = [
        [rival.system, f"published: {rival.source}",
         *(rival.value if m == rival.measure else None for m in measures), rival.where]
        for rival in rivals
    ]  # fmt: skip
    rows = [[row[0], row[1], row[-1], *row[2:-1]] for row in [*ours, *theirs]]
    header = ["system", "source", "measured on", *measures]
    marked = frozenset(range(len(ours), len(rows)))
    return Table(name, caption, header, rows, text_columns=3, published=marked)


def comparisons_table(paper: str, comparisons: pd.DataFrame) -> Table:
    """Every declared comparison with its tests."""
    header = [
        "family", "system", "baseline", "measure", "mean", "baseline's", "difference",
        "from", "to", "p", "Bonferroni", "Holm", "effect", "TOST", "margin", "outcome",
    ]  # fmt: skip
    rows = [
        [
            *(r[name] for name in ("family", "system", "baseline", "measure")),
            r["mean_system"], r["mean_baseline"], Signed(r["difference"]),
            Signed(r["ci_low"]), Signed(r["ci_high"]),
            *(P(r[name]) for name in ("p", "p_bonferroni", "p_holm")),
            r["effect"], P(r["p_tost"]), r["margin"], r["outcome"],
        ]
        for r in comparisons.to_dict("records")
    ]  # fmt: skip
    caption = f"All comparisons ({len(rows)})"
    return Table(f"{paper}-comparisons", caption, header, rows, text_columns=4, folded=True)


def whole_table(name: str, frame: pd.DataFrame, caption: str) -> Table:
    """A data frame as it is, its text columns first."""
    numbers = [str(c) for c in frame.select_dtypes("number").columns]
    texts = [str(c) for c in frame.columns if c not in numbers]
    rows = frame[[*texts, *numbers]].to_numpy(dtype=object).tolist()
    header = [column.replace("_", " ") for column in (*texts, *numbers)]
    whole = f"{caption} ({len(rows)})"
    return Table(name, whole, header, rows, text_columns=len(texts), folded=True)


def data_table(name: str, data: pd.DataFrame) -> Table:
    """What the documents are like: quantity, count, share, mean, median, p90."""
    rows = [
        [row["quantity"].replace("_", " "), *(row[column] for column in data.columns[1:])]
        for row in data.to_dict("records")
    ]
    caption = "The documents, in word pieces, and what is made of them, in segments and pieces"
    return Table(name, caption, [str(column) for column in data.columns], rows)


def published_table(paper: str, ledger: Sequence[Mapping[str, Any]]) -> Table | None:
    """Every number that a paper publishes, beside this run's; None when the ledger has none."""
    rows = [
        [row["claim"], row["scale"], row["source"], row["verdict"], *alike(row)]
        for row in ledger
        if row["paper"] == paper and not isinstance(row["published"], str)
    ]
    header = ["claim", "published on", "source", "verdict", "published", "this run"]
    caption = "The paper's numbers beside this run's"
    return Table(f"{paper}-published", caption, header, rows, text_columns=4) if rows else None


def alike(row: Mapping[str, Any]) -> list[float | None]:
    """A claim's two numbers, both whole where they can be."""
    published, here = row["published"], row["here"]
    if isinstance(published, int) and here is not None and here == int(here):
        here = int(here)
    return [published, here]


def worst_table(
    name: str, values: pd.DataFrame, worst: Sequence[str], texts: Mapping[str, str], caption: str
) -> Table:
    """The queries on which a system loses most, with their texts.

    `values` has a column for the baseline and one for the system, in this order.
    """
    chosen = values.loc[list(worst)]
    baseline, system = chosen.columns
    before, after = chosen[baseline].tolist(), chosen[system].tolist()
    rows = [
        [query, texts.get(query, ""), old, new, Signed(new - old)]
        for query, old, new in zip(worst, before, after, strict=True)
    ]
    header = ["query", "text", str(baseline), str(system), "difference"]
    return Table(name, caption, header, rows, text_columns=2)


def cost_table(records: Mapping[str, Mapping[str, Any]]) -> Table:
    """Wall time, CPU time and peak memory of each stage, in the order of the chain."""
    rows = [
        [
            name,
            cost["wall_seconds"],
            cost["cpu_seconds"],
            cost["peak_memory_bytes"] / 2**20,
            cost["threads"],
        ]
        for name, cost in ((name, record["cost"]) for name, record in in_order(records))
    ]
    header = ["stage", "wall [s]", "CPU [s]", "peak memory [MiB]", "threads"]
    return Table("stage-costs", "Cost by stage", header, rows)


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
                summary["collection"]["docs_count"],
                queries["judged"],
                queries["unjudged"],
                lacking,
            ]
        )
    header = [
        "part", "split", "measures", "computed by", "documents", "judged queries",
        "unjudged, left out", "systems with queries without results (zero)",
    ]  # fmt: skip
    return Table("measures", "What was measured, and how", header, rows, text_columns=4)


def collections_table(manifests: Mapping[str, Mapping[str, Any]]) -> Table:
    """The collections as snapshot: id, size, digest."""
    rows = [
        [name, manifest["docs"], manifest["docs_sha256"], manifest["docs_count"]]
        for name, manifest in sorted(manifests.items())
    ]
    header = ["view", "ir_datasets id", "SHA-256", "documents"]
    return Table("collections", "Collections", header, rows, text_columns=3)


def environment_table(records: Mapping[str, Mapping[str, Any]]) -> Table:
    """Machine, package versions and commit, as the records have them; several where they differ."""
    found: dict[str, set[str]] = {}
    for record in records.values():
        about = {**record["machine"], **record["packages"], "commit": record["commit"]}
        for name, value in about.items():
            found.setdefault(name, set()).add(str(value))
    rows = [[name.replace("_", " "), ", ".join(sorted(values))] for name, values in found.items()]
    return Table("environment", "Environment", ["what", "this run"], rows, text_columns=2)


def steps_table(records: Mapping[str, Mapping[str, Any]]) -> Table:
    """Each stage: when it ran, from which commit, with which command."""
    rows = [
        [
            name,
            datetime.fromtimestamp(record["cost"]["started"], UTC).strftime("%Y-%m-%d %H:%M:%S"),
            record["commit"][:12],
            shlex.join(record["command"]),
        ]
        for name, record in in_order(records)
    ]
    header = ["stage", "began (UTC)", "commit", "command"]
    caption = "Steps (espalier explain FILE tells each file's, with digests)"
    return Table("steps", caption, header, rows, text_columns=4, folded=True)
