"""What the MLflow view shows, built from the files of a results folder: pure, MLflow unknown."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from espalier.evaluation import runs
from espalier.evaluation.findings import VERDICTS
from espalier.tracking import records
from espalier.tracking.mlflow_view import (
    EXPERIMENT_ID,
    Data,
    Entry,
    Model,
    TableView,
    metric_name,
    settings_as_params,
)
from espalier.tracking.provenance import Chain

SWEEP = re.compile(r"(?P<order>.+)-p(?P<p>\d+)$")

TITLES = {
    "best": "BeST: segment selection",
    "colbert": "Query embedding pruning",
    "sparse": "Dual skipping guidance",
}

DESCRIPTION_LENGTH = 18_000
"""MLflow takes 20,000 characters."""

Row = Mapping[str, Any]
"""A row of the claims ledger."""


@dataclass(frozen=True)
class Paper:
    """What was measured for one paper."""

    name: str
    summary: Mapping[str, Any]
    run_files: Mapping[str, Sequence[Path]]
    """By system: one, or a replicate for each seed."""
    cost: pd.DataFrame
    """One row per system (its index), one column per mean cost."""
    per_query: pd.DataFrame
    """system, query_id, measure, value."""
    data: Data
    """What the runs were measured on."""
    figures: tuple[Path, ...] = ()
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows of the ledger by system."""


def stage_entries(paths: Iterable[Path], experiment: str) -> list[Entry]:
    """One entry per record: the stage's settings, metrics, cost and the digests of its outputs."""
    return [stage_entry(path, records.read(path), experiment) for path in sorted(paths)]


def stage_entry(path: Path, record: Mapping[str, Any], experiment: str) -> Entry:
    """The entry of one record; large outputs stand as path, size and SHA-256, not as copies."""
    cost = record["cost"]
    outputs = {
        f"output.{name}": f"{item['path']} ({item['bytes']} bytes, sha256 {item['sha256']})"
        for name, items in record["outputs"].items()
        for item in items
    }
    root = records.root_of(path)
    views = [root / item["path"] for item in record["inputs"].get("view", [])]
    room, verb = record["stage"].split()
    return Entry(
        name=f"stage {path.stem}",
        source=record["stage"],
        started=cost["started"],
        seconds=cost["wall_seconds"],
        tags={
            "kind": "stage",
            **({"paper": room} if room in TITLES else {}),
            "mlflow.source.git.commit": record["commit"],
        },
        params={**settings_as_params(record["settings"]), **outputs},
        metrics={
            **{f"result/{metric_name(k)}": v for k, v in numbers(record["metrics"])},
            "cost/wall_s": cost["wall_seconds"],
            "cost/cpu_s": cost["cpu_seconds"],
            "cost/peak_memory_MB": cost["peak_memory_bytes"] / 1e6,
        },
        artifacts=(("", path),),
        datasets=tuple(
            data_of(view, item["sha256"], "training" if verb.startswith("train") else "evaluation")
            for view, item in zip(views, record["inputs"].get("view", []), strict=True)
        ),
        models=tuple(models_of(record, experiment)),
    )


def data_of(view: Path, sha256: str, context: str) -> Data:
    """The snapshot of a collection as a data set."""
    manifest = json.loads((view / "manifest.json").read_text())
    splits = {name: split["id"] for name, split in manifest["splits"].items()}
    return Data(
        name=splits.get("test", manifest["docs"]),
        digest=sha256,
        source={"docs": manifest["docs"], "docs_sha256": manifest["docs_sha256"], **splits},
        profile={"documents": manifest["docs_count"]},
        context=context,
    )


def models_of(record: Mapping[str, Any], experiment: str) -> Iterator[Model]:
    """The models that a training stage wrote (its history is none)."""
    if record["stage"].split()[1].startswith("train"):
        for name, items in record["outputs"].items():
            if name != "history":
                for item in items:
                    path = item["path"]
                    named = f"{experiment}.{path.replace('/', '.')}"
                    yield Model(named, path, item["bytes"], item["sha256"])


