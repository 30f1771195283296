"""The files of a results folder that verdicts and figures are computed from.

A table is known by its folder and name: 'colbert/counts', 'best/selection',
'evaluation/colbert.per_query'. What an experiment did not make raises `Absent`, with the reason
in words.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from espalier.errors import EspalierError

PAPERS = ("best", "colbert", "sparse")


class Absent(Exception):  # noqa: N818 - no error: an experiment may leave parts out
    """Something asked for is not among the results; the message says why, for the ledger."""


@dataclass(frozen=True)
class Results:
    """Tables by name, and each paper's summary."""

    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    summaries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame:
        """The table of that name."""
        self.require(paper_of(name))
        if name not in self.tables:
            raise Absent(f"this experiment made no table {name}")
        return self.tables[name]

    def require(self, paper: str) -> Mapping[str, Any]:
        """The summary of a paper, when its part of the chain ran."""
        if paper not in self.summaries:
            raise Absent(f"this experiment's config leaves out the part '{paper}'")
        return self.summaries[paper]

    def per_query(self, source: Mapping[str, Any], system: str) -> pd.Series:
        """One system's value per query (index query_id, sorted).

        `source` names either a paper's measure, {paper, measure}, or a table's column,
        {table, column}; several rows of one query in a table are averaged.
        """
        if "measure" in source:
            table = self.table(f"evaluation/{source['paper']}.per_query")
            table = table[table["measure"] == source["measure"]]
            if table.empty:
                raise Absent(f"{source['measure']} is not among this experiment's measures")
            column = "value"
        else:
            table, column = self.table(source["table"]), source["column"]
            if column not in table.columns:
                raise EspalierError(
                    f"claims: table {source['table']} has no column '{column}'; "
                    f"there are {', '.join(table.columns)}"
                )
        chosen = table[table["system"] == system]
        if chosen.empty:
            raise Absent(f"this experiment has no system '{system}'")
        return chosen.groupby("query_id", sort=True)[column].mean().astype("float64")

    def paired(self, source: Mapping[str, Any], *systems: str) -> pd.DataFrame:
        """Values of several systems on the queries that all have, float64[queries, systems]."""
        values = [self.per_query(source, system) for system in systems]
        return pd.concat(values, axis=1, join="inner", keys=systems)


def paper_of(table: str) -> str:
    """'colbert/counts' and 'evaluation/colbert.per_query' → 'colbert'."""
    folder, name = table.split("/")
    return name.split(".")[0] if folder == "evaluation" else folder


def load(paths: Iterable[Path]) -> Results:
    """Read tables (parquet) and summaries (`<paper>.summary.json`)."""
    tables, summaries = {}, {}
    for path in paths:
        if path.suffix == ".parquet":
            tables[f"{path.parent.name}/{path.name.removesuffix('.parquet')}"] = read(path)
        elif path.name.endswith(".summary.json"):
            summaries[path.name.split(".")[0]] = json.loads(path.read_text())
        else:
            raise EspalierError(f"{path}: neither a table (.parquet) nor a summary (.summary.json)")
    return Results(tables, summaries)


def read(path: Path) -> pd.DataFrame:
    """Read one table; EspalierError when it is damaged."""
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise EspalierError(f"{path}: not a parquet table; delete it and run again") from error
