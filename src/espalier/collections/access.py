"""Reading collections through ir_datasets, whatever the fields of their documents are called."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import ir_datasets

from espalier.collections import pydocs
from espalier.errors import EspalierError

TITLE_FIELDS = ("title", "headline")
TEXT_FIELDS = ("text", "body", "abstract", "doc", "contents")


class Doc(NamedTuple):
    """A document as every stage sees it."""

    doc_id: str
    title: str
    """Empty where the collection has none."""
    text: str


def load(dataset_id: str) -> Any:
    """The ir_datasets dataset of that id; EspalierError when there is none."""
    pydocs.register()
    try:
        return ir_datasets.load(dataset_id)
    except KeyError as error:
        raise EspalierError(
            f"collection '{dataset_id}' is unknown to ir_datasets {ir_datasets.__version__}; "
            "see https://ir-datasets.com for the ids, or name 'espalier/pydocs/passages'"
        ) from error


def docs(dataset_id: str, start: int = 0, stop: int | None = None) -> Iterator[Doc]:
    """Documents `start` to `stop` (exclusive; None: to the end) in the collection's order."""
    for doc in islice(load(dataset_id).docs_iter(), start, stop):
        yield as_doc(doc)


def as_doc(doc: Any) -> Doc:
    """Map a dataset's own document type to `Doc`."""
    fields = doc._fields
    title = next((getattr(doc, name) for name in TITLE_FIELDS if name in fields), "")
    text = next((getattr(doc, name) for name in TEXT_FIELDS if name in fields), None)
    if text is None:
        text = doc.default_text()
        title = ""
    return Doc(doc.doc_id, title or "", text or "")
