"""From segment scores to document scores."""

import pandas as pd

AGGREGATIONS = {"first": "first", "max": "max"}
"""FirstP takes the first segment's score, MaxP the highest (Dai and Callan, SIGIR 2019)."""


def aggregate(scores: pd.DataFrame, how: str) -> pd.DataFrame:
    """A run (query_id, doc_id, score) from the segments' scores.

    `scores` has query_id, doc_id, segment, score, the segments of a document in order; `how` is
    a key of `AGGREGATIONS`.
    """
    documents = scores.groupby(["query_id", "doc_id"], sort=False)["score"]
    return documents.agg(AGGREGATIONS[how]).reset_index()
