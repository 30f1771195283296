"""From pages to a collection: what is kept, what is asked, how the views look, who is in a split.

A query is the summary of a function or method; what answers it is the rest of its docstring, as a
passage of its own or as a span of the page that it stands on.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from espalier.collections.pydocs.docstrings import words
from espalier.collections.pydocs.duplicates import near_duplicates
from espalier.collections.pydocs.pages import Member, Page
from espalier.collections.splits import drawn

SHORTEST_QUERY, LONGEST_QUERY = 5, 25
SHORTEST_PASSAGE = 15
SHORTEST_PAGE = 40
"""Lengths in words."""

SEED = "espalier/pydocs"

PROSE = re.compile(r"[A-Za-z](?!.*(?:%\(|::|>>>))[^\\{}|`]*[^\\{}|:`]")
EMPTY_SAYING = re.compile(r"(see|alias|same as|like|todo|fixme|internal)\b", re.IGNORECASE)


class Doc(NamedTuple):
    """A document of either view."""

    doc_id: str
    title: str
    text: str

    def default_text(self) -> str:
        """Title and text."""
        return f"{self.title}\n{self.text}"


class Question(NamedTuple):
    """A query with the passage, and the span of the page, that answer it."""

    query_id: str
    text: str
    split: str
    passage: str
    page: str
    start: int
    end: int


@dataclass(frozen=True)
class Collection:
    """Both views and what they share."""

    passages: list[Doc]
    documents: list[Doc]
    questions: list[Question]
    page_of: dict[str, str]
    """The page that each passage stands on, by their names."""


def build(pages: Iterable[Page]) -> Collection:
    """Make the collection of these pages; the order of the pages decides which duplicate stays."""
    kept = [page for page in without_duplicates(list(pages)) if long_enough(page)]
    asked = askable(kept)
    collection = Collection([], [], [], {})
    for page in kept:
        document, spans = laid_out(page, asked)
        collection.documents.append(document)
        for member in filter(is_passage, page.members):
            collection.passages.append(Doc(member.name, member.name, member.text))
            collection.page_of[member.name] = page.name
            if member.name in asked:
                query_id = f"q{len(collection.questions) + 1:05d}"
                question = (query_id, member.summary, split_of(page.name), member.name, page.name)
                collection.questions.append(Question(*question, *spans[member.name]))
    return collection


def without_duplicates(pages: Sequence[Page]) -> list[Page]:
    """The pages without members whose texts nearly repeat another's, and without empty texts."""
    members = [member for page in pages for member in page.members if is_passage(member)]
    marks = near_duplicates([member.text for member in members])
    repeated = {id(member) for member, mark in zip(members, marks, strict=True) if mark}
    return [
        replace(page, members=tuple(m for m in page.members if id(m) not in repeated))
        for page in pages
    ]


def is_passage(member: Member) -> bool:
    """Whether a member's text is long enough to answer anything."""
    return len(words(member.text)) >= SHORTEST_PASSAGE


def long_enough(page: Page) -> bool:
    """Whether a page holds a passage, or enough text without one."""
    texts = [page.text, *(f"{member.summary} {member.text}" for member in page.members)]
    return any(map(is_passage, page.members)) or len(words(" ".join(texts))) >= SHORTEST_PAGE


def askable(pages: Sequence[Page]) -> set[str]:
    """Names of the members whose summaries serve as queries.

    A query is a sentence of 5 to 25 words that no other member has as its summary and that
    stands nowhere else on its page.
    """
    uses = Counter(saying(member) for page in pages for member in page.members)
    names = set()
    for page in pages:
        rest = " ".join(words(laid_out(page, {member.name for member in page.members})[0].text))
        for member in filter(is_passage, page.members):
            once = uses[saying(member)] == 1 and saying(member) not in rest
            if once and is_query(member.summary):
                names.add(member.name)
    return names


def saying(member: Member) -> str:
    """A summary as comparisons see it."""
    return " ".join(words(member.summary))


def is_query(summary: str) -> bool:
    """Whether a summary reads as a sentence of a query's length that says something."""
    tokens = [word.strip("()'\",.;:").replace("-", "") for word in summary.split()]
    return (
        SHORTEST_QUERY <= len(tokens) <= LONGEST_QUERY
        and sum(token.isalpha() for token in tokens) >= 0.7 * len(tokens)
        and PROSE.fullmatch(summary) is not None
        and EMPTY_SAYING.match(summary) is None
    )


def laid_out(page: Page, asked: set[str]) -> tuple[Doc, dict[str, tuple[int, int]]]:
    """A page as a document, and the span of each member's text in it.

    Own text first, then each member's signature, its summary unless that is asked, its text.
    """
    parts = [page.text] if page.text else []
    length = len(page.text)
    spans = {}
    for member in page.members:
        heading = member.signature
        if member.name not in asked:
            heading += f"\n{member.summary}"
        if length:
            length += 2
        start = length + len(heading) + 1
        spans[member.name] = (start, start + len(member.text))
        parts.append(f"{heading}\n{member.text}" if member.text else heading)
        length += len(parts[-1])
    return Doc(page.name, page.name.replace("._", "."), "\n\n".join(parts)), spans


def split_of(page_name: str) -> str:
    """The split of a page: decided by a hash of its name alone."""
    return drawn(f"{SEED}\t{page_name}")
