"""The runs of BM25 over a view: candidates for re-rankers, and a baseline."""

from pathlib import Path

from espalier.collections.bm25 import Bm25
from espalier.collections.view import View
from espalier.evaluation import runs


def write_runs(folder: Path, view: View, *, k1: float, b: float, depth: int) -> dict[str, int]:
    """Write `<split>/bm25.run.gz` for every split of a view.

    Returns, for each split, its queries and those for which nothing was found.
    """
    index = Bm25(view.docs(), k1=k1, b=b)
    method = {"name": "BM25", "variant": "lucene", "k1": k1, "b": b, "depth": depth}
    metadata = {"method": {"automatic": True, "retrieval": [method]}}
    counts = {}
    for split in view.manifest["splits"]:
        queries = view.queries(split)
        run = index.retrieve(queries, depth)
        runs.write(folder / split / "bm25.run.gz", run, metadata)
        counts[f"{split}_queries"] = len(queries)
        counts[f"{split}_queries_without_results"] = len(queries) - run["query_id"].nunique()
    return counts
