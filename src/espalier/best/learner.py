"""A ranker while it is trained: its optimizer, its history, its best state on the dev queries."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from espalier.best.dev import Dev
from espalier.best.inputs import Input, Layout
from espalier.best.ranker import Ranker
from espalier.best.scoring import on_device
from espalier.errors import EspalierError

MAX_GRADIENT = 1.0
"""Norm to which gradients are clipped."""


@dataclass(frozen=True)
class Schedule:
    """How fast and how long: part of the config's `best.training`."""

    learning_rate: float
    warmup: int
    """Steps over which the learning rate rises."""
    batch_size: int
    """Instances of a step."""
    epochs: int
    patience: int
    """Epochs without a better dev measure before training stops."""


class Epoch(NamedTuple):
    """A line of the history: mean loss of the epoch's steps, dev measure after it."""

    system: str
    epoch: int
    """0 is the untrained ranker, whose loss is NaN."""
    loss: float
    dev_rr: float


def hinge(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """l(y⁺, y⁻) = max(0, 1 − y⁺ + y⁻) of float32[pairs] each, averaged over the pairs."""
    return torch.relu(1 - positive + negative).mean()


class Learner:
    """One arm of the training."""

    def __init__(
        self, system: str, ranker: Ranker, layout: Layout, dev: Dev, schedule: Schedule
    ) -> None:
        self.system, self.ranker, self.layout = system, ranker, layout
        self.dev, self.schedule = dev, schedule
        self.parameters = [p for p in ranker.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, schedule.learning_rate)
        self.rate = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / (schedule.warmup + 1))
        )
        self.losses: list[float] = []
        self.history: list[Epoch] = []
        self.end_epoch()

    def step(self, positives: Sequence[Input], negatives: Sequence[Input]) -> None:
        """One update by the hinge of aligned positives and negatives.

        Raises EspalierError when the loss is not a number.
        """
        self.ranker.train()
        batch = self.layout.collate([*positives, *negatives], mark=self.ranker.marks)
        positive, negative = self.ranker(on_device(batch, self.ranker)).chunk(2)
        loss = hinge(positive, negative)
        if not torch.isfinite(loss):
            raise EspalierError(
                f"training {self.system}: the loss is {loss.item()} in epoch {len(self.history)}; "
                "lower config key 'best.training.learning_rate'"
            )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRADIENT)
        self.optimizer.step()
        self.rate.step()
        self.losses.append(loss.item())

    def end_epoch(self) -> None:
        """Measure on the dev queries; keep the state when it is the best so far."""
        loss = float(np.mean(self.losses)) if self.losses else float("nan")
        reached = self.dev.reciprocal_rank(self.ranker)
        if not self.history or reached > self.best.dev_rr:
            self.state: dict[str, Any] = copy.deepcopy(self.ranker.state_dict())
        self.history.append(Epoch(self.system, len(self.history), loss, reached))
        self.losses = []

    @property
    def best(self) -> Epoch:
        """The epoch with the highest dev measure, the first of equal ones."""
        return max(self.history, key=lambda epoch: epoch.dev_rr)

    @property
    def done(self) -> bool:
        """Whether the dev measure has not risen for `patience` epochs, or all epochs are over."""
        last = len(self.history) - 1
        return last >= self.schedule.epochs or last - self.best.epoch >= self.schedule.patience

    def finished(self) -> Ranker:
        """The ranker in its best state."""
        self.ranker.load_state_dict(self.state)
        return self.ranker
