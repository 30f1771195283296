"""The ledger in its two forms: JSON for programs, a narrow table for terminals."""

import json
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from espalier.evaluation.findings import VERDICTS

Rows = Sequence[Mapping[str, Any]]

WIDTH = 100


def as_json(rows: Rows) -> str:
    """The ledger as a JSON list."""
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def tally(rows: Rows) -> dict[str, int]:
    """How many claims have each verdict."""
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}


def counted(rows: Rows) -> str:
    """The tally in words, e.g. '7 reproduced, 1 direction holds at this scale, …'."""
    return ", ".join(f"{count} {verdict}" for verdict, count in tally(rows).items())


def as_text(rows: Rows) -> str:
    """The ledger as a table at most 100 columns wide, a block per paper."""
    layout = "{:<43} {:>12} {:>10}  {:<30}"
    lines = wrap(f"{len(rows)} claims: {counted(rows)}", WIDTH)
    for paper in dict.fromkeys(row["paper"] for row in rows):
        lines += ["", layout.format(paper, "published", "here", "verdict").rstrip(), "-" * WIDTH]
        for row in rows:
            if row["paper"] == paper:
                title, *rest = wrap(row["claim"], 43)
                cells = short(row["published"]), short(row["here"]), row["verdict"]
                lines += [layout.format(title, *cells).rstrip(), *rest]
    return "\n".join(lines) + "\n"


def short(value: Any) -> str:
    """A number with four digits, a dash for none; a statement has no number, so nothing."""
    if value is None:
        return "–"
    return "" if isinstance(value, str) else f"{value:.4g}"
