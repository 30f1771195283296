"""Folders as ir_datasets datasets."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ir_datasets
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import (
    BaseDocs,
    BaseQrels,
    BaseQueries,
    BaseScoredDocs,
    GenericQuery,
    GenericScoredDoc,
)  # fmt: skip

from espalier.collections.folders.content import Content
from espalier.collections.folders.names import NEEDED, PREFIX, RUN, place_of
from espalier.collections.judgments import SpansQrel
from espalier.collections.pydocs.build import Doc
from espalier.errors import EspalierError


class FolderDocs(BaseDocs):  # type: ignore[misc]
    """All documents of a folder."""

    def __init__(self, content: Content):
        self.content = content

    def docs_iter(self) -> Iterator[Doc]:
        """Documents in the file's order."""
        return self.content.docs()

    def docs_count(self) -> int:
        """Documents, counted."""
        return len(self.content.lengths)

    def docs_cls(self) -> type[Doc]:
        """The documents' type."""
        return Doc


class FolderQueries(BaseQueries):  # type: ignore[misc]
    """The queries of one split, or all."""

    def __init__(self, content: Content, split: str | None):
        self.content, self.split = content, split

    def queries_iter(self) -> Iterator[GenericQuery]:
        """Queries in the file's order."""
        for query_id in self.content.chosen(self.split):
            yield GenericQuery(query_id, self.content.queries[query_id][0])

    def queries_cls(self) -> Any:
        """The queries' type."""
        return GenericQuery


class FolderQrels(BaseQrels):  # type: ignore[misc]
    """The judgments of one split's queries, or of all."""

    def __init__(self, content: Content, split: str | None):
        self.content, self.split = content, split

    def qrels_iter(self) -> Iterator[SpansQrel]:
        """Judgments in the file's order."""
        chosen = set(self.content.chosen(self.split))
        return (qrel for qrel in self.content.qrels.values() if qrel.query_id in chosen)

    def qrels_cls(self) -> Any:
        """The judgments' type."""
        return SpansQrel

    def qrels_defs(self) -> dict[int, str]:
        """Grades mean what the folder's maker says."""
        return {}


class FolderScoredDocs(BaseScoredDocs):  # type: ignore[misc]
    """First-stage results of one split's queries, or of all."""

    def __init__(self, content: Content, split: str | None):
        self.content, self.split = content, split

    def scoreddocs_iter(self) -> Iterator[GenericScoredDoc]:
        """Results in the file's order."""
        chosen = set(self.content.chosen(self.split))
        return (row for row in self.content.scoreddocs() if row.query_id in chosen)


def register(dataset_id: str) -> None:
    """Make the dataset of a folder known to ir_datasets; a second call changes nothing.

    Raises EspalierError when the folder or a file that it needs is missing, or has no such split.
    """
    if dataset_id in ir_datasets.registry:
        return
    path, split = place_of(dataset_id)
    content = opened(path)
    content.chosen(split)
    parts = [FolderDocs(content), FolderQueries(content, split), FolderQrels(content, split)]
    if (path / RUN).exists():
        parts.append(FolderScoredDocs(content, split))
    ir_datasets.registry.register(dataset_id, Dataset(*parts))


@cache
def opened(folder: Path) -> Content:
    """The content of a folder: one for all its splits, so that files are read once."""
    if not folder.is_dir():
        raise EspalierError(f"collection '{PREFIX}{folder}': no such folder; correct the path")
    for name in NEEDED:
        if not (folder / name).is_file():
            raise EspalierError(
                f"collection '{PREFIX}{folder}': {folder / name} is missing; put it there "
                f"(a collection's folder has {', '.join(NEEDED)})"
            )
    return Content(folder)
