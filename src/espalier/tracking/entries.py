"""What the MLflow view shows, built from the files of a results folder: pure, MLflow unknown."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from espalier.evaluation import runs
from espalier.evaluation.findings import VERDICTS
from espalier.tracking import records
from espalier.tracking.mlflow_view import Entry, metric_name, settings_as_params

SWEEP = re.compile(r"(?P<order>.+)-p(?P<p>\d+)$")


def stage_entries(paths: Iterable[Path]) -> list[Entry]:
    """One entry per record: the stage's settings, metrics, cost and the digests of its outputs."""
    return [stage_entry(path, records.read(path)) for path in sorted(paths)]


def stage_entry(path: Path, record: Mapping[str, Any]) -> Entry:
    """The entry of one record; large outputs stand as path, size and SHA-256, not as copies."""
    cost = record["cost"]
    outputs = {
        f"output.{name}": f"{item['path']} ({item['bytes']} bytes, sha256 {item['sha256']})"
        for name, items in record["outputs"].items()
        for item in items
    }
    return Entry(
        name=f"stage {path.stem}",
        source=record["stage"],
        started=cost["started"],
        seconds=cost["wall_seconds"],
        tags={"espalier.kind": "stage", "mlflow.source.git.commit": record["commit"]},
        params={**settings_as_params(record["settings"]), **outputs},
        metrics={
            **{f"result/{metric_name(k)}": v for k, v in numbers(record["metrics"])},
            "cost/wall_s": cost["wall_seconds"],
            "cost/cpu_s": cost["cpu_seconds"],
            "cost/peak_memory_MB": cost["peak_memory_bytes"] / 1e6,
        },
        artifacts=(path,),
    )


def numbers(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """The numbers in nested metrics, with joined names."""
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += numbers(value, f"{prefix}{name} ")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


def system_entries(
    paper: str,
    summary: Mapping[str, Any],
    run_files: Mapping[str, Path],
    cost: pd.DataFrame,
    started: float,
    collection: str,
) -> list[Entry]:
    """One entry per system, and one per sweep over p with its curves.

    `cost` has one row per system (its index) and one column per mean cost. The points of a sweep
    that have a latency stand on their own as well; the others only on the curve.
    """
    entries = []
    curves: dict[str, dict[int, dict[str, float]]] = {}
    for system, means in summary["systems"].items():
        metrics = {f"quality/{metric_name(m)}": value for m, value in means.items()}
        if system in cost.index:
            known = cost.loc[system].dropna()
            metrics |= {f"cost/{name}": float(value) for name, value in known.items()}
        point = SWEEP.match(system)
        if point:
            curves.setdefault(point["order"], {})[int(point["p"])] = metrics
        if not point or any("_ms_" in name for name in metrics):
            run = run_files[system]
            entries.append(
                Entry(
                    name=f"{paper} {system}",
                    source=f"{paper} {system}",
                    started=started,
                    seconds=0.0,
                    tags=system_tags(paper, system, collection),
                    metrics=metrics,
                    artifacts=(run, runs.sidecar(run)),
                )
            )
    entries += [
        Entry(
            name=f"{paper} sweep of p, {order} order",
            source=f"{paper} {order}",
            started=started,
            seconds=0.0,
            tags={**system_tags(paper, order, collection), "espalier.kind": "sweep"},
            series=as_series(points),
        )
        for order, points in curves.items()
    ]
    return entries


def system_tags(paper: str, system: str, collection: str) -> dict[str, str]:
    """Tags to filter by."""
    return {
        "espalier.kind": "system",
        "espalier.paper": paper,
        "espalier.system": system,
        "espalier.collection": collection,
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


def verdict_entry(
    ledger: Path, artifacts: Sequence[Path], started: float, collection: str
) -> tuple[Entry, str]:
    """The entry that stands first, and the experiment's description that leads with it."""
    rows = json.loads(ledger.read_text())
    tally = Counter(row["verdict"] for row in rows)
    counted = ", ".join(f"{tally[v]} {v}" for v in VERDICTS if tally[v])
    lines = [f"## {counted}", "", f"Collection: `{collection}`", ""]
    lines += ["| claim | paper | published | here | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        here = "" if row["here"] is None else f"{row['here']:.4g}"
        lines.append(
            f"| {row['claim']} | {row['paper']} | {row['published']} | {here} "
            f"| **{row['verdict']}** |"
        )
    entry = Entry(
        name=f"verdicts: {counted}",
        source="claims ledger",
        started=started,
        seconds=0.0,
        tags={"espalier.kind": "verdicts", "espalier.collection": collection},
        metrics={f"verdicts/{metric_name(v)}": float(tally[v]) for v in VERDICTS},
        artifacts=tuple(artifacts),
    )
    return entry, "\n".join(lines)
