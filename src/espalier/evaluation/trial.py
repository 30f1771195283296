"""What one paper's runs are measured on: a split's queries, their judgments, the measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import judgments, measures, runs

SPLIT = "test"


@dataclass(frozen=True)
class Trial:
    """A split's queries and an evaluator for their judgments."""

    split_id: str
    queries: Mapping[str, str]
    """Text by query_id."""
    level: int
    """From which grade on binary measures take a document as relevant."""
    evaluator: measures.Evaluator
    collection: Mapping[str, Any]
    """For the summary: the documents and the split."""
    qrels: str
    """The file whose judgments count, or the split whose own do."""
    counts: Mapping[str, int]
    """For the summary: queries and judgments that count, and those left out."""

    def missing(self, path: Path, run: pd.DataFrame) -> int:
        """How many judged queries have no result in a run; EspalierError when none has any."""
        count = self.evaluator.missing(run)
        if count == len(self.evaluator.judged):
            raise EspalierError(
                f"{path}:1: no query of this run has a judgment in {self.qrels}; "
                "name judgments of its queries under 'evaluation.own_qrels'"
            )
        return count

    def values(self, replicates: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Each measure per judged query, averaged over runs: float64[queries, measures]."""
        table = measures.averaged([self.evaluator.per_query(run) for run in replicates])
        wide = table.pivot_table(index="query_id", columns="measure", values="value", sort=False)
        return wide.sort_index()


def prepare(folder: Path, qrels_files: Sequence[Path], settings: Mapping[str, Any]) -> Trial:
    """The trial on a view's test split.

    `qrels_files` holds at most one file, whose judgments take the place of the split's own.
    """
    view = View(folder)
    manifest, queries = view.manifest, view.queries(SPLIT)
    split = manifest["splits"][SPLIT]
    qrels, strange = view.qrels(SPLIT), 0
    if qrels_files:
        (path,) = qrels_files
        qrels = judgments.read(path)
        strange = runs.strangers(path, qrels, queries, split["id"])
        qrels = qrels[qrels["query_id"].isin(list(queries))]
    level = measures.level_of(split["id"], settings["relevance_levels"])
    collection = {
        "docs": manifest["docs"],
        "docs_count": manifest["docs_count"],
        "split": split["id"],
    }
    left_out = measures.unjudged(queries, qrels) + split["unanswerable"]
    counts = {
        "judged": int(qrels["query_id"].nunique()),
        "judgments": len(qrels),
        "unjudged": left_out,
        "not_sampled": split["not_sampled"],
        "judged_elsewhere": strange,
    }
    evaluator = measures.Evaluator(qrels, measures.choose(settings["measures"], level))
    source = qrels_files[0].name if qrels_files else split["id"]
    return Trial(split["id"], queries, level, evaluator, collection, source, counts)
