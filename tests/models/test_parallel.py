"""The same numbers from one process and from three, started as torchrun starts them."""

import json

import pytest
import torch

from espalier.models import parallel
from tests.processes import together

WORK = """
import json, sys, torch
from espalier.models import parallel

parallel.start(torch.device("cpu"))
batch = torch.arange(7.0)
weight = torch.nn.Parameter(torch.tensor(2.0))
unused = torch.nn.Parameter(torch.tensor(1.0))
mine = torch.tensor(parallel.share(batch.tolist()))

# Mean over i of (w·i)², and, with all rows gathered, of w·i · Σ_j w·j.
if sys.argv[1] == "mean":
    loss = (weight * mine).square().mean() * len(mine) / len(batch)
else:
    rows = torch.zeros(3).index_copy(0, torch.arange(len(mine)), weight * mine)
    loss = (rows.sum() * parallel.gathered(rows).sum()) / len(batch)
loss.backward()
parallel.sum_gradients([weight, unused])
print(json.dumps([parallel.rank(), mine.tolist(), weight.grad.item(), unused.grad.item()]))
"""


@pytest.mark.parametrize(
    ("mode", "gradient"),
    # Σ i² = 91, Σ i = 21: d/dw of w²·91/7 and of w²·21²/7 at w = 2.
    [("mean", 2 * 2 * 91 / 7), ("gathered", 2 * 2 * 21**2 / 7)],
)
def test_three_processes_give_the_gradient_of_the_whole_batch(mode, gradient):
    parts = [json.loads(printed) for printed in together(3, WORK, mode)]
    assert [rank for rank, *_ in parts] == [0, 1, 2]
    assert [i for _, part, *_ in parts for i in part] == list(range(7))
    assert [found for *_, found, _ in parts] == [pytest.approx(gradient)] * 3
    assert [unused for *_, unused in parts] == [0.0] * 3


def test_alone_nothing_changes():
    assert (parallel.rank(), parallel.world()) == (0, 1)
    assert parallel.share("abc") == "abc"
    parallel.start(torch.device("cpu"))
    rows = torch.ones(2, 3)
    assert parallel.gathered(rows) is rows
