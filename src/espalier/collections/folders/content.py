"""Reading and checking the files of a folder that holds a collection.

Every error is one line that names file, line or entry, and remedy.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ir_datasets.formats import GenericScoredDoc

from espalier.collections.folders.names import DOCS, QRELS, QUERIES, RUN, SPANS
from espalier.collections.judgments import SpansQrel
from espalier.collections.pydocs.build import Doc
from espalier.collections.splits import divided
from espalier.errors import EspalierError


@dataclass(frozen=True)
class Content:
    """The content of one folder, checked when first asked for."""

    folder: Path

    def docs(self) -> Iterator[Doc]:
        """Documents in the file's order."""
        for doc_id, *rest in table(self.folder / DOCS, "doc_id", "doc_id, title, text"):
            yield Doc(doc_id, rest[0] if len(rest) > 1 else "", rest[-1])

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Characters of each document's text, by doc_id."""
        return {doc.doc_id: len(doc.text) for doc in self.docs()}

    @cached_property
    def queries(self) -> dict[str, tuple[str, str | None]]:
        """Text and stated split of each query, in the file's order."""
        found: dict[str, tuple[str, str | None]] = {}
        for query_id, text, *rest in table(
            self.folder / QUERIES, "query_id", "query_id, text, split"
        ):
            found[query_id] = (text, rest[0] if rest else None)
        return found

    @cached_property
    def qrels(self) -> dict[tuple[str, str], SpansQrel]:
        """Judgments by query_id and doc_id, in the file's order, with the spans of the answers."""
        path = self.folder / QRELS
        spans = self.spans
        found: dict[tuple[str, str], SpansQrel] = {}
        for place, line in lines(path):
            fields = line.split()
            if len(fields) != 4:
                raise wrong_columns(place, len(fields), "4 (query_id 0 doc_id relevance)")
            query_id, iteration, doc_id, grade = fields
            self.check_pair(place, query_id, doc_id)
            if (query_id, doc_id) in found:
                raise EspalierError(
                    f"{place}: document '{doc_id}' is judged twice for query '{query_id}'; keep one"
                )
            try:
                relevance = int(grade)
            except ValueError as error:
                raise EspalierError(
                    f"{place}: relevance '{grade}' is no whole number; correct it"
                ) from error
            known = spans.get((query_id, doc_id), ())
            found[query_id, doc_id] = SpansQrel(query_id, doc_id, relevance, iteration, known)
        for query_id, doc_id in spans:
            if (query_id, doc_id) not in found:
                raise EspalierError(
                    f"{self.folder / SPANS}: query '{query_id}', document '{doc_id}': {QRELS} does "
                    "not judge this pair; add the judgment or leave the spans out"
                )
        return found

    @cached_property
    def spans(self) -> dict[tuple[str, str], tuple[tuple[int, int], ...]]:
        """Places of the answers by query_id and doc_id; none without the file."""
        found: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
        for where, entry in self.entries:
            query_id, doc_id = entry["query_id"], entry["doc_id"]
            self.check_pair(where, query_id, doc_id)
            if (query_id, doc_id) in found:
                raise EspalierError(f"{where}: this pair has an entry already; keep one")
            length = self.lengths[doc_id]
            for start, end in entry["char_spans"]:
                if not 0 <= start < end <= length:
                    raise EspalierError(
                        f"{where}: characters {start} to {end} are not inside the text, which has "
                        f"{length}; correct 'char_spans'"
                    )
            found[query_id, doc_id] = tuple((s, e) for s, e in entry["char_spans"])
        return found

    @cached_property
    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """What spans.json holds, each entry with the words that name it in an error."""
        path = self.folder / SPANS
        if not path.exists():
            return []
        try:
            content = json.loads(text_of(path))
        except json.JSONDecodeError as error:
            raise EspalierError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
        if not isinstance(content, list):
            raise EspalierError(f"{path}: not a list; write [{{…}}, …], an entry for each pair")
        named = []
        for number, entry in enumerate(content, start=1):
            if not is_entry(entry):
                raise EspalierError(
                    f'{path}: entry {number} is not {{"query_id": text, "doc_id": text, '
                    '"char_spans": [[start, end], …]} with whole numbers; correct it'
                )
            where = f"{path}: query '{entry['query_id']}', document '{entry['doc_id']}'"
            named.append((where, entry))
        return named

    @cached_property
    def splits(self) -> dict[str, str]:
        """The split of each query that is in one."""
        stated = {query_id: split for query_id, (_, split) in self.queries.items() if split}
        if not stated:
            entries = [entry for _, entry in self.entries if "split" in entry]
            stated = {entry["query_id"]: str(entry["split"]) for entry in entries}
        if not stated:
            return self.drawn_splits()
        for query_id in self.queries:
            if query_id not in stated:
                raise EspalierError(
                    f"{self.folder / QUERIES}: query '{query_id}' is in no split, others are; add "
                    "its split"
                )
        return stated

    def drawn_splits(self) -> dict[str, str]:
        """Splits by the first relevant document; queries without one are in none."""
        relevant: dict[str, str] = {}
        for judgment in self.qrels.values():
            if judgment.relevance > 0:
                relevant.setdefault(judgment.query_id, judgment.doc_id)
        splits = divided(Counter(relevant.values()))
        return {query_id: splits[doc_id] for query_id, doc_id in relevant.items()}

    def chosen(self, split: str | None) -> list[str]:
        """The query_ids of a split, in the file's order; of all queries for None."""
        if split is None:
            return list(self.queries)
        splits = self.splits
        chosen = [query_id for query_id in self.queries if splits.get(query_id) == split]
        if not chosen:
            counts = ", ".join(f"{s} ({n})" for s, n in sorted(Counter(splits.values()).items()))
            raise EspalierError(
                f"collection 'folder:{self.folder}:{split}': no query is in that split; there are "
                f"{counts}"
            )
        return chosen

    def scoreddocs(self) -> Iterator[GenericScoredDoc]:
        """First-stage results in the file's order."""
        for place, line in lines(self.folder / RUN):
            fields = line.split()
            if len(fields) != 6:
                raise wrong_columns(place, len(fields), "6 (query_id Q0 doc_id rank score tag)")
            self.check_pair(place, fields[0], fields[2])
            try:
                score = float(fields[4])
            except ValueError:
                score = math.nan
            if not math.isfinite(score):
                raise EspalierError(f"{place}: score '{fields[4]}' is no number; correct it")
            yield GenericScoredDoc(fields[0], fields[2], score)

    def check_pair(self, where: str, query_id: str, doc_id: str) -> None:
        """Refuse ids that the other files do not have."""
        if query_id not in self.queries:
            raise EspalierError(f"{where}: query_id '{query_id}' is not in {QUERIES}; add it there")
        if doc_id not in self.lengths:
            raise EspalierError(f"{where}: doc_id '{doc_id}' is not in {DOCS}; add it there")


