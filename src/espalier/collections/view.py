"""A view: the snapshot of one collection's queries and judgments that an experiment uses.

It is a folder with `manifest.json` and, for each split, `<split>.queries.tsv`,
`<split>.qrels` (TREC format) and, where the collection knows them, `<split>.spans.tsv`
(query_id, doc_id, start, end: the characters of the document's text that answer the query).
Documents stay where ir_datasets keeps them, but for a sample of them (`max_docs`), which is in
`docs.jsonl`; the manifest holds their count, and the digest of all.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from espalier.collections import access
from espalier.errors import EspalierError

QRELS_COLUMNS = ["query_id", "iteration", "doc_id", "relevance"]
SPAN_COLUMNS = ["query_id", "doc_id", "start", "end"]


@dataclass(frozen=True)
class View:
    """One collection as an experiment sees it."""

    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """`docs` (the ir_datasets id), `docs_count`, `docs_sha256`, `splits`, `versions`."""
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return manifest

    def docs(self, start: int = 0, stop: int | None = None) -> Iterator[access.Doc]:
        """Documents `start` to `stop` in the collection's order."""
        if (sample := self.folder / "docs.jsonl").exists():
            return read_sample(sample, start, stop)
        return access.docs(self.manifest["docs"], start, stop)

    @property
    def docs_count(self) -> int:
        """Documents in the collection, counted by iterating, or in the sample."""
        return int(self.manifest["docs_count"])

    def queries(self, split: str) -> dict[str, str]:
        """Text of each query by query_id, in the collection's order."""
        frame = self._table(f"{split}.queries.tsv", ["query_id", "text"])
        return dict(zip(frame["query_id"], frame["text"], strict=True))

    def qrels(self, split: str) -> pd.DataFrame:
        """Judgments: query_id, doc_id (str), relevance (int64)."""
        frame = self._table(f"{split}.qrels", QRELS_COLUMNS, separator=" ")
        return frame[["query_id", "doc_id"]].assign(relevance=frame["relevance"].astype("int64"))

    def spans(self, split: str) -> pd.DataFrame:
        """Gold spans: query_id, doc_id, start, end (int64 character offsets, end exclusive)."""
        frame = self._table(f"{split}.spans.tsv", SPAN_COLUMNS)
        return frame.astype({"start": "int64", "end": "int64"})

    def has_spans(self, split: str) -> bool:
        """Whether the collection knows where in its documents the answers stand."""
        return (self.folder / f"{split}.spans.tsv").exists()

    def _table(self, name: str, columns: list[str], separator: str = "\t") -> pd.DataFrame:
        path = self.folder / name
        if not path.exists():
            raise EspalierError(f"{path}: no such split in this view; add it under 'collections'")
        return pd.read_csv(
            path, sep=separator, names=columns, dtype=str, quoting=3, keep_default_na=False
        )


def read_sample(path: Path, start: int, stop: int | None) -> Iterator[access.Doc]:
    """Documents `start` to `stop` of a sample: one a line, a list of its fields."""
    with path.open(encoding="utf-8") as stream:
        for line in islice(stream, start, stop):
            yield access.Doc(*json.loads(line))
