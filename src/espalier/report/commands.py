"""`espalier report …`: the HTML report of a finished experiment."""

import json
from typing import Any

from espalier.stage import Job, Room

room = Room("report")


@room.stage(inputs=("ledger", "tables+", "views+", "records+"), outputs=("report",))
def render(job: Job) -> dict[str, Any]:
    """Draw the figures and write the page: verdicts, each paper, cost, provenance."""
    from espalier.collections.view import View
    from espalier.evaluation import results
    from espalier.report import page, sections
    from espalier.tracking import records

    found = results.load(job.paths("tables"))
    built = sections.build(found, job.settings["evaluation"]["alpha"])
    stages = {path.stem: records.read(path) for path in job.paths("records")}
    text = page.render(
        experiment=job.settings["experiment"],
        seed=job.seed,
        rows=json.loads(job.path("ledger").read_text()),
        sections=built,
        results=found,
        manifests={path.name: View(path).manifest for path in job.paths("views")},
        records=stages,
    )
    folder = job.out("report")
    (folder / "figures").mkdir(parents=True)
    for drawing in [d for section in built for d in section.drawings] + [page.stage_cost(stages)]:
        (folder / "figures" / f"{drawing.name}.svg").write_text(drawing.svg)
    (folder / "index.html").write_text(text)
    return {"figures": len(list((folder / "figures").iterdir()))}
