"""`espalier report …`: the HTML report of a finished experiment."""

import json
from typing import Any

from espalier.stage import Job, Room

room = Room("report")


@room.stage(inputs=("ledger", "tables+", "views+", "records+"), outputs=("report",))
def render(job: Job) -> dict[str, Any]:
    """Draw the figures and write the page: verdicts, each paper, cost, provenance."""
    from espalier.collections.view import View
    from espalier.config import VIEWS
    from espalier.evaluation import results
    from espalier.report import exports, page, sections
    from espalier.tracking import records

    found = results.load(job.paths("tables"))
    ledger = json.loads(job.path("ledger").read_text())
    views = {path.name: View(path) for path in job.paths("views")}
    texts = {paper: views[VIEWS[paper][0]].queries("test") for paper in found.summaries}
    built = sections.build(found, ledger, texts, job.settings["evaluation"]["alpha"])
    stages = {path.stem: records.read(path) for path in job.paths("records")}
    whole = page.Page(
        experiment=job.settings["experiment"],
        seed=job.seed,
        rows=ledger,
        sections=built,
        splits=sorted({s["collection"]["split"] for s in found.summaries.values()}),
        cost=page.cost(stages),
        provenance=page.provenance(found, {n: v.manifest for n, v in views.items()}, stages),
    )
    folder = job.out("report")
    for name in ("figures", "tables"):
        (folder / name).mkdir(parents=True)
    for drawing in whole.drawings:
        (folder / "figures" / f"{drawing.name}.svg").write_text(drawing.drawn.svg)
        (folder / "figures" / f"{drawing.name}.pdf").write_bytes(drawing.drawn.pdf)
    for table in whole.tables:
        (folder / "tables" / f"{table.name}.csv").write_text(exports.as_csv(table))
        (folder / "tables" / f"{table.name}.tex").write_text(exports.as_latex(table))
    (folder / "index.html").write_text(page.render(whole))
    return {"figures": len(whole.drawings), "tables": len(whole.tables)}
