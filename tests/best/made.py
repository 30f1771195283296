"""Training on made-up word pieces: the answer is the query's own word, in one known segment."""

import hashlib
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from espalier.best import ranker, store
from espalier.best.dev import Dev
from espalier.best.inputs import Layout
from espalier.best.learner import Learner, Schedule
from espalier.best.training import Instance
from espalier.models import devices
from espalier.models.checkpoints import Checkpoint

LAYOUT = Layout([2], [3], [3], 0)
WORDS = np.arange(5, 70)
SEGMENTS = 4
SEED = 7

TRAINING: dict[str, Any] = {
    "loss": "hinge", "learning_rate": 3e-3, "warmup": 5, "batch_size": 16, "epochs": 4,
    "patience": 4, "accumulate": 1, "bf16": False, "gradient_checkpointing": False,
}  # fmt: skip


def pieces(*ids: int) -> np.ndarray:
    return np.array(ids, dtype=np.int32)


def instances(size: int, seed: int, negatives: int = 1) -> tuple[list[Instance], list[int]]:
    """Instances, and where in the positive the query's word stands: never in the first segment."""
    generator = np.random.default_rng(seed)
    made, answers = [], []
    for _ in range(size):
        word, *others = generator.permutation(WORDS).tolist()
        rest = itertools.cycle(others)
        documents = [
            [pieces(*itertools.islice(rest, 3)) for _ in range(SEGMENTS)]
            for _ in range(1 + negatives)
        ]
        answer = int(generator.integers(1, SEGMENTS))
        documents[0][answer][0] = word
        made.append(Instance(pieces(word), documents[0], documents[1:]))
        answers.append(answer)
    return made, answers


def dev_of(made: list[Instance]) -> Dev:
    """A dev split with two candidates a query."""
    table = pd.DataFrame(
        [(f"q{i}", f"{side}{i}", rank, int(side == "p"))
         for i in range(len(made)) for rank, side in enumerate("np", start=1)],
        columns=["query_id", "doc_id", "rank", "relevance"],
    )  # fmt: skip
    documents = {f"p{i}": each.positive for i, each in enumerate(made)}
    documents |= {f"n{i}": each.negatives[0] for i, each in enumerate(made)}
    queries = {f"q{i}": each.query for i, each in enumerate(made)}
    return Dev.of(queries, table, documents, LAYOUT, 4096)


def learner(checkpoint: Path, dev_queries: int = 40, **changed: Any) -> Learner:
    """A newly initialised one, always with the same weights."""
    devices.seeded(SEED, 1)
    schedule = Schedule(**(TRAINING | changed))
    dev = dev_of(instances(dev_queries, 99)[0])
    return Learner("x", ranker.new(checkpoint, mark=True), LAYOUT, dev, schedule, SEED)


def unkept(folder: Path) -> Checkpoint:
    """A checkpoint that is never due."""
    return Checkpoint(folder / "none", "key", math.inf)


def digest(trained: Learner, folder: Path) -> str:
    """SHA-256 of the weights of a learner's best state, as they are saved."""
    ranker.save(folder, trained.finished())
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def write_store(folder: Path, size: int, negatives: int = 1, answered: float = 0.5) -> Path:
    """A store of made-up instances, whose test queries are also its dev queries."""
    made, answers = instances(size, 1, negatives)
    documents = {f"p{i}": each.positive for i, each in enumerate(made)}
    documents |= {
        f"n{i}-{k}": n for i, each in enumerate(made) for k, n in enumerate(each.negatives)
    }
    segments = pd.DataFrame(
        [(doc, number, number * 10, number * 10 + 10, segment)
         for doc, parts in documents.items() for number, segment in enumerate(parts)],
        columns=store.COLUMNS,
    )  # fmt: skip
    gold = segments.merge(
        pd.DataFrame({"doc_id": [f"p{i}" for i in range(size)], "segment": answers})
    ).head(int(size * answered))
    drawn = [(f"q{i}", f"p{i}", f"n{i}-{k}") for i in range(size) for k in range(negatives)]
    ranked = [
        (f"q{i}", doc, rank, int(rank == 2))
        for i in range(10) for rank, doc in enumerate((f"n{i}-0", f"p{i}"), start=1)
    ]  # fmt: skip
    queries = [(s, f"q{i}", each.query) for s in ("train", "dev", "test")
               for i, each in enumerate(made)]  # fmt: skip
    pairs = pd.DataFrame(ranked, columns=["query_id", "doc_id", "rank", "relevance"])
    store.write(
        folder,
        LAYOUT,
        {
            "queries": pd.DataFrame(queries, columns=["split", "query_id", "pieces"]),
            "training": segments,
            "inference": segments,
            "gold": gold.assign(query_id=gold["doc_id"].str.replace("p", "q")),
            "instances": pd.DataFrame(drawn, columns=["query_id", "positive", "negative"]),
            "dev": pairs,
            "test": pairs,
        },
    )
    return folder


def settings(checkpoint: Path, **training: Any) -> dict[str, Any]:
    """What the stages read."""
    return {
        "seed": SEED,
        "models": {"ranker": f"folder:{checkpoint}"},
        "best": {
            "batch_tokens": 4096,
            "checkpoint_seconds": 0,
            "shards": 1,
            "ranker": {"exact_match_marking": True},
            "training": {**TRAINING, "theta0": "sampled", **training},
            "selection": {"int8": False},
            "reranking": {"depth": 2},
        },
    }
