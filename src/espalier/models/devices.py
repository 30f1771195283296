"""The device that models run on, determinism, and how much torch keeps for a next time."""

import os

import torch

PRIMITIVES = "32"
"""Matrix products that oneDNN keeps prepared, by shape. Hardly any two batches have one shape, and
its own 1,024 cut the free memory between them to pieces: a process grew by half a gigabyte."""


def device() -> torch.device:
    """A GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seeded(seed: int, threads: int) -> torch.Generator:
    """Seed torch, bind it to `threads`, forbid nondeterministic kernels; a CPU generator."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", PRIMITIVES)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    return torch.Generator().manual_seed(seed)
