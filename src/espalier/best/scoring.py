"""Scoring pairs with a ranker: the pass behind selection, dev measures and re-ranking."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.ao.quantization import quantize_dynamic
from tqdm import tqdm

from espalier.best.inputs import Batch, Input, Layout
from espalier.best.ranker import Ranker
from espalier.text.batching import by_length

Scores = NDArray[np.float32]


@torch.inference_mode()
def score(
    ranker: Ranker, layout: Layout, pairs: Sequence[Input], tokens: int, progress: str | None = None
) -> Scores:
    """float32[pairs] without dropout, in batches of about one length (`tokens` with padding)."""
    was_training = ranker.training
    ranker.eval()
    scores = np.empty(len(pairs), dtype=np.float32)
    bar = tqdm(
        total=len(pairs), desc=progress, unit="segment", mininterval=2, disable=progress is None
    )
    with bar:
        for chosen in by_length([layout.length(pair) for pair in pairs], tokens):
            batch = layout.collate([pairs[i] for i in chosen], mark=ranker.marks)
            scores[chosen] = ranker(on_device(batch, ranker)).cpu().numpy()
            bar.update(len(chosen))
    ranker.train(was_training)
    return scores


def on_device(batch: Batch, ranker: Ranker) -> Batch:
    """The batch where the ranker is."""
    return batch.to(ranker.head.weight.device)


def quantized(ranker: Ranker) -> Ranker:
    """A copy on CPU for scoring, its trunk's linear layers in int8.

    Activations are quantized as they come (torch's dynamic quantization), one scale a batch, so
    that scores depend slightly on what else is in it.
    """
    small = copy.deepcopy(ranker).cpu()
    small.trunk = quantize_dynamic(  # type: ignore[no-untyped-call]
        small.trunk, {torch.nn.Linear}, dtype=torch.qint8
    )
    return small
