"""Where documents answer: passages judged relevant to the same query, found in their texts.

MS MARCO's documents were judged by their passages, but the two collections share query ids only, so
that a passage's place in its document has to be found by content (GoldP: Kim et al., CIKM 2021).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from espalier.collections.access import Doc, Judgment

Pair = tuple[str, str]


@dataclass
class Alignment:
    """The relevant passages of one split, and where they stand in relevant documents."""

    passages: list[Pair]
    """(query_id, passage_id)."""
    documents: set[Pair]
    """(query_id, doc_id)."""
    everywhere: int
    """Relevant passages of all queries, also of those that are not used here."""
    places: dict[Pair, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Characters of the text, ends exclusive, by (query_id, doc_id); sorted, each once."""
    found: set[Pair] = field(default_factory=set)
    """The passages that stand in a document."""

    @property
    def share(self) -> float:
        """How many of the passages stand in a document: 0 to 1."""
        return len(self.found) / max(1, len(self.passages))

    def counts(self, split: str) -> dict[str, int | float]:
        """What is there and what was found, for the record."""
        return {
            f"{split}_relevant_passages_of_all_queries": self.everywhere,
            f"{split}_relevant_passages": len(self.passages),
            f"{split}_relevant_passages_aligned": len(self.found),
            f"{split}_share_aligned": self.share,
            f"{split}_relevant_documents": len(self.documents),
            f"{split}_relevant_documents_aligned": len(self.places),
        }


def relevant(
    passages: Iterable[Judgment], documents: Iterable[Judgment], level: int = 1
) -> Alignment:
    """What is to be aligned: passages graded `level` or more, documents graded above 0.

    Both for the queries that `documents` has.
    """
    judged = list(documents)
    queries = {d.query_id for d in judged}
    graded = [(p.query_id, p.doc_id) for p in passages if p.relevance >= level]
    return Alignment(
        [pair for pair in graded if pair[0] in queries],
        {(d.query_id, d.doc_id) for d in judged if d.relevance > 0},
        len(graded),
    )


def align(
    alignments: Mapping[str, Alignment], passages: Iterable[Doc], documents: Iterable[Doc]
) -> None:
    """Fill in the places, in one pass over either collection."""
    needed = {passage_id for a in alignments.values() for _, passage_id in a.passages}
    texts = {p.doc_id: squeezed(p.text) for p in passages if p.doc_id in needed}
    queries_of = defaultdict(list)
    for alignment in alignments.values():
        by_query = defaultdict(list)
        for query_id, passage_id in alignment.passages:
            by_query[query_id].append(passage_id)
        for query_id, doc_id in sorted(alignment.documents):
            queries_of[doc_id].append((alignment, query_id, by_query[query_id]))
    for doc in documents:
        if doc.doc_id not in queries_of:
            continue
        text = squeezed(doc.text)
        for alignment, query_id, passage_ids in queries_of[doc.doc_id]:
            places = set()
            for passage_id in passage_ids:
                passage = texts.get(passage_id, "")
                start = text.find(passage) if passage else -1
                if start >= 0:
                    alignment.found.add((query_id, passage_id))
                    places.add((start, start + len(passage)))
            if places:
                alignment.places[query_id, doc.doc_id] = in_text(doc.text, places)


def squeezed(text: str) -> str:
    """A text without white space, which the two collections set differently."""
    return "".join(text.split())


def in_text(text: str, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places in the squeezed text as places in the text itself, sorted."""
    offsets = [offset for offset, character in enumerate(text) if not character.isspace()]
    return [(offsets[start], offsets[end - 1] + 1) for start, end in sorted(places)]
