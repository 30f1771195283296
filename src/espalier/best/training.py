"""The paper's training: on chosen segments, and θ(0) and θ(1) at once.

Kim et al. 2021, section 'Proposed method'. S holds instances (q, d⁺, d⁻); d_j is the j-th leading
segment of d; f_θ is the ranker and l the loss. A training that was cut off goes on from its
checkpoint and ends as if it had not been.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from espalier.best.inputs import Input, Pieces
from espalier.best.learner import Example, Learner
from espalier.best.selection import select
from espalier.models import parallel
from espalier.models.checkpoints import Checkpoint


class Instance(NamedTuple):
    """One of S: a query's word pieces, and those of its documents' leading segments."""

    query: Pieces
    positive: list[Pieces]
    negatives: list[list[Pieces]]


def train_on(
    learner: Learner, examples: Sequence[Example], seed: int, checkpoint: Checkpoint
) -> None:
    """L(θ, I) = Σ_S l(f_θ(q, d⁺_j), f_θ(q, d⁻_k)): equation 2; with j = k = 0, equation 1."""
    for batch in batches([learner], len(examples), seed, checkpoint):
        learner.step([examples[i] for i in batch])


def train_jointly(
    theta0: Learner,
    theta1: Learner,
    instances: Sequence[Instance],
    seed: int,
    tokens: int,
    checkpoint: Checkpoint,
    *,
    sampled: bool,
) -> None:
    """θ(0) on all leading segments, and θ(1) on those that θ(0) scores highest meanwhile.

    Both go through the same batches. `sampled` trains θ(0) on one j of each instance, drawn anew
    in each epoch, instead of on all; `tokens` bounds the batches of the selection.
    """
    spread_out = paired if theta0.schedule.loss == "hinge" else unpaired
    for batch in batches([theta0, theta1], len(instances), seed, checkpoint):
        picked = [instances[i] for i in batch]

        # i(1) = argmax_j f_θ(0)(q, d_j) (equation 4), by θ(0) as it stands.
        if not theta1.done:
            theta1.step(selected(theta0, picked, tokens))

        # L(θ(0)) = Σ_S Σ_j l(f_θ(0)(q, d⁺_j), f_θ(0)(q, d⁻_j)) (equation 3).
        if not theta0.done:
            epoch = theta0.epoch
            generators = [np.random.default_rng([seed, epoch, i]) for i in batch]
            drawn = generators if sampled else [None] * len(batch)
            theta0.step(list(map(spread_out, picked, drawn)))


def batches(
    learners: Sequence[Learner], size: int, seed: int, checkpoint: Checkpoint
) -> Iterator[Sequence[int]]:
    """Shuffled batches of numbers below `size`, epoch by epoch until every learner is done.

    Of each batch this process's part. The order depends on seed and epoch alone, so learners,
    and how much of the epoch they have seen, are all that the checkpoint holds.
    """
    done = resumed(learners, checkpoint)
    names = " and ".join(learner.system for learner in learners)
    batch_size = learners[0].schedule.batch_size
    while going := [learner for learner in learners if not learner.done]:
        epoch = going[0].epoch
        order = np.random.default_rng([seed, epoch]).permutation(size).tolist()
        for start in tqdm(
            range(done, size, batch_size), f"{names}, epoch {epoch}",
            -(-size // batch_size), initial=-(-done // batch_size), unit="step", mininterval=2,
        ):  # fmt: skip
            stop = min(start + batch_size, size)
            yield parallel.share(order[start:stop])
            keep(learners, stop, checkpoint)
        done = 0
        for learner in going:
            learner.end_epoch()
        keep(learners, done, checkpoint)


def resumed(learners: Sequence[Learner], checkpoint: Checkpoint) -> int:
    """Bring learners to where the checkpoint has them: how much of the epoch they have seen."""
    found = checkpoint.load()
    if found is None:
        return 0
    for learner, saved in zip(learners, found["learners"], strict=True):
        learner.restore(saved)
    return int(found["done"])


def keep(learners: Sequence[Learner], done: int, checkpoint: Checkpoint) -> None:
    """Save, when it is time to."""
    if parallel.rank() == 0 and checkpoint.due:
        checkpoint.save({"learners": [learner.saved() for learner in learners], "done": done})


def selected(theta0: Learner, instances: Sequence[Instance], tokens: int) -> list[Example]:
    """Each document's segment that θ(0) scores highest, without dropout."""
    documents = [[i.positive, *i.negatives] for i in instances]
    best = select(
        theta0.ranker,
        theta0.layout,
        [i.query for i, own in zip(instances, documents, strict=True) for _ in own],
        [document for own in documents for document in own],
        tokens,
    )
    numbers = iter(best.tolist())
    return [
        chosen(instance, list(islice(numbers, len(own))))
        for instance, own in zip(instances, documents, strict=True)
    ]


def chosen(instance: Instance, numbers: Sequence[int]) -> Example:
    """One segment of each document, by number, the positive's first."""
    first, *others = numbers
    negatives = zip(instance.negatives, others, strict=True)
    return Example(
        [Input(instance.query, instance.positive[first])],
        [Input(instance.query, negative[number]) for negative, number in negatives],
    )


def paired(instance: Instance, generator: np.random.Generator | None) -> Example:
    """Segments of one number in both documents, as far as both go; one number if it is drawn.

    For a pairwise loss: the instance has one negative. That equation 3 pairs segments of one
    number is our reading.
    """
    (negative,) = instance.negatives
    shared = min(len(instance.positive), len(negative))
    numbers = range(shared) if generator is None else [int(generator.integers(shared))]
    return Example(
        [Input(instance.query, instance.positive[j]) for j in numbers],
        [Input(instance.query, negative[j]) for j in numbers],
    )


def unpaired(instance: Instance, generator: np.random.Generator | None) -> Example:
    """All segments of all documents, or one drawn of each: for a pointwise loss."""

    def of(document: list[Pieces]) -> list[Input]:
        kept = document
        if generator is not None:
            kept = [document[int(generator.integers(len(document)))]]
        return [Input(instance.query, segment) for segment in kept]

    return Example(
        of(instance.positive), [pair for negative in instance.negatives for pair in of(negative)]
    )