def is_entry(entry: Any) -> bool:
    """Whether an entry of spans.json has what it needs, in the right types."""
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in ("query_id", "doc_id"))
        and isinstance(entry.get("char_spans"), list)
        and all(
            isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)
            for span in entry["char_spans"]
        )
    )


def table(path: Path, key: str, columns: str) -> Iterator[list[str]]:
    """The fields of each line of a table of two or three columns, the first of which is its key.

    All lines have as many columns as the first; `columns` says what three would be, the one in
    the middle (documents) or the last (queries) may be left out.
    """
    expected = 0
    seen: set[str] = set()
    for place, line in lines(path):
        fields = line.split("\t")
        if len(fields) not in (2, 3):
            raise wrong_columns(place, len(fields), f"2 or 3 ({columns})")
        expected = expected or len(fields)
        if len(fields) != expected:
            raise wrong_columns(place, len(fields), f"the {expected} that other lines have")
        if fields[0] in seen:
            raise EspalierError(f"{place}: {key} '{fields[0]}' twice; give one another id")
        seen.add(fields[0])
        yield fields


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file without their ends, with `file:number`; empty lines are no lines."""
    number = 0
    try:
        # Only \n ends a line: texts may hold other characters that end lines elsewhere.
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield f"{path}:{number}", line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise EspalierError(f"{path}:{number + 1}: not UTF-8; convert the file") from error


def text_of(path: Path) -> str:
    """A whole file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EspalierError(f"{path}: not UTF-8; convert the file") from error


def wrong_columns(place: str, found: int, expected: str) -> EspalierError:
    """The error for a line with too few or too many columns."""
    return EspalierError(f"{place}: {found} columns in place of {expected}; correct this line")
