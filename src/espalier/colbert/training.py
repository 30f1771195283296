"""Training the encoder on triples: query, relevant document, hard negative.

The loss is ColBERT's pairwise softmax cross-entropy over (relevant, negative) (Khattab and
Zaharia, SIGIR 2020, section 3.3), plus the same over all documents of the batch, as in
ColBERTv2 (Santhanam et al., NAACL 2022, section 3.1). Hard negatives are documents that BM25
ranks high and nobody judged relevant: random ones are soon too easy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from espalier.colbert.encoder import Encoder
from espalier.errors import EspalierError


class Triple(NamedTuple):
    """Three ids; the document ids index the training collection."""

    query_id: str
    positive: str
    negative: str


def triples(
    qrels: pd.DataFrame, run: pd.DataFrame, *, count: int, negatives: int, seed: int
) -> list[Triple]:
    """`count` triples: passes over all queries, each pass in an order of its own.

    The relevant document and the negative are drawn anew in each pass, the negative from the
    `negatives` best of `run` (columns query_id, doc_id, rank) without those judged relevant.
    Queries without either are left out; EspalierError when none is left.
    """
    judged = qrels[qrels["relevance"] > 0]
    positives = judged.groupby("query_id")["doc_id"].agg(list)
    pairs = judged[["query_id", "doc_id"]].assign(relevant=True)
    hard = run.merge(pairs, on=["query_id", "doc_id"], how="left")
    hard = hard[hard["relevant"].isna()].sort_values(["query_id", "rank"])
    negative = hard.groupby("query_id").head(negatives).groupby("query_id")["doc_id"].agg(list)
    queries = sorted(set(positives.index) & set(negative.index))
    if not queries:
        raise EspalierError(
            "collections.training: no query has both a relevant document and a BM25 result that "
            "is not relevant; name a larger training split"
        )
    rng = np.random.default_rng(seed)
    chosen: list[Triple] = []
    while len(chosen) < count:
        for i in rng.permutation(len(queries)):
            query = queries[i]
            drawn = (str(rng.choice(docs[query])) for docs in (positives, negative))
            chosen.append(Triple(query, *drawn))
    return chosen[:count]


def train(
    encoder: Encoder,
    data: Sequence[Triple],
    queries: Mapping[str, str],
    docs: Mapping[str, str],
    qrels: pd.DataFrame,
    *,
    doc_maxlen: int,
    batch_size: int,
    learning_rate: float,
    warmup: float,
) -> dict[str, float]:
    """Fit the encoder in place, one step per `batch_size` triples.

    Documents are cut at `doc_maxlen` tokens here, which may be fewer than when they are indexed:
    shorter ones train faster. Triples with an empty document are left out. The learning rate
    rises over the first `warmup` share of the steps, then falls to zero.
    Returns the number of steps and, each as a mean over the first and over the last tenth of
    them, the loss and the share of triples whose relevant document outscores the negative.
    Dropout stays off: one or two passes over the triples cannot overfit, and noise costs steps.
    """
    encoder.eval()
    tokens = shortened(encoder, docs, doc_maxlen)
    data = [t for t in data if len(tokens[t.positive]) and len(tokens[t.negative])]
    if not data:
        raise EspalierError("collections.training: all documents of the triples are empty")
    steps = -(-len(data) // batch_size)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=learning_rate)
    rising = max(1, round(warmup * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
    )
    relevant = set(
        qrels.loc[qrels["relevance"] > 0, ["query_id", "doc_id"]].itertuples(index=False, name=None)
    )
    losses, accuracies = [], []

    for batch in tqdm(batches(data, batch_size), total=steps, desc="train", unit="step"):
        query_ids = encoder.layout.queries([queries[triple.query_id] for triple in batch])
        doc_ids = [triple.positive for triple in batch] + [triple.negative for triple in batch]

        scores = all_pairs(encoder, query_ids, [tokens[doc_id] for doc_id in doc_ids])
        diagonal = torch.arange(len(batch), device=scores.device)
        pair = torch.stack([scores[diagonal, diagonal], scores[diagonal, diagonal + len(batch)]], 1)

        # A document of the batch that is relevant to a query by another triple is no negative.
        others = torch.from_numpy(also_relevant(batch, doc_ids, relevant)).to(scores.device)
        masked = scores.masked_fill(others, -torch.inf)
        loss = cross_entropy(pair, torch.zeros_like(diagonal)) + cross_entropy(masked, diagonal)

        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()

        losses.append(float(loss.detach()))
        accuracies.append(float((pair[:, 0] > pair[:, 1]).float().mean()))

    tenth = max(1, steps // 10)
    return {
        "steps": steps,
        "loss_start": float(np.mean(losses[:tenth])),
        "loss_end": float(np.mean(losses[-tenth:])),
        "accuracy_start": float(np.mean(accuracies[:tenth])),
        "accuracy_end": float(np.mean(accuracies[-tenth:])),
    }


def shortened(
    encoder: Encoder, docs: Mapping[str, str], longest: int
) -> dict[str, NDArray[np.int64]]:
    """Token ids of each document, int64[at most `longest`], its last still [SEP]."""
    layout = encoder.layout
    return {
        doc_id: ids if len(ids) <= longest else np.append(ids[: longest - 1], layout.sep)
        for doc_id, ids in zip(docs, layout.docs(list(docs.values())), strict=True)
    }


def batches(data: Sequence[Triple], size: int) -> Iterator[Sequence[Triple]]:
    """Consecutive triples."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def all_pairs(
    encoder: Encoder, queries: NDArray[np.int64], docs: Sequence[NDArray[np.int64]]
) -> torch.Tensor:
    """MaxSim of every query with every document of the batch, float32[queries, docs]."""
    query: Any = encoder.of_queries(queries)
    doc: Any = encoder.of_docs(docs)
    kept = encoder.layout.kept(encoder.layout.padded(docs))
    absent = torch.from_numpy(~kept).to(doc.device)
    similarity = torch.einsum("qid,njd->qnij", query, doc)
    best: torch.Tensor = similarity.masked_fill(absent[None, :, None, :], -torch.inf).amax(-1)
    return best.sum(-1)


def also_relevant(
    batch: Sequence[Triple], doc_ids: Sequence[str], relevant: set[tuple[str, str]]
) -> NDArray[np.bool_]:
    """bool[queries, docs]: relevant pairs of the batch other than each query's own."""
    found = np.array([[(t.query_id, doc_id) in relevant for doc_id in doc_ids] for t in batch])
    np.fill_diagonal(found, False)
    return found
