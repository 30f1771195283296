"""Batches of texts of about one length, so that little of them is padding."""

from collections.abc import Sequence

import numpy as np


def by_length(lengths: Sequence[int], padded: int) -> list[list[int]]:
    """Indices grouped by length, shortest first, at most `padded` tokens with padding a batch.

    A text longer than that has a batch of its own. Equal lengths keep their order.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    for i in np.argsort(np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        if batch and (len(batch) + 1) * lengths[i] > padded:
            batches.append(batch)
            batch = []
        batch.append(i)
    return [*batches, batch] if batch else batches
