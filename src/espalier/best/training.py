"""The paper's training: on chosen segments, and θ(0) and θ(1) at once.

Kim et al. 2021, section 'Proposed method'. S holds instances (q, d⁺, d⁻); d_j is the j-th leading
segment of d; f_θ is the ranker and l the hinge.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from espalier.best.inputs import Input, Pieces
from espalier.best.learner import Learner
from espalier.best.selection import select


class Instance(NamedTuple):
    """One of S: a query's word pieces, and those of its two documents' leading segments."""

    query: Pieces
    positive: list[Pieces]
    negative: list[Pieces]


class Choice(NamedTuple):
    """An instance with the segments that it is trained on: j of d⁺ and k of d⁻."""

    instance: Instance
    positive: int
    negative: int


def train_on(learner: Learner, choices: Sequence[Choice], seed: int) -> None:
    """L(θ, I) = Σ_S l(f_θ(q, d⁺_j), f_θ(q, d⁻_k)): equation 2; with j = k = 0, equation 1."""
    for batch in batches([learner], len(choices), seed):
        update(learner, [choices[i] for i in batch])


def train_jointly(
    theta0: Learner,
    theta1: Learner,
    instances: Sequence[Instance],
    seed: int,
    tokens: int,
    *,
    sampled: bool,
) -> None:
    """θ(0) on all leading segments, and θ(1) on those that θ(0) scores highest meanwhile.

    Both go through the same batches. `sampled` trains θ(0) on one j of each instance, drawn anew
    in each epoch, instead of on all; `tokens` bounds the batches of the selection.
    """
    generator = np.random.default_rng(seed)
    for batch in batches([theta0, theta1], len(instances), seed):
        picked = [instances[i] for i in batch]

        # i(1) = argmax_j f_θ(0)(q, d_j) (equation 4), by θ(0) as it stands.
        if not theta1.done:
            update(theta1, selected(theta0, picked, tokens))

        # L(θ(0)) = Σ_S Σ_j l(f_θ(0)(q, d⁺_j), f_θ(0)(q, d⁻_j)) (equation 3).
        if not theta0.done:
            update(theta0, same_numbers(picked, generator if sampled else None))


def update(learner: Learner, choices: Sequence[Choice]) -> None:
    """One step on the chosen segments."""
    learner.step(
        [Input(chosen.query, chosen.positive[j]) for chosen, j, _ in choices],
        [Input(chosen.query, chosen.negative[k]) for chosen, _, k in choices],
    )


def batches(learners: Sequence[Learner], size: int, seed: int) -> Iterator[list[int]]:
    """Shuffled batches of numbers below `size`, epoch by epoch until every learner is done."""
    generator = np.random.default_rng(seed)
    names = " and ".join(learner.system for learner in learners)
    batch_size = learners[0].schedule.batch_size
    while going := [learner for learner in learners if not learner.done]:
        order = generator.permutation(size).tolist()
        name = f"{names}, epoch {len(going[0].history)}"
        for start in tqdm(range(0, size, batch_size), desc=name, unit="step", mininterval=2):
            yield order[start : start + batch_size]
        for learner in going:
            learner.end_epoch()


def selected(theta0: Learner, instances: Sequence[Instance], tokens: int) -> list[Choice]:
    """Each document's segment that θ(0) scores highest, without dropout."""
    queries = [instance.query for instance in instances]
    documents = [i.positive for i in instances] + [i.negative for i in instances]
    best = select(theta0.ranker, theta0.layout, queries * 2, documents, tokens).tolist()
    return list(map(Choice, instances, best[: len(instances)], best[len(instances) :]))


def same_numbers(
    instances: Sequence[Instance], generator: np.random.Generator | None
) -> list[Choice]:
    """Pairs of segments of one number, as far as both documents go; one of them if drawn."""
    choices = []
    for instance in instances:
        shared = min(len(instance.positive), len(instance.negative))
        numbers = range(shared) if generator is None else [int(generator.integers(shared))]
        choices += [Choice(instance, j, j) for j in numbers]
    return choices
