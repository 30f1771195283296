"""Training the encoder on triples: query, relevant document, hard negative.

The loss is ColBERT's pairwise softmax cross-entropy over (relevant, negative) (Khattab and
Zaharia, SIGIR 2020, section 3.3), plus the same over all documents of the batch, as in
ColBERTv2 (Santhanam et al., NAACL 2022, section 3.1). Hard negatives are documents that BM25
ranks high and nobody judged relevant: random ones are soon too easy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, pad
from tqdm import tqdm

from espalier.colbert.encoder import Encoder
from espalier.errors import EspalierError
from espalier.models import parallel
from espalier.models.checkpoints import Checkpoint
from espalier.models.devices import device


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
    checkpoint: Checkpoint,
    *,
    doc_maxlen: int,
    batch_size: int,
    accumulate: int,
    learning_rate: float,
    warmup: float,
    bf16: bool,
    gradient_checkpointing: bool,
) -> dict[str, float]:
    """Fit the encoder in place, one step per `batch_size` triples.

    Documents are cut at `doc_maxlen` tokens here, which may be fewer than when they are indexed:
    shorter ones train faster. Triples with an empty document are left out. A step adds up the
    gradients of `accumulate` parts of its batch, each with its own documents as in-batch negatives;
    several processes share each part. The learning rate rises over the first `warmup` share of the
    steps, then falls to zero. Returns the number of steps and, each as a mean over the first and
    over the last tenth of them, the loss and the share of triples whose relevant document outscores
    the negative.

    Dropout stays off: one or two passes over the triples cannot overfit, and noise costs steps. So
    nothing is drawn on the way, and weights, optimizer and the losses so far are all that a killed
    training needs to end as if it had not been.
    """
    encoder.eval()
    if gradient_checkpointing:
        recompute_layers(encoder)
    tokens = shortened(encoder, docs, doc_maxlen)
    data = [t for t in data if len(tokens[t.positive]) and len(tokens[t.negative])]
    if not data:
        raise EspalierError("collections.training: all documents of the triples are empty")
    steps = -(-len(data) // batch_size)
    rising = max(1, round(warmup * steps))
    relevant = set(
        qrels.loc[qrels["relevance"] > 0, ["query_id", "doc_id"]].itertuples(index=False, name=None)
    )
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=learning_rate)
    losses, accuracies = resumed(checkpoint, encoder, optimizer)

    for step in tqdm(range(len(losses), steps), "train", steps, initial=len(losses), unit="step"):
        batch = data[step * batch_size : (step + 1) * batch_size]
        optimizer.zero_grad()
        told = torch.zeros(2, device=device())

        for part in split(batch, accumulate):
            own, scores = scored(encoder, part, queries, tokens, bf16)
            query = torch.arange(len(own), device=scores.device)
            diagonal = query + own.start
            pair = torch.stack([scores[query, diagonal], scores[query, diagonal + len(part)]], 1)

            # A document of the part that is relevant to a query by another triple is no negative.
            others = torch.from_numpy(also_relevant(part, relevant)[own.start : own.stop])
            masked = scores.masked_fill(others.to(scores.device), -torch.inf)
            entropies = cross_entropy(pair, torch.zeros_like(query), reduction="sum")
            entropies = entropies + cross_entropy(masked, diagonal, reduction="sum")
            (entropies / len(batch)).backward()  # type: ignore[no-untyped-call]

            outscored = (pair[:, 0] > pair[:, 1]).sum()
            told += torch.stack([entropies.detach(), outscored]) / len(batch)

        parallel.sum_gradients(encoder.parameters())
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        rate = min((step + 1) / rising, (steps - step) / max(1, steps - rising))
        optimizer.param_groups[0]["lr"] = rate * learning_rate
        optimizer.step()

        loss, accuracy = parallel.gathered(told[None]).sum(0).tolist()
        losses.append(loss)
        accuracies.append(accuracy)
        if parallel.rank() == 0 and checkpoint.due:
            kept = {"losses": losses, "accuracies": accuracies}
            parts = {"encoder": encoder.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoint.save({**kept, **parts})

    tenth = max(1, steps // 10)
    return {
        "steps": steps,
        "loss_start": float(np.mean(losses[:tenth])),
        "loss_end": float(np.mean(losses[-tenth:])),
        "accuracy_start": float(np.mean(accuracies[:tenth])),
        "accuracy_end": float(np.mean(accuracies[-tenth:])),
    }


def resumed(
    checkpoint: Checkpoint, encoder: Encoder, optimizer: torch.optim.Optimizer
) -> tuple[list[float], list[float]]:
    """Bring both to where the checkpoint has them; the loss and accuracy of each step so far."""
    found = checkpoint.load()
    if found is None:
        return [], []
    encoder.load_state_dict(found["encoder"])
    optimizer.load_state_dict(found["optimizer"])
    return found["losses"], found["accuracies"]


def recompute_layers(encoder: Encoder) -> None:
    """Keep each layer's input only, and compute the layer again on the way back."""
    encoder.trunk.activation_checkpointing_enable({"use_reentrant": False})
    for layer in encoder.trunk.encoder.layer:
        layer.training = True  # it is asked for this; the dropout inside stays off


