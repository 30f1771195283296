"""Espalier: neural retrieval's quality at a fraction of its cost, reproduced end to end."""

import hashlib
import os
from pathlib import Path

__version__ = "0.1.0"


def kernel_cache() -> Path:
    """Folder for compiled kernels, one for each state of the modules that hold them.

    numba's own cache looks at a kernel's file alone: after an edit, or an update, in a module that
    it calls, it would go on running the old code.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(p for room in ("colbert", "sparse") for p in (here / room).glob("*.py")):
        digest.update(path.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "espalier" / f"kernels-{digest.hexdigest()[:16]}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(kernel_cache()))
