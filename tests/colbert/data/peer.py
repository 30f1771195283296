"""Embeddings of the checkpoints in `tests.colbert.published` as PyLate computes them.

Written to `peer.npz` beside this file: for each checkpoint, query and document, by the names
`<checkpoint>/query/<number>` and `<checkpoint>/doc/<number>`, float32[kept tokens, dimensions].
Those in it are by pylate 1.6.0 with sentence-transformers 5.3.0, transformers 5.3.0 and torch
2.13.0 on a CPU. PyLate reads ColBERT's layout as well as its own; the authors' colbert-ai 0.2.22
gave the very same numbers for the two checkpoints in it. Left out are texts that we treat otherwise
on purpose: names of special tokens, which are text here, and empty documents, which have no
embeddings here.

To make them again, from the project's root in an environment with these packages and pytest:
    python -m tests.colbert.data.peer
"""

import tempfile
from pathlib import Path

import numpy as np

from tests.colbert.published import CHECKPOINTS, DOCS, QUERIES


def embeddings() -> dict[str, np.ndarray]:
    """Every array by its name."""
    from pylate.models import ColBERT

    found = {}
    for name, make in CHECKPOINTS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = ColBERT(str(make(Path(folder) / "model")), device="cpu")
            for kind, texts in (("query", QUERIES), ("doc", DOCS)):
                encoded = model.encode(texts, is_query=kind == "query")
                found.update({f"{name}/{kind}/{i}": array for i, array in enumerate(encoded)})
    return found


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **embeddings())
