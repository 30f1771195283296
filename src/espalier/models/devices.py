"""The device that models run on, and determinism."""

import torch


def device() -> torch.device:
    """A GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seeded(seed: int, threads: int) -> torch.Generator:
    """Seed torch, bind it to `threads`, forbid nondeterministic kernels; a CPU generator."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    return torch.Generator().manual_seed(seed)