def shortened(
    encoder: Encoder, docs: Mapping[str, str], longest: int
) -> dict[str, NDArray[np.int64]]:
    """Token ids of each document, int64[at most `longest`], its last still [SEP]."""
    layout = encoder.layout
    return {
        doc_id: ids if len(ids) <= longest else np.append(ids[: longest - 1], layout.sep)
        for doc_id, ids in zip(docs, layout.docs(list(docs.values())), strict=True)
    }


def split(batch: Sequence[Triple], parts: int) -> Iterator[Sequence[Triple]]:
    """Consecutive parts, as equal as can be; fewer when there are fewer triples."""
    size = -(-len(batch) // parts)
    for start in range(0, len(batch), size):
        yield batch[start : start + size]


def scored(
    encoder: Encoder,
    part: Sequence[Triple],
    queries: Mapping[str, str],
    tokens: Mapping[str, NDArray[np.int64]],
    bf16: bool,
) -> tuple[range, torch.Tensor]:
    """MaxSim of this process's queries with all documents of all processes.

    Which triples of the part are this process's, n of them, and float32[n, 2 x triples]: first the
    relevant documents, then the negatives.
    """
    shared = parallel.share(range(len(part)))
    own = range(shared[0], shared[-1] + 1) if shared else range(0)
    # All processes gather rows of one shape: where one has fewer triples, any other fills up.
    size = -(-len(part) // parallel.world())
    mine = [*part[own.start : own.stop], *part[: size - len(own)]]
    docs = [tokens[doc_id] for triple in mine for doc_id in (triple.positive, triple.negative)]
    all_docs = encoder.layout.padded(
        [tokens[t.positive] for t in part] + [tokens[t.negative] for t in part]
    )

    with torch.autocast(device().type, torch.bfloat16, enabled=bf16):
        query = encoder.of_queries(encoder.layout.queries([queries[t.query_id] for t in mine]))
        doc = encoder.of_docs(docs)
    missing = all_docs.shape[1] - doc.shape[1]
    doc = pad(doc.float(), (0, 0, 0, missing)).reshape(size, 2, *all_docs.shape[1:], -1)
    filled = torch.arange(size, device=doc.device) < len(own)
    doc = parallel.gathered(doc)[parallel.gathered(filled)].transpose(0, 1).flatten(0, 1)
    kept = torch.from_numpy(encoder.layout.kept(all_docs)).to(doc.device)
    return own, maxsim(query[: len(own)].float(), doc, kept)


def maxsim(query: torch.Tensor, doc: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Every query with every document, float32[queries, docs].

    `query` float32[queries, i, d], `doc` float32[docs, j, d], and which of its rows are `kept`,
    bool[docs, j].
    """
    similarity = torch.einsum("qid,njd->qnij", query, doc)
    best: torch.Tensor = similarity.masked_fill(~kept[None, :, None, :], -torch.inf).amax(-1)
    return best.sum(-1)


def also_relevant(part: Sequence[Triple], relevant: set[tuple[str, str]]) -> NDArray[np.bool_]:
    """bool[triples, 2 x triples]: relevant pairs of the part other than each query's own."""
    doc_ids = [t.positive for t in part] + [t.negative for t in part]
    found = np.array([[(t.query_id, doc_id) in relevant for doc_id in doc_ids] for t in part])
    np.fill_diagonal(found, False)
    return found
