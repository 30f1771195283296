"""Reading collections through ir_datasets, whatever the fields of their records are called."""

import errno
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import ir_datasets

from espalier.collections import pydocs
from espalier.collections.availability import obstacle
from espalier.collections.folders.datasets import register
from espalier.collections.folders.names import is_folder
from espalier.collections.judgments import SpansQrel
from espalier.errors import EspalierError

# Every reading of a collection would say which file it opens.
logging.getLogger("ir_datasets").addFilter(
    lambda record: not record.getMessage().startswith("Opening ")
)

TITLE_FIELDS = ("title", "headline")
TEXT_FIELDS = ("text", "body", "abstract", "doc", "contents")


class Doc(NamedTuple):
    """A document as every stage sees it."""

    doc_id: str
    title: str
    """Empty where the collection has none."""
    text: str


class Query(NamedTuple):
    """A query as every stage sees it."""

    query_id: str
    text: str
    """On one line."""


class Judgment(NamedTuple):
    """A judgment; `spans` where the collection knows which characters of the text answer."""

    query_id: str
    doc_id: str
    relevance: int
    spans: tuple[tuple[int, int], ...] = ()
    """Character offsets, ends exclusive."""


def load(dataset_id: str) -> Any:
    """The ir_datasets dataset of that id; EspalierError when there is none."""
    pydocs.register()
    if is_folder(dataset_id):
        register(dataset_id)
    try:
        return ir_datasets.load(dataset_id)
    except KeyError as error:
        raise EspalierError(
            f"collection '{dataset_id}' is unknown to ir_datasets {ir_datasets.__version__}; "
            "see https://ir-datasets.com for the ids, or name 'espalier/pydocs/passages', or "
            "'folder:path' for a folder of your own"
        ) from error
    except (OSError, RuntimeError) as error:
        # Some datasets download a list of their files as soon as they are named.
        raise unreadable(dataset_id, "its description", error) from error


def check(dataset_id: str, kinds: Iterable[str] = ("docs", "queries", "qrels")) -> None:
    """Decide in seconds whether a dataset can be had, without reading or downloading it.

    Raises EspalierError for an unknown id, for a corpus that has to be put in place by hand and
    is not there, and for files that are neither here nor to be reached. What a dataset does not
    have is passed over.
    """
    dataset = load(dataset_id)
    for kind in kinds:
        if dataset.has(kind):
            reason = obstacle(getattr(dataset, f"{kind}_handler")())
            if reason:
                raise EspalierError(f"collection '{dataset_id}', {kind}: {reason}")


def check_scoreddocs(dataset_id: str) -> None:
    """As `check`, for a dataset's scoreddocs, which it must have."""
    if not load(dataset_id).has("scoreddocs"):
        raise EspalierError(
            f"collection '{dataset_id}' has no scoreddocs; set its view's candidates to bm25"
        )
    check(dataset_id, ["scoreddocs"])


def check_field(dataset_id: str, field: str) -> None:
    """Check that a dataset's queries have a field."""
    known = set(load(dataset_id).queries_cls()._fields) - {"query_id"}
    if field not in known:
        raise EspalierError(
            f"collection '{dataset_id}': queries have no field '{field}'; name one of "
            f"{', '.join(sorted(known))}"
        )


def docs(dataset_id: str, start: int = 0, stop: int | None = None) -> Iterator[Doc]:
    """Documents `start` to `stop` (exclusive; None: to the end) in the collection's order."""
    rows = records(dataset_id, "docs", lambda iterator: islice(iterator, start, stop))
    return map(as_doc, rows)


def queries(dataset_id: str, field: str | None = None) -> Iterator[Query]:
    """Queries in the collection's order, white space evened.

    The text is that of `field`, e.g. TREC's title or description, or what the collection itself
    takes for a query's text.
    """
    if field is not None:
        check_field(dataset_id, field)
    for query in records(dataset_id, "queries"):
        text = query.default_text() if field is None else getattr(query, field)
        yield Query(query.query_id, " ".join(text.split()))


def scoreddocs(dataset_id: str) -> Iterator[tuple[str, str, float]]:
    """First-stage results that come with the collection: query_id, doc_id, score."""
    for row in records(dataset_id, "scoreddocs"):
        yield row.query_id, row.doc_id, float(row.score)


def qrels(dataset_id: str) -> Iterator[Judgment]:
    """Judgments in the collection's order."""
    for qrel in records(dataset_id, "qrels"):
        spans = qrel.spans if isinstance(qrel, SpansQrel) else ()
        yield Judgment(qrel.query_id, qrel.doc_id, int(qrel.relevance), spans)


def records(
    dataset_id: str, kind: str, take: Callable[[Iterable[Any]], Iterable[Any]] = iter
) -> Iterator[Any]:
    """What a dataset's `<kind>_iter` gives; EspalierError where that fails for want of files."""
    dataset = load(dataset_id)
    if not dataset.has(kind):
        raise EspalierError(f"collection '{dataset_id}' has no {kind}; name one of its subsets")
    reason = obstacle(getattr(dataset, f"{kind}_handler")())
    if reason:
        raise EspalierError(f"collection '{dataset_id}', {kind}: {reason}")
    try:
        yield from take(getattr(dataset, f"{kind}_iter")())
    except (OSError, RuntimeError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise unreadable(dataset_id, kind, error) from error


def unreadable(dataset_id: str, kind: str, error: Exception) -> EspalierError:
    """The error for a dataset whose reading failed."""
    why = " ".join(str(error).split())
    return EspalierError(
        f"collection '{dataset_id}', {kind}: cannot be read ({type(error).__name__}: {why}); "
        f"check the network, and its files below {ir_datasets.util.home_path()}"
    )


def as_doc(doc: Any) -> Doc:
    """Map a dataset's own document type to `Doc`."""
    fields = doc._fields
    title = next((getattr(doc, name) for name in TITLE_FIELDS if name in fields), "")
    text = next((getattr(doc, name) for name in TEXT_FIELDS if name in fields), None)
    if text is None:
        text = doc.default_text()
        title = ""
    return Doc(doc.doc_id, title or "", text or "")
