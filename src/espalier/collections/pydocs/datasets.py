"""`espalier/pydocs` and `espalier/pydocs-mini` as ir_datasets datasets."""

from collections.abc import Iterator
from functools import cached_property
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
    TrecQrel,
)  # fmt: skip
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS

from espalier import files
from espalier.collections.bm25 import Bm25
from espalier.collections.judgments import SpansQrel
from espalier.collections.pydocs import store
from espalier.collections.pydocs.build import Doc
from espalier.collections.splits import SPLITS

NAMESPACE = "espalier"
QREL_DEFS = {1: "the text whose summary line is the query"}


class PydocsDocs(BaseDocs):  # type: ignore[misc]
    """Passages, pages, or joined documents."""

    def __init__(self, recipe: store.Recipe, view: str):
        self.recipe, self.view = recipe, view

    def docs_iter(self) -> Any:
        """Documents in the order of packages, modules and lines; may be sliced."""
        return iter(self.docs_store())

    def docs_path(self, force: bool = True) -> Any:
        """The file behind the documents."""
        return store.folder_of(self.recipe, self.view) / f"{self.view}.jsonl"

    def docs_store(self, field: str = "doc_id", options: Any = DEFAULT_DOCSTORE_OPTIONS) -> Any:
        """Look documents up by doc_id."""
        return store.docstore(self.docs_path(), field, options)

    def docs_count(self) -> int:
        """Documents in this view."""
        return int(store.manifest(self.recipe, self.view)["counts"][self.view])

    def docs_cls(self) -> type[Doc]:
        """The documents' type."""
        return Doc

    def docs_namespace(self) -> str:
        """The name under which doc_ids are unique."""
        return f"{NAMESPACE}/{self.recipe.name}/{self.view}"

    def docs_lang(self) -> str:
        """English."""
        return "en"


class PydocsQueries(BaseQueries):  # type: ignore[misc]
    """Summary lines; passages and documents have the same, joined documents some of them."""

    def __init__(self, recipe: store.Recipe, view: str, split: str):
        self.recipe, self.view, self.split = recipe, view, split

    def queries_iter(self) -> Iterator[GenericQuery]:
        """Queries in the documents' order."""
        for row in questions(self.recipe, self.view, self.split):
            yield GenericQuery(row["query_id"], row["text"])

    def queries_count(self) -> int:
        """Queries of this split."""
        counts = store.manifest(self.recipe, self.view)["counts"]
        return int(counts["queries"].get(self.split, 0))

    def queries_cls(self) -> Any:
        """The queries' type."""
        return GenericQuery

    def queries_namespace(self) -> str:
        """The name under which query_ids are unique."""
        return f"{NAMESPACE}/{self.recipe.name}"

    def queries_lang(self) -> str:
        """English."""
        return "en"


class PydocsQrels(BaseQrels):  # type: ignore[misc]
    """The one passage, or the one document with the span, that answers each query."""

    def __init__(self, recipe: store.Recipe, view: str, split: str):
        self.recipe, self.view, self.split = recipe, view, split

    def qrels_iter(self) -> Iterator[TrecQrel | SpansQrel]:
        """Judgments in the queries' order."""
        for row in questions(self.recipe, self.view, self.split):
            if self.view == "passages":
                yield TrecQrel(row["query_id"], row["passage"], 1, "0")
            else:
                span = (row["start"], row["end"])
                yield SpansQrel(row["query_id"], row["page"], 1, "0", (span,))

    def qrels_defs(self) -> dict[int, str]:
        """What a relevance means."""
        return QREL_DEFS

    def qrels_cls(self) -> Any:
        """The judgments' type: with spans in the documents view."""
        return TrecQrel if self.view == "passages" else SpansQrel


class PydocsScoredDocs(BaseScoredDocs):  # type: ignore[misc]
    """BM25's first hundred, made when first asked for."""

    def __init__(self, docs: PydocsDocs, queries: PydocsQueries):
        self.docs, self.queries = docs, queries

    @cached_property
    def path(self) -> Any:
        """The file of scores: query_id, doc_id, score."""
        name = f"{self.docs.view}.{self.queries.split}.scoreddocs.tsv"
        folder = store.folder_of(self.docs.recipe, self.docs.view)
        path = folder / name
        with files.locked(folder / f".{name}.lock"):
            if not path.exists():
                queries = {query.query_id: query.text for query in self.queries.queries_iter()}
                scored = Bm25(self.docs.docs_iter()).retrieve(queries)
                with files.written_whole(path) as temporary:
                    scored.to_csv(temporary, sep="\t", header=False, index=False)
        return path

    def scoreddocs_path(self) -> Any:
        """The file of scores."""
        return self.path

    def scoreddocs_iter(self) -> Iterator[GenericScoredDoc]:
        """Scored documents, best first within each query."""
        with self.path.open(encoding="utf-8") as stream:
            for line in stream:
                query_id, doc_id, score = line.rstrip("\n").split("\t")
                yield GenericScoredDoc(query_id, doc_id, float(score))


class Documentation:
    """What `ir_datasets` shows of a dataset."""

    def __init__(self, description: str):
        self.description = description

    def documentation(self) -> dict[str, str]:
        """Title and description."""
        return {"pretty_name": "Espalier Python documentation", "desc": self.description}


def questions(recipe: store.Recipe, view: str, split: str) -> Iterator[dict[str, Any]]:
    """The rows behind the queries and judgments of one view's split."""
    return store.read(store.folder_of(recipe, view) / f"{split}.questions.jsonl")


def manifest_of(dataset_id: str) -> dict[str, Any] | None:
    """The manifest of the built-in collection that an id belongs to; None for any other id."""
    for recipe in store.RECIPES:
        for view in store.VIEWS:
            if f"{dataset_id}/".startswith(f"{NAMESPACE}/{recipe.name}/{view}/"):
                return store.manifest(recipe, view)
    return None


def register() -> None:
    """Make the datasets known to ir_datasets; a second call changes nothing."""
    for recipe in store.RECIPES:
        base = f"{NAMESPACE}/{recipe.name}"
        if base in ir_datasets.registry:
            continue
        packages = ", ".join(recipe.packages)
        about = Documentation(f"Documentation of {packages}: find what a summary line sums up.")
        ir_datasets.registry.register(base, Dataset(PydocsDocs(recipe, "passages"), about))
        for view in store.VIEWS:
            docs = PydocsDocs(recipe, view)
            ir_datasets.registry.register(f"{base}/{view}", Dataset(docs, about))
            for split in SPLITS:
                queries = PydocsQueries(recipe, view, split)
                qrels = PydocsQrels(recipe, view, split)
                scored = PydocsScoredDocs(docs, queries)
                ir_datasets.registry.register(
                    f"{base}/{view}/{split}", Dataset(docs, queries, qrels, scored, about)
                )
