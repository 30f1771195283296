"""The page: verdicts first, then each paper, then cost and provenance."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2

from espalier import __version__
from espalier.evaluation import ledger
from espalier.evaluation.results import Results
from espalier.report import exports, figures, tables
from espalier.report.sections import Drawing, Section
from espalier.report.tables import Table

BADGES = {
    "reproduced": "yes",
    "direction holds at this scale": "partly",
    "not reproduced": "no",
    "not tested at this scale": "open",
}


@dataclass(frozen=True)
class Page:
    """Everything that the page shows."""

    experiment: str
    seed: int
    rows: Sequence[Mapping[str, Any]]
    """The ledger."""
    sections: Sequence[Section]
    splits: Sequence[str]
    """ir_datasets ids of what was measured on."""
    cost: Section
    provenance: Section

    @property
    def parts(self) -> list[Section]:
        """All sections."""
        return [*self.sections, self.cost, self.provenance]

    @property
    def drawings(self) -> list[Drawing]:
        """All figures."""
        return [drawing for section in self.parts for drawing in section.drawings]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [table for section in self.parts for table in section.tables]


def render(page: Page) -> str:
    """One self-contained HTML page: inline style, inline figures, nothing fetched."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["short"] = ledger.short
    environment.filters["cell"] = tables.cell
    environment.filters["csv"] = lambda table: inline("text/csv", exports.as_csv(table).encode())
    environment.filters["latex"] = lambda table: inline(
        "application/x-tex", exports.as_latex(table).encode()
    )
    environment.filters["pdf"] = lambda drawing: inline("application/pdf", drawing.drawn.pdf)
    environment.tests["drawing"] = lambda part: isinstance(part, Drawing)
    template = files("espalier.report").joinpath("template.html").read_text()
    return environment.from_string(template).render(
        page=page, version=__version__, tally=ledger.tally(page.rows), badges=BADGES
    )


def inline(media_type: str, content: bytes) -> str:
    """A file as an address that holds it."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def cost(records: Mapping[str, Mapping[str, Any]]) -> Section:
    """Time and memory of each stage."""
    section = Section("cost", "Cost", "What each stage of the chain took on this machine.")
    ordered = tables.in_order(records)
    seconds = [record["cost"]["wall_seconds"] for _, record in ordered]
    section.draw(
        "stage-times",
        figures.stage_times([name for name, _ in ordered], seconds),
        f"Wall time by stage, {sum(seconds):,.0f} s in all.",
    )
    section.parts.append(tables.cost_table(records))
    return section


def provenance(
    results: Results,
    manifests: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
) -> Section:
    """What was measured and by whom, on which collections, with which packages and commands."""
    section = Section("provenance", "Provenance", "From the records beside each stage's outputs.")
    section.parts += [
        tables.measures_table(results.summaries),
        tables.collections_table(manifests),
        tables.environment_table(records),
        tables.steps_table(records),
    ]
    return section