def numbers(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """The numbers in nested metrics, with joined names."""
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += numbers(value, f"{prefix}{name} ")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


def system_entries(paper: Paper, chain: Chain, latest: float) -> list[Entry]:
    """One entry per system, and one per sweep over p with its curves.

    The points of a sweep that have a latency, or a claim of their own, stand on their own as well;
    the others only on the curve. They start by milliseconds after `latest`, the last one first, so
    that MLflow lists them in the summary's order. Metrics have as many digits as its table shows.
    """
    entries = []
    curves: dict[str, dict[int, dict[str, float]]] = {}
    systems = paper.summary["systems"]
    for place, (system, means) in enumerate(systems.items()):
        metrics = {f"quality/{metric_name(m)}": round(value, 4) for m, value in means.items()}
        if system in paper.cost.index:
            known = paper.cost.loc[system].dropna()
            metrics |= {f"cost/{name}": float(f"{value:.4g}") for name, value in known.items()}
        point = SWEEP.match(system)
        if point:
            curves.setdefault(point["order"], {})[int(point["p"])] = metrics
        if not point or system in paper.rows or any("_ms_" in name for name in metrics):
            started = latest + (len(systems) - place) / 1000
            entries.append(system_entry(paper, system, metrics, chain, started))
    entries += [
        Entry(
            name=f"{paper.name} sweep of p, {order} order",
            source=f"{paper.name} {order}",
            started=latest,
            seconds=0.0,
            note=claims_note(paper.rows.get(order, ())),
            tags={**tags_of(paper, order, paper.rows.get(order, ())), "kind": "sweep"},
            series=as_series(points),
            artifacts=as_figures(paper.figures),
            datasets=(paper.data,),
        )
        for order, points in curves.items()
    ]
    return entries


def system_entry(
    paper: Paper, system: str, metrics: Mapping[str, float], chain: Chain, started: float
) -> Entry:
    """One system: its measures and costs, with all that they come from."""
    replicates = paper.run_files[system]
    rows = paper.rows.get(system, ())
    steps = chain.behind([records.relative(run, chain.root) for run in replicates])
    config = {name: chain.records[name]["settings"] for name in steps}
    return Entry(
        name=f"{paper.name} {system}",
        source=chain.records[steps[-1]]["stage"],
        started=started,
        seconds=chain.records[steps[-1]]["cost"]["wall_seconds"],
        note=claims_note(rows),
        tags=tags_of(paper, system, rows),
        params=settings_as_params(method_of(runs.sidecar(replicates[0]))),
        metrics=metrics,
        artifacts=(*as_artifacts(replicates), *as_figures(paper.figures)),
        texts={
            "per_query.csv": per_query_csv(paper.per_query, system),
            "config.yaml": yaml.safe_dump(config, sort_keys=False),
            "claims.json": json.dumps(list(rows), indent=1, ensure_ascii=False) + "\n",
        },
        datasets=(paper.data,),
    )


def as_artifacts(replicates: Sequence[Path]) -> tuple[tuple[str, Path], ...]:
    """Run files with their sidecars; those of several replicates in a folder each."""
    folders = [f"replicate-{n}" if len(replicates) > 1 else "" for n in range(len(replicates))]
    return tuple(
        (folder, path)
        for folder, run in zip(folders, replicates, strict=True)
        for path in (run, runs.sidecar(run))
    )


def as_figures(paths: Iterable[Path]) -> tuple[tuple[str, Path], ...]:
    """Figures, in their folder."""
    return tuple(("figures", path) for path in paths)


def method_of(sidecar: Path) -> dict[str, Any]:
    """The last step of a run's method, as its ir_metadata states it."""
    stated = yaml.safe_load(sidecar.read_text()).get("method", {}).get("retrieval", [])
    return dict(stated[-1]) if stated else {}


def per_query_csv(per_query: pd.DataFrame, system: str) -> str:
    """One line per query, one column per measure, as CSV."""
    chosen = per_query[per_query["system"] == system]
    table = chosen.pivot_table(index="query_id", columns="measure", values="value", sort=False)
    return str(table.sort_index().to_csv(float_format="%.6g"))


def tags_of(paper: Paper, system: str, rows: Sequence[Row] = ()) -> dict[str, str]:
    """Tags to filter by."""
    collection = paper.summary["collection"]
    queries = paper.summary["queries"]["judged"]
    return {
        "kind": "system",
        "paper": paper.name,
        "system": system,
        "collection": collection["split"],
        "scale": f"{collection['docs_count']:,} documents, {queries:,} queries",
        "verdict": counted(rows) or "no claim",
    }


def as_series(points: Mapping[int, Mapping[str, float]]) -> dict[str, list[tuple[int, float]]]:
    """{step: {metric: value}} → {metric: [(step, value)…]} in the order of the steps."""
    series: dict[str, list[tuple[int, float]]] = {}
    for step, metrics in sorted(points.items()):
        for name, value in metrics.items():
            if "_ms_" not in name:
                series.setdefault(name, []).append((step, value))
    return series


def mean_costs(counts: pd.DataFrame, latency: pd.DataFrame) -> pd.DataFrame:
    """Mean costs per system: `<count>_mean`, `<stage>_ms_mean` and `total_ms_p95`.

    Both tables have the columns system, query_id and one per cost (counts, or nanoseconds in
    columns that end in `_ns`); either may be empty.
    """
    means = []
    if not counts.empty:
        by_system = counts.drop(columns="query_id").groupby("system").mean()
        means.append(by_system.add_suffix("_mean"))
    if not latency.empty:
        stages = [c for c in latency.columns if c.endswith("_ns")]
        in_ms = latency.set_index("system")[stages].rename(columns=lambda c: c[:-3] + "_ms") / 1e6
        groups = in_ms.groupby(level="system")
        means += [groups.mean().add_suffix("_mean"), groups.quantile(0.95).add_suffix("_p95")]
    return pd.concat(means, axis=1) if means else pd.DataFrame()


def rows_by_system(
    claims: Sequence[Mapping[str, Any]], rows: Sequence[Row], paper: str, systems: Sequence[str]
) -> dict[str, list[Row]]:
    """The ledger's rows about each of a paper's systems, and about each sweep, by its order.

    A claim names systems in its query: by name, as a pattern, or as alternatives ('a|b'), of which
    the first that there is counts. What a pattern says of the points of a sweep is about the sweep.
    """
    named: dict[str, list[Row]] = {}
    judged = {row["id"]: row for row in rows}
    for claim in claims:
        if claim["paper"] == paper and claim["id"] in judged:
            about = {name for text in words(claim["here"]) for name in meant(text, systems)}
            for name in sorted(about):
                named.setdefault(name, []).append(judged[claim["id"]])
    return named


def words(query: Any) -> Iterator[str]:
    """Every text in a nested query."""
    if isinstance(query, str):
        yield query
    elif isinstance(query, Mapping):
        for value in query.values():
            yield from words(value)
    elif isinstance(query, Sequence):
        for value in query:
            yield from words(value)


def meant(name: str, systems: Sequence[str]) -> list[str]:
    """The systems or sweeps that a name, a pattern or alternatives stand for."""
    for alternative in name.split("|"):
        if alternative in systems:
            return [alternative]
        found = [system for system in systems if fnmatchcase(system, alternative)]
        if found:
            points = [SWEEP.match(system) for system in found]
            return [p["order"] if p else s for p, s in zip(points, found, strict=True)]
    return []


def counted(rows: Iterable[Row]) -> str:
    """How many rows have each verdict, in words."""
    tally = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{tally[v]} {v}" for v in VERDICTS if tally[v])


def claims_note(rows: Sequence[Row]) -> str:
    """The claims about a system, as Markdown."""
    if not rows:
        return "No published claim is about this system."
    return f"**{counted(rows)}**\n\n" + "\n".join(claims_table(rows))


def claims_table(rows: Iterable[Row]) -> list[str]:
    """Rows of the ledger as a Markdown table, without those that would make it too long."""
    lines = ["| claim | published | here | verdict |", "|---|---|---|---|"]
    for row in rows:
        here = "" if row["here"] is None else f"{row['here']:.4g}"
        lines.append(f"| {row['claim']} | {row['published']} | {here} | **{row['verdict']}** |")
    return lines


def verdict_entry(
    ledger: Path,
    artifacts: Sequence[Path],
    figures: Sequence[Path],
    started: float,
    data: Sequence[Data],
) -> tuple[Entry, str]:
    """The entry that stands first, and the experiment's description that leads with it."""
    rows = json.loads(ledger.read_text())
    summary = counted(rows)
    names = ", ".join(f"`{d.name}` ({d.profile['documents']:,} documents)" for d in data)
    links = " · ".join(
        f"[{view.name}](#/experiments/{EXPERIMENT_ID}/runs?{view.query})" for view in VIEWS
    )
    lines = [summary, "", f"Measured on {names}. {links}", ""]
    lines += ["| paper | " + " | ".join(VERDICTS) + " |", "|---" * (1 + len(VERDICTS)) + "|"]
    for paper, title in TITLES.items():
        tally = Counter(row["verdict"] for row in rows if row["paper"] == paper)
        lines.append(f"| {title} | " + " | ".join(str(tally[v]) for v in VERDICTS) + " |")
    for paper, title in TITLES.items():
        lines += ["", f"### {title}", ""]
        lines += claims_table(row for row in rows if row["paper"] == paper)
    tally = Counter(row["verdict"] for row in rows)
    entry = Entry(
        name=f"verdicts: {summary}",
        source="evaluation claims",
        started=started,
        seconds=0.0,
        note=f"**{summary}**: the report is among the artifacts (`index.html`).",
        tags={"kind": "verdicts", "collection": ", ".join(d.name for d in data)},
        metrics={f"verdicts/{metric_name(v)}": float(tally[v]) for v in VERDICTS},
        artifacts=(*(("", path) for path in artifacts), *as_figures(figures)),
        datasets=tuple(data),
    )
    return entry, shortened(lines, DESCRIPTION_LENGTH)


def shortened(lines: Sequence[str], length: int) -> str:
    """As many leading lines as fit into `length` characters, and word of those that do not."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += len(line) + 1
        if used > length:
            return "\n".join([*kept, "", "… and more: `claims.txt`, an artifact of the first run."])
        kept.append(line)
    return "\n".join(kept)


SYSTEM_COLUMNS = {
    "tags.`verdict`": 230,
    "metrics.`quality/nDCG_10`": 125,
    "metrics.`quality/RR_10`": 110,
    "metrics.`cost/total_ms_mean`": 150,
    "metrics.`cost/documents_retrieved_mean`": 220,
    "metrics.`cost/documents_scored_mean`": 210,
    "tags.`collection`": 220,
    "tags.`scale`": 220,
}

VIEWS = [
    TableView("systems", "Systems: quality and cost", "tags.kind = 'system'", SYSTEM_COLUMNS),
    *(
        TableView(
            paper, f"Systems of {title}",
            f"tags.kind = 'system' and tags.paper = '{paper}'", SYSTEM_COLUMNS,
        )
        for paper, title in TITLES.items()
    ),
    TableView(
        "stages", "Stages: time and memory", "tags.kind = 'stage'",
        {
            "metrics.`cost/wall_s`": 120, "metrics.`cost/cpu_s`": 120,
            "metrics.`cost/peak_memory_MB`": 180, "attributes.`Source`": 220,
            "attributes.`Version`": 110, "attributes.`Dataset`": 320,
        },
    ),
]  # fmt: skip
"""What the page's list of views offers."""
