"""First-stage runs of a view: candidates for re-rankers, hard negatives, and a baseline.

`<split>/bm25.run.gz` where they are BM25's, `<split>/scoreddocs.run.gz` where they come with the
collection, as the official first hundred of MS MARCO's documents do.
"""

from array import array
from pathlib import Path

import numpy as np
import pandas as pd

from espalier.collections import access
from espalier.collections.bm25 import Bm25
from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import runs


def write_runs(folder: Path, view: View, *, k1: float, b: float, depth: int) -> dict[str, int]:
    """Write BM25's run for every split of a view.

    Returns, for each split, its queries and those for which nothing was found.
    """
    index = Bm25(view.docs(), k1=k1, b=b)
    method = {"name": "BM25", "variant": "lucene", "k1": k1, "b": b, "depth": depth}
    counts: dict[str, int] = {}
    for split in view.manifest["splits"]:
        queries = view.queries(split)
        run = index.retrieve(queries, depth)
        counts |= write(folder / split / f"bm25{runs.SUFFIX}", run, method, len(queries))
    return counts


def copy_runs(folder: Path, view: View) -> dict[str, int]:
    """Write the run that every split's collection comes with, as `write_runs` does BM25's."""
    counts: dict[str, int] = {}
    for split, about in view.manifest["splits"].items():
        queries = view.queries(split)
        run = run_of(about["id"], queries)
        method = {"name": "scoreddocs", "collection": about["id"]}
        counts |= write(folder / split / f"scoreddocs{runs.SUFFIX}", run, method, len(queries))
    return counts


def run_of(dataset_id: str, queries: dict[str, str]) -> pd.DataFrame:
    """A dataset's scoreddocs for some queries: query_id, doc_id (str), score (float64)."""
    # A training split has tens of millions of rows: each id is kept once, and columns, not rows.
    names: dict[str, str] = {}
    query_ids: list[str] = []
    doc_ids: list[str] = []
    scores = array("d")
    for query_id, doc_id, score in access.scoreddocs(dataset_id):
        if query_id in queries:
            query_ids.append(names.setdefault(query_id, query_id))
            doc_ids.append(names.setdefault(doc_id, doc_id))
            scores.append(score)
    return pd.DataFrame({"query_id": query_ids, "doc_id": doc_ids, "score": np.asarray(scores)})


def write(path: Path, run: pd.DataFrame, method: dict[str, object], queries: int) -> dict[str, int]:
    """Write one split's run; returns the counts of that split."""
    runs.write(path, run, {"method": {"automatic": True, "retrieval": [method]}})
    split = path.parent.name
    return {
        f"{split}_queries": queries,
        f"{split}_queries_without_results": queries - run["query_id"].nunique(),
    }


def read(folder: Path, split: str) -> pd.DataFrame:
    """The candidates of a split: query_id, doc_id (str), rank (int64), score (float32)."""
    found = list(runs.in_folder(folder / split).values())
    if len(found) != 1:
        raise EspalierError(
            f"{folder / split}: {len(found)} runs in place of one; delete the folder, run the chain"
        )
    return runs.read(found[0])
