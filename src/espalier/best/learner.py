"""A ranker while it is trained: its optimizer, its history, its best state on the dev queries."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from espalier.best.dev import Dev
from espalier.best.inputs import Input, Layout
from espalier.best.ranker import Ranker
from espalier.best.scoring import on_device
from espalier.errors import EspalierError
from espalier.models import parallel

MAX_GRADIENT = 1.0
"""Norm to which gradients are clipped."""


@dataclass(frozen=True)
class Schedule:
    """How fast and how long: part of the config's `best.training`."""

    loss: str
    """A key of `LOSSES`."""
    learning_rate: float
    warmup: int
    """Steps over which the learning rate rises."""
    batch_size: int
    """Instances of a step, of all processes together."""
    epochs: int
    patience: int
    """Epochs without a better dev measure before training stops."""
    accumulate: int
    """Parts of a process's share of a step that are computed one after the other."""
    bf16: bool
    """Autocast to bfloat16."""
    gradient_checkpointing: bool
    """Compute activations again in the backward pass rather than keep them."""


class Example(NamedTuple):
    """What is trained on of one instance: pairs of the query and a segment."""

    positives: list[Input]
    negatives: list[Input]

    @property
    def size(self) -> int:
        """Pairs."""
        return len(self.positives) + len(self.negatives)


class Epoch(NamedTuple):
    """A line of the history: mean loss of the epoch's steps, dev measure after it."""

    system: str
    epoch: int
    """From 1."""
    loss: float
    dev_rr: float


def hinge(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """l(y⁺, y⁻) = max(0, 1 − y⁺ + y⁻) of float32[pairs] each, averaged over the pairs."""
    return torch.relu(1 - positive + negative).mean()


def cross_entropy(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """−log σ(y⁺) and −log (1 − σ(y⁻)) of float32[n] and float32[m], averaged over all n + m."""
    scores = torch.cat([positive, negative])
    labels = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
    return functional.binary_cross_entropy_with_logits(scores, labels)


LOSSES = {"hinge": hinge, "cross-entropy": cross_entropy}
"""'Implementation details': hinge for MS MARCO, pointwise cross-entropy for Robust04."""


class Learner:
    """One arm of the training."""

    def __init__(
        self, system: str, ranker: Ranker, layout: Layout, dev: Dev, schedule: Schedule, seed: int
    ) -> None:
        self.system, self.ranker, self.layout = system, ranker, layout
        self.dev, self.schedule, self.seed = dev, schedule, seed
        self.parameters = [p for p in ranker.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, schedule.learning_rate, fused=True)
        self.rate = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / (schedule.warmup + 1))
        )
        if schedule.gradient_checkpointing:
            ranker.trunk.activation_checkpointing_enable()
        self.losses: list[float] = []
        self.history: list[Epoch] = []
        self.state: dict[str, Any] = {}

    def step(self, examples: Sequence[Example]) -> None:
        """One update by a batch, of which `examples` is this process's part.

        Raises EspalierError when the loss is not a number.
        """
        self.ranker.train()
        self.seed_dropout()
        self.optimizer.zero_grad()
        whole = self.summed(sum(example.size for example in examples))
        loss = 0.0
        for part in parts(examples, self.schedule.accumulate):
            share = sum(example.size for example in part) / whole
            weighted = share * self.loss(part)
            weighted.backward()  # type: ignore[no-untyped-call]
            loss += weighted.item()
        loss = self.summed(loss)
        if not np.isfinite(loss):
            raise EspalierError(
                f"training {self.system}: the loss is {loss} in epoch {self.epoch}; "
                "lower config key 'best.training.learning_rate'"
            )
        parallel.sum_gradients(self.parameters)
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRADIENT)
        self.optimizer.step()
        self.rate.step()
        self.losses.append(loss)

    def seed_dropout(self) -> None:
        """Dropout depends on seed, step and process alone, so that nothing of it has to be kept."""
        key = [self.seed, self.rate.last_epoch, parallel.rank()]
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """The mean loss of some examples."""
        positives = [pair for example in examples for pair in example.positives]
        negatives = [pair for example in examples for pair in example.negatives]
        batch = self.layout.collate([*positives, *negatives], mark=self.ranker.marks)
        batch = on_device(batch, self.ranker)
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=self.schedule.bf16):
            scores = self.ranker(batch)
        return LOSSES[self.schedule.loss](*scores.float().split([len(positives), len(negatives)]))

    def summed(self, value: float) -> float:
        """The sum over all processes."""
        own = torch.tensor([value], dtype=torch.float64, device=self.ranker.head.weight.device)
        return float(parallel.gathered(own).sum())

    def end_epoch(self) -> None:
        """Measure on the dev queries; keep the state when it is the best so far."""
        reached = self.dev.reciprocal_rank(self.ranker)
        if not self.history or reached > self.best.dev_rr:
            self.state = copy.deepcopy(self.ranker.state_dict())
        loss = float(np.mean(self.losses))
        self.history.append(Epoch(self.system, self.epoch, loss, reached))
        self.losses = []

    @property
    def epoch(self) -> int:
        """The epoch that is under way."""
        return len(self.history) + 1

    @property
    def best(self) -> Epoch:
        """The epoch with the highest dev measure, the first of equal ones."""
        return max(self.history, key=lambda epoch: epoch.dev_rr)

    @property
    def done(self) -> bool:
        """Whether the dev measure has not risen for `patience` epochs, or all epochs are over."""
        last = len(self.history)
        return last >= self.schedule.epochs or (
            last > 0 and last - self.best.epoch >= self.schedule.patience
        )

    def finished(self) -> Ranker:
        """The ranker in its best state."""
        self.ranker.load_state_dict(self.state)
        return self.ranker

    def saved(self) -> dict[str, Any]:
        """All that training goes on from: tensors, numbers, lists, dicts."""
        return {
            "ranker": self.ranker.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rate": self.rate.state_dict(),
            "losses": self.losses,
            "history": [[epoch.loss, epoch.dev_rr] for epoch in self.history],
            "best": self.state,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `saved` gave."""
        self.ranker.load_state_dict(saved["ranker"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.rate.load_state_dict(saved["rate"])
        self.losses = list(saved["losses"])
        self.history = [
            Epoch(self.system, number, loss, reached)
            for number, (loss, reached) in enumerate(saved["history"], start=1)
        ]
        self.state = dict(saved["best"])


def parts(examples: Sequence[Example], number: int) -> list[Sequence[Example]]:
    """At most `number` consecutive parts of about one size, none of them empty."""
    bounds = [len(examples) * i // number for i in range(number + 1)]
    return [examples[first:last] for first, last in pairwise(bounds) if first < last]
