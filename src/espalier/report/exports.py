"""Tables as CSV, with all digits, and as LaTeX (booktabs), as they read."""

import csv
import io
import re
from typing import Any

from espalier.report.tables import Table, cell

SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "θ": r"$\theta$", "–": "--", "…": r"\ldots{}", "<": r"$<$", ">": r"$>$", "×": r"$\times$",
}  # fmt: skip


def as_csv(table: Table) -> str:
    """Header and rows; numbers as Python writes them, nothing for what is not known."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows([plain(value) for value in row] for row in table.rows)
    return stream.getvalue()


def plain(value: Any) -> Any:
    """A value without its way of being shown."""
    if isinstance(value, float):
        return "" if value != value else repr(float(value))  # noqa: PLR0124 - NaN
    return value


def as_latex(table: Table) -> str:
    """A `table` environment; a rule parts this run's rows from published ones."""
    numbers = len(table.header) - table.text_columns
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{'l' * table.text_columns}{'r' * numbers}}}",
        r"\toprule",
        latex_row(table.header),
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        if number in table.published and number and number - 1 not in table.published:
            lines.append(r"\midrule")
        lines.append(latex_row([cell(value) for value in row]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def latex_row(cells: Any) -> str:
    """One line of a tabular."""
    return " & ".join(map(escaped, cells)) + r" \\"


def escaped(text: str) -> str:
    """Text without what LaTeX would read as commands."""
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda match: SPECIAL[match[0]], text)
