"""`espalier tracking …`: the MLflow view of a finished experiment."""

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

    from espalier.config import VIEWS, experiment_folder
    from espalier.evaluation import runs
    from espalier.tracking import entries, mlflow_view

    stages = entries.stage_entries(job.paths("records"))
    latest = max(entry.started + entry.seconds for entry in stages)
    experiment = experiment_folder(job.settings)
    systems = []
    for path in job.paths("summaries"):
        paper = path.name.split(".")[0]
        view = VIEWS[paper][0]
        folders = [p for p in job.paths("runs") if p.is_relative_to(experiment / paper)]
        folders.append(experiment / "bm25" / view / "test")
        costs = [p for p in job.paths("costs") if p.is_relative_to(experiment / paper)]
        tables = {p.name: pd.read_parquet(p) for p in costs}
        cost = entries.mean_costs(
            tables.get("counts.parquet", pd.DataFrame()),
            tables.get("latency.parquet", pd.DataFrame()),
        )
        systems += entries.system_entries(
            paper,
            json.loads(path.read_text()),
            runs.in_folders(folders),
            cost,
            latest,
            job.settings["collections"][view]["docs"],
        )
    names = ", ".join(sorted({entry.tags["espalier.collection"] for entry in systems}))
    verdict, description = entries.verdict_entry(
        job.path("ledger"), job.paths("artifacts"), latest + 1, names
    )
    with files.locked(experiment.parent / ".mlflow.lock"):
        counts = mlflow_view.synchronise(
            experiment.parent,
            f"espalier/{job.settings['experiment']}",
            description,
            [*stages, *systems, verdict],
        )
    job.out("tracked").write_text(json.dumps(counts) + "\n")
    return dict(counts)
