"""Judgments (qrels) of one's own, in TREC's format."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from espalier.errors import EspalierError
from espalier.evaluation import runs

QRELS_LINE = re.compile(r"\s*\S+\s+\S+\s+\S+\s+-?\d{1,9}\s*")


def read(path: Path) -> pd.DataFrame:
    """Read a qrels file, plain or gzip: query_id, doc_id (str), relevance (int64).

    Row i is line i + 1. Raises EspalierError naming file and line for what is not a qrels line,
    a document that is judged twice for a query, and a file without judgments.
    """
    lines = runs.lines_of(path)
    if not lines:
        raise EspalierError(f"{path}:1: the file holds no judgments; name another or none")
    for number, line in enumerate(lines, start=1):
        if not QRELS_LINE.fullmatch(line):
            raise EspalierError(
                f"{path}:{number}: not a TREC qrels line (query_id 0 doc_id relevance, a whole "
                "number); correct it or leave it out"
            )
    fields = "".join(lines).split()
    qrels = pd.DataFrame(
        {
            "query_id": fields[0::4],
            "doc_id": fields[2::4],
            "relevance": np.array(fields[3::4], dtype="int64"),
        }
    ).astype({"query_id": str, "doc_id": str})
    runs.refuse_repeated(path, qrels)
    return qrels
