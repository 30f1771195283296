"""`espalier tracking …`: the MLflow view of a finished experiment."""

from pathlib import Path
from typing import Any

from espalier import files
from espalier.stage import Job, Room

room = Room("tracking")


@room.stage(
    inputs=("ledger", "artifacts+", "summaries+", "costs?", "runs+", "records+"),
    outputs=("tracked",),
)
def track(job: Job) -> dict[str, Any]:
    """Bring the MLflow experiment up to date with the results."""
    import json

    import pandas as pd

    from espalier.evaluation import runs
    from espalier.tracking import entries, mlflow_view

    stages = entries.stage_entries(job.paths("records"))
    latest = max(entry.started + entry.seconds for entry in stages)
    collections = job.settings["collections"]
    run_folders = [
        f for root in job.paths("runs") for f in sorted({p.parent for p in root.rglob("*.run.gz")})
    ]
    systems = []
    for path in job.paths("summaries"):
        paper = path.name.split(".")[0]
        view = collections["documents" if paper == "best" else "passages"]
        costs = [p for p in job.paths("costs") if p.parent.name == paper]
        tables = {p.name: pd.read_parquet(p) for p in costs}
        cost = entries.mean_costs(
            tables.get("counts.parquet", pd.DataFrame()),
            tables.get("latency.parquet", pd.DataFrame()),
        )
        found: dict[str, Path] = {}
        for folder in run_folders:
            if paper in folder.parts or "bm25" in folder.parts:
                found |= runs.in_folder(folder)
        summary = json.loads(path.read_text())
        systems += entries.system_entries(paper, summary, found, cost, latest, view["docs"])
    names = ", ".join(sorted({entry.tags["espalier.collection"] for entry in systems}))
    verdict, description = entries.verdict_entry(
        job.path("ledger"), job.paths("artifacts"), latest + 1, names
    )
    results = Path(job.settings["results"])
    with files.locked(results / ".mlflow.lock"):
        counts = mlflow_view.synchronise(
            results,
            f"espalier/{job.settings['experiment']}",
            description,
            [*stages, *systems, verdict],
        )
    job.out("tracked").write_text(json.dumps(counts) + "\n")
    return dict(counts)
