"""The judgments of our own collections, which know where in a document the answer stands."""

from typing import NamedTuple


class SpansQrel(NamedTuple):
    """A judgment with the places of the answer, as ir_datasets yields it."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str
    spans: tuple[tuple[int, int], ...]
    """(first character of the document's text that belongs to the answer, the one after its last);
    empty where the answer's place is not known."""
