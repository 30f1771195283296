"""What is trained on and what is re-ranked: pairs of query and document.

'One positive document (judged) and one negative from the top 100 documents (not judged)';
negatives come from BM25's candidates, positives from the judgments, whether or not BM25 has
found them.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from espalier.errors import EspalierError


def draw(
    query_ids: list[str],
    qrels: pd.DataFrame,
    run: pd.DataFrame,
    *,
    negatives: int,
    depth: int,
    seed: int,
) -> pd.DataFrame:
    """Training instances: query_id, positive, negative.

    Each judged relevant document of a query is paired with `negatives` unjudged documents of the
    query's first `depth` (all of them where it has fewer), drawn without replacement. Queries
    without relevant documents or without unjudged candidates give no instance.
    """
    relevant = qrels[qrels["relevance"] > 0].groupby("query_id")["doc_id"].agg(list).to_dict()
    judged = qrels.groupby("query_id")["doc_id"].agg(set).to_dict()
    found = run[run["rank"] <= depth].groupby("query_id")["doc_id"].agg(list).to_dict()
    generator = np.random.default_rng(seed)
    rows = []
    for query_id in query_ids:
        known = judged.get(query_id, set())
        pool = [doc_id for doc_id in found.get(query_id, []) if doc_id not in known]
        for positive in relevant.get(query_id, []):
            chosen = generator.permutation(len(pool))[:negatives]
            rows += [(query_id, positive, pool[i]) for i in chosen]
    return pd.DataFrame(rows, columns=["query_id", "positive", "negative"], dtype=str)


def candidates(qrels: pd.DataFrame, run: pd.DataFrame, depth: int) -> pd.DataFrame:
    """The first `depth` of a run: query_id, doc_id, rank, relevance (0 where unjudged)."""
    top = run.loc[run["rank"] <= depth, ["query_id", "doc_id", "rank"]]
    joined = top.merge(qrels, on=["query_id", "doc_id"], how="left")
    return joined.assign(relevance=joined["relevance"].fillna(0).astype("int64"))


def missed(qrels: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Judged relevant documents outside the candidates, as further rows with rank 0.

    Segments are selected in them too, though they are not ranked.
    """
    relevant = qrels[qrels["relevance"] > 0]
    joined = relevant.merge(candidates[["query_id", "doc_id", "rank"]], how="left")
    outside = joined[joined["rank"].isna()]
    return outside.assign(rank=0)[["query_id", "doc_id", "rank", "relevance"]]


def held(table: pd.DataFrame, columns: list[str], doc_ids: set[str]) -> pd.DataFrame:
    """The rows whose documents the collection has: judgments can name documents outside it."""
    return table[table[columns].isin(doc_ids).all(axis=1)].reset_index(drop=True)


def positives(table: pd.DataFrame) -> pd.DataFrame:
    """query_id, doc_id of the instances' relevant documents, once."""
    named = table[["query_id", "positive"]].set_axis(["query_id", "doc_id"], axis=1)
    return named.drop_duplicates(ignore_index=True)


def learnable(table: pd.DataFrame, gold: pd.DataFrame, leading: int) -> tuple[int, int, int]:
    """Positives; those of which a segment is known to be right; those of which a leading one is.

    GoldP is trained on the second, selection can find the third. `gold` has query_id, doc_id,
    segment, the first right one.
    """
    known = positives(table)
    aligned = known.merge(gold, on=["query_id", "doc_id"])
    return len(known), len(aligned), int((aligned["segment"] < leading).sum())


def check(tables: Mapping[str, pd.DataFrame], docs: str) -> None:
    """EspalierError when nothing can be trained on, picked by or re-ranked."""
    remedies = {
        "instances": "no training query has both a document judged relevant and an unjudged "
        "candidate; raise config key 'best.instances.depth' or the view's max_queries",
        "dev": "no dev query has a candidate, and training stops by them; name another dev split",
        "test": "no test query has a candidate or a relevant document; name another test split",
    }
    for name, remedy in remedies.items():
        if tables[name].empty:
            raise EspalierError(f"collection {docs}: {remedy}")
