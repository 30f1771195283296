"""`espalier tracking …`: the MLflow view of a finished experiment."""

from typing import Any

from espalier import files
from espalier.stage import Job, Room

room = Room("tracking")


@room.stage(
    inputs=(
        "ledger", "claims+", "artifacts+", "figures+", "summaries+", "per_query+", "costs?",
        "runs+", "views+", "records+",
    ),
    outputs=("tracked",),
)  # fmt: skip
def track(job: Job) -> dict[str, Any]:
    """Bring the MLflow experiment up to date with the results."""
    import json

    import pandas as pd

    from espalier.config import VIEWS, experiment_folder
    from espalier.evaluation import claims, runs
    from espalier.tracking import entries, mlflow_view
    from espalier.tracking.provenance import Chain

    experiment = experiment_folder(job.settings)
    name = job.settings["experiment"]
    stages = entries.stage_entries(job.paths("records"), name)
    latest = max(entry.started + entry.seconds for entry in stages)
    chain = Chain(experiment)
    rows = json.loads(job.path("ledger").read_text())
    stated = claims.load(job.paths("claims"))
    views = {path.name: path for path in job.paths("views")}
    figures = [p for folder in job.paths("figures") for p in sorted(folder.glob("*.svg"))]
    systems, data = [], {}
    for place, path in enumerate(reversed(job.paths("summaries"))):
        paper = path.name.split(".")[0]
        summary = json.loads(path.read_text())
        view = VIEWS[paper][0]
        data[view] = entries.data_of(views[view], files.sha256_of(views[view]), "evaluation")
        folders = [p for p in job.paths("runs") if p.is_relative_to(experiment / paper)]
        folders.append(experiment / "bm25" / view / "test")
        costs = {
            p.name: pd.read_parquet(p)
            for p in job.paths("costs")
            if p.is_relative_to(experiment / paper)
        }
        (per_query,) = [p for p in job.paths("per_query") if p.name.startswith(f"{paper}.")]
        about = entries.Paper(
            name=paper,
            summary=summary,
            run_files=runs.replicates(folders),
            cost=entries.mean_costs(
                costs.get("counts.parquet", pd.DataFrame()),
                costs.get("latency.parquet", pd.DataFrame()),
            ),
            per_query=pd.read_parquet(per_query),
            data=data[view],
            figures=tuple(p for p in figures if p.name.startswith(f"{paper}-")),
            rows=entries.rows_by_system(stated, rows, paper, list(summary["systems"])),
        )
        systems += entries.system_entries(about, chain, latest + place)
    verdict, description = entries.verdict_entry(
        job.path("ledger"),
        job.paths("artifacts"),
        figures,
        latest + len(data) + 2,
        list(data.values()),
    )
    with files.locked(experiment.parent / ".mlflow.lock"):
        counts = mlflow_view.synchronise(
            experiment.parent,
            f"espalier/{name}",
            description,
            [*stages, *systems, verdict],
            entries.VIEWS,
        )
    job.out("tracked").write_text(json.dumps(counts) + "\n")
    return dict(counts)
