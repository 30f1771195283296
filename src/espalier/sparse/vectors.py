"""Learned sparse vectors, encoded queries and predicted queries as others publish them.

Vectors: Anserini's JsonVectorCollection, one {"id": …, "contents": …, "vector": {term: weight}} a
line. Queries: lines of `query_id<TAB>terms`, a term written as often as it weighs, or JSON lines
like the vectors'. Predicted queries (docT5query): {"id": …, "predicted_queries": […]} a line.
Texts: Anserini's JsonCollection, {"id": …, "contents": …} a line.
Every file may be gzip (.gz), and a collection may be a folder of files.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
"""Endings of files of JSON lines."""


class Vector(NamedTuple):
    """A document's terms with their weights."""

    doc_id: str
    terms: list[str]
    weights: npt.NDArray[np.float32]
    """Positive and finite."""


def read(path: Path) -> Iterator[Vector]:
    """Vectors of a file, or of a folder's files in the order of their names, one at a time.

    Terms that weigh 0 are left out; documents without terms stay. Raises EspalierError naming
    file and line for bad JSON, a missing id or vector, and weights that are no numbers, negative,
    NaN or infinite.
    """
    for place, record in records(path):
        terms, weights = positive(record, np.dtype(np.float32), place)
        yield Vector(id_of(record, place), terms, weights)


def read_queries(path: Path) -> dict[str, dict[str, float]]:
    """Weights of each query's terms by query_id, in the file's order.

    Queries without terms stay. Raises EspalierError naming file and line as `read` does, for a
    line without a tab or a query_id, and for a query_id that occurs twice.
    """
    queries: dict[str, dict[str, float]] = {}
    asked = json_queries if path.name.endswith(SUFFIXES) else repeated_terms
    for place, query_id, weights in asked(path):
        if query_id in queries:
            raise EspalierError(
                f"{place}: query_id '{query_id}' occurs twice; every query_id must be distinct"
            )
        queries[query_id] = weights
    return queries


def read_expansions(path: Path) -> Iterator[tuple[str, str]]:
    """doc_id and predicted queries, joined by spaces, of a file or a folder's files.

    Raises EspalierError naming file and line for bad JSON, a missing id, and queries that are no
    list of strings.
    """
    for place, record in records(path):
        predicted = record.get("predicted_queries")
        if not isinstance(predicted, list) or not all(isinstance(q, str) for q in predicted):
            raise EspalierError(f"{place}: predicted_queries must be a list of strings")
        yield id_of(record, place), " ".join(predicted)


def read_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Id and text of the records of a file or a folder's files.

    Raises EspalierError naming file and line for bad JSON, a missing id, and contents that are no
    string.
    """
    for place, record in records(path):
        contents = record.get("contents")
        if not isinstance(contents, str):
            raise EspalierError(f"{place}: contents is missing; it must be a string")
        yield id_of(record, place), contents


def json_queries(path: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Place, query_id and weights of the queries in a file of JSON lines."""
    for place, record in records(path):
        terms, weights = positive(record, np.dtype(np.float64), place)
        yield place, id_of(record, place), dict(zip(terms, weights.tolist(), strict=True))


def repeated_terms(path: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Place, query_id and weights of queries whose terms are repeated."""
    for place, line in lines(path):
        query_id, tab, terms = line.partition("\t")
        if not tab or not query_id.strip():
            raise EspalierError(f"{place}: not 'query_id<TAB>terms'; write a query as that")
        counted = Counter(terms.split())
        yield place, query_id.strip(), {term: float(times) for term, times in counted.items()}


def records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of every line of a file or a folder's files."""
    for file in files(path):
        for place, line in lines(file):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise EspalierError(f"{place}: no JSON; write one object a line") from error
            if not isinstance(record, dict):
                raise EspalierError(f"{place}: no JSON object; write one object a line")
            yield place, record


def files(path: Path) -> list[Path]:
    """The file itself, or a folder's files of JSON lines in the order of their names."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not found:
        raise EspalierError(f"{path}: no files of JSON lines; put {', '.join(SUFFIXES)} there")
    return found


def lines(file: Path) -> Iterator[tuple[str, str]]:
    """Place ('file:number') and text of every line that is not blank."""
    opener = gzip.open if file.name.endswith(".gz") else open
    try:
        with opener(file, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                place = f"{file}:{number}"
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    raise EspalierError(f"{place}: no UTF-8; convert the file") from error
                if text.strip():
                    yield place, text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise EspalierError(f"{file}: truncated or damaged; get a whole copy") from error
    except OSError as error:
        raise EspalierError(f"{file}: cannot be read ({error.strerror}); check the path") from error


def id_of(record: dict[str, Any], place: str) -> str:
    """A record's id; some publishers write it as a number."""
    found = record.get("id")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise EspalierError(f"{place}: id is missing; it must be a string or a whole number")
    return str(found)


def positive(
    record: dict[str, Any], kind: np.dtype[Any], place: str
) -> tuple[list[str], npt.NDArray[Any]]:
    """A record's terms and weights of that dtype, those that weigh 0 left out."""
    vector = record.get("vector")
    if not isinstance(vector, dict):
        raise EspalierError(f"{place}: vector is missing; it must map terms to weights")
    # NaN compares as false, and bool is a kind of int.
    largest = float(np.finfo(kind).max)
    for term, weight in vector.items():
        if type(weight) not in (int, float) or not 0 <= weight <= largest:
            raise EspalierError(
                f"{place}: vector: term {term!r} weighs {weight!r}; weights must be numbers, "
                "finite and not negative"
            )
    weights = np.array(list(vector.values()), dtype=kind)
    present = weights > 0
    return list(compress(vector, present.tolist())), weights[present]
