"""Documents whose answers stand away from the start: sections of four pages, joined.

A section is a function's or method's text under its name. The first section of a document answers
no query; the other three answer one each. The title says nothing.

A first section drawn at random would match a query less often than the first sections of BM25's
results do, which BM25 may have found for that very section: a ranker that sees beginnings only
would learn that matching speaks against a document. So a document's first section is the one
that BM25 finds for the queries that the document answers; on the training queries it then tells
the document from the unjudged ones among BM25's best 20 in 53 of 100 comparisons (at random: 33).
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from espalier.collections.bm25 import Bm25
from espalier.collections.pydocs.build import Collection, Doc, Question, split_of
from espalier.collections.pydocs.docstrings import words
from espalier.collections.splits import SPLITS

ANSWERS = 3
"""Sections of a document that answer a query, after one that answers none."""

SHORTEST_SECTION, LONGEST_SECTION = 30, 200
"""Lengths in words; a document has about 750 word pieces, as MS MARCO's do in the median."""

SEED = "espalier/pydocs/joined"


@dataclass(frozen=True)
class Joined:
    """The documents, and the queries that their sections answer."""

    documents: list[Doc]
    questions: list[Question]


def join(collection: Collection) -> Joined:
    """Join sections of the same split; those that find no place are left out with their queries.

    A question's `page` is the joined document here, and its span the answering section's text.
    """
    questions = {question.passage: question for question in collection.questions}
    sections = sorted(filter(is_section, collection.passages), key=place)
    joined = Joined([], [])
    for split in SPLITS:
        here = [s for s in sections if split_of(collection.page_of[s.doc_id]) == split]
        leads = [section for section in here if section.doc_id not in questions]
        answers = [section for section in here if section.doc_id in questions]
        groups = grouped(answers, collection.page_of)
        for chosen in with_leads(groups, leads, questions, collection.page_of):
            name = f"{split}-{len(joined.documents) + 1:05d}"
            document, starts = laid_out(name, chosen)
            joined.documents.append(document)
            for section, start in list(zip(chosen, starts, strict=True))[1:]:
                end = start + len(section.text)
                asked = questions[section.doc_id]._replace(page=name, start=start, end=end)
                joined.questions.append(asked)
    return joined


def is_section(passage: Doc) -> bool:
    """Whether a passage has a section's length."""
    return SHORTEST_SECTION <= len(words(passage.text)) <= LONGEST_SECTION


def place(passage: Doc) -> bytes:
    """What sections are sorted by: a hash of the name alone."""
    return hashlib.sha256(f"{SEED}\t{passage.doc_id}".encode()).digest()


def grouped(answers: Iterable[Doc], page_of: Mapping[str, str]) -> Iterator[list[Doc]]:
    """Groups of `ANSWERS` sections, each the first in line that are of different pages."""
    waiting = deque(answers)
    while waiting:
        chosen: dict[str, Doc] = {}
        passed_over = deque[Doc]()
        while waiting and len(chosen) < ANSWERS:
            section = waiting.popleft()
            if chosen.setdefault(page_of[section.doc_id], section) is not section:
                passed_over.append(section)
        waiting.extendleft(reversed(passed_over))
        if len(chosen) == ANSWERS:
            yield list(chosen.values())


def with_leads(
    groups: Iterable[list[Doc]],
    leads: Sequence[Doc],
    questions: Mapping[str, Question],
    page_of: Mapping[str, str],
) -> Iterator[list[Doc]]:
    """Each group behind the lead that BM25 ranks first for the group's queries.

    Every lead is used once, and with sections of other pages; groups without one are left out.
    """
    if not leads:
        return
    index = Bm25(leads)
    free = np.ones(len(leads), dtype=bool)
    for group in groups:
        pages = {page_of[section.doc_id] for section in group}
        scores = index.scores(" ".join(questions[section.doc_id].text for section in group))
        for position in np.argsort(-scores, kind="stable"):
            if free[position] and page_of[leads[position].doc_id] not in pages:
                free[position] = False
                yield [leads[position], *group]
                break


def laid_out(name: str, sections: Sequence[Doc]) -> tuple[Doc, list[int]]:
    """The document, and where each section's text starts in its text."""
    parts: list[str] = []
    starts = []
    length = 0
    for section in sections:
        heading = f"{section.title}\n"
        starts.append(length + len(heading))
        parts.append(heading + section.text)
        length += len(parts[-1]) + len("\n\n")
    number = name.rpartition("-")[2]
    return Doc(name, f"Collected notes {number}", "\n\n".join(parts)), starts
