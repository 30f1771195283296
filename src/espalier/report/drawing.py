"""How every figure looks, and its SVG and PDF: the same bytes for the same numbers."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RED, BLUE, GREEN, OCHRE, GREY = "#c0392b", "#1f5f8b", "#3c7a4a", "#b7791f", "#6b7280"
COLOURS = (BLUE, RED, GREEN, OCHRE, GREY)

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#9aa1a9",
    "axes.grid": True,
    "axes.labelcolor": "#22272e",
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": "#e6e8eb",
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "espalier",
    "text.color": "#22272e",
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
}


@dataclass(frozen=True)
class Drawn:
    """A finished figure: for the page, and for a paper."""

    svg: str
    """An SVG element that can stand among others in one page; its ids start with its name."""
    pdf: bytes


@contextmanager
def canvas(
    rows: int, columns: int, width: float, height: float
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of `width` × `height` inches and its panels, in the house style."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def drawn(figure: Figure, name: str) -> Drawn:
    """The figure as SVG and PDF, without a date or a random id."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    pdf = io.BytesIO()
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None})
    return Drawn(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), pdf.getvalue())
