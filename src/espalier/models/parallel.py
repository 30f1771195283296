"""Training in several processes: each takes its part of every batch (data parallel).

`torchrun` starts the processes and says by RANK and WORLD_SIZE which one this is; without it there
is one, and nothing here does anything. The same batch, split over more processes, gives the same
gradient up to rounding.
"""

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import distributed
from torch.distributed.nn import functional

Item = TypeVar("Item")


def rank() -> int:
    """Number of this process, from 0; process 0 is the one that writes."""
    return int(os.environ.get("RANK", "0"))


def world() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def start(device: torch.device) -> None:
    """Join the other processes: by gloo on CPUs, by nccl on GPUs, a GPU for each process."""
    if world() > 1 and not distributed.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")


def share(batch: Sequence[Item]) -> Sequence[Item]:
    """The part of a batch for this process: consecutive; parts differ by one item at most."""
    first, last = (len(batch) * number // world() for number in (rank(), rank() + 1))
    return batch[first:last]


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace each gradient by its sum over the processes.

    It is the gradient of the whole batch's mean loss when each process has weighted the mean loss
    of its part by the part's share of the batch. No gradient counts as zeros.
    """
    if world() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)


def gathered(rows: torch.Tensor) -> torch.Tensor:
    """All processes' rows in the order of their ranks, [rows, …] of one shape; keeps gradients.

    The gradient that reaches this process's rows is the sum over the processes' losses.
    """
    if world() == 1:
        return rows
    return torch.cat(functional.all_gather(rows))  # type: ignore[no-untyped-call]
