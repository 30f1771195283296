"""The page: verdicts first, then each paper, then cost and provenance."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import jinja2

from espalier import __version__
from espalier.evaluation import ledger
from espalier.evaluation.results import Results
from espalier.report import figures, tables
from espalier.report.sections import Drawing, Section

BADGES = {
    "reproduced": "yes",
    "direction holds at this scale": "partly",
    "not reproduced": "no",
    "not tested at this scale": "open",
}


def render(
    *,
    experiment: str,
    seed: int,
    rows: Sequence[Mapping[str, Any]],
    sections: Sequence[Section],
    results: Results,
    manifests: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
) -> str:
    """One self-contained HTML page: inline style, inline figures, nothing fetched."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["short"] = ledger.short
    environment.filters["cell"] = tables.cell
    template = files("espalier.report").joinpath("template.html").read_text()
    return environment.from_string(template).render(
        experiment=experiment,
        seed=seed,
        version=__version__,
        rows=rows,
        tally=ledger.tally(rows),
        badges=BADGES,
        sections=sections,
        splits=sorted({s["collection"]["split"] for s in results.summaries.values()}),
        cost=stage_cost(records),
        cost_table=tables.cost_table(records),
        provenance=[
            tables.measures_table(results.summaries),
            tables.collections_table(manifests),
            tables.environment_table(records),
        ],
    )


def stage_cost(records: Mapping[str, Mapping[str, Any]]) -> Drawing:
    """The figure of wall times."""
    ordered = tables.in_order(records)
    seconds = [record["cost"]["wall_seconds"] for _, record in ordered]
    drawn = figures.stage_times([name for name, _ in ordered], seconds)
    return Drawing("stage-times", drawn, f"Wall time by stage, {sum(seconds):,.0f} s in all.")
