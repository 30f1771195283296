"""Shards of made-up embeddings, and indexes of them."""

import faiss
import numpy as np

from espalier.colbert import index, inverted, quantizer, store

FREQUENCIES = np.arange(18).reshape(2, 9)
SETTINGS = {"sample": 0.05, "subquantizers": 4, "bits": 8, "metric": "l2", "seed": 1}


def shards_of(folder, counts, documents_a_shard, *, dimensions=8, lengths=False):
    """Shards of random unit vectors, or of several `lengths`; the embeddings, numbered through."""
    rng = np.random.default_rng(7)
    folders, everything = [], []
    for start in range(0, len(counts), documents_a_shard):
        own = counts[start : start + documents_a_shard]
        rows = [rng.normal(size=(n, dimensions)) for n in own]
        rows = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in rows]
        if lengths:
            rows = [r * rng.uniform(0.5, 2, (len(r), 1)) for r in rows]
        rows = [r.astype(np.float16) for r in rows]
        tokens = [np.zeros(n, dtype=np.int64) for n in own]
        doc_ids = [f"d{start + i}" for i in range(len(own))]
        folders.append(folder / f"shard{start}")
        store.write(folders[-1], doc_ids, tokens, enumerate(rows), dimensions, "e")
        everything += rows
    return store.open_store(folders), np.concatenate(everything).astype(np.float32)


def whole(opened):
    """Every embedding of the shards."""
    return [np.ones(len(shard.embeddings), dtype=np.bool_) for shard in opened.shards]


def trained(folder, opened, kept=None, share=1.0, frequencies=FREQUENCIES, **changed):
    """A quantizer that was written and read, and its plan."""
    kept = kept or whole(opened)
    counts = [int(own.sum()) for own in kept]
    made, plan = quantizer.train(opened.shards, counts, kept, **{**SETTINGS, **changed})
    quantizer.write(folder, made, frequencies, opened.shards, share)
    return quantizer.read(folder), plan


def lists_of(folder, coder, opened, kept=None):
    """Folders with the lists of each shard."""
    folders, first = [], 0
    for number, (shard, own) in enumerate(zip(opened.shards, kept or whole(opened), strict=True)):
        folders.append(folder / str(number))
        lists = inverted.invert(coder.index, shard, own, first)
        inverted.write(folders[-1], lists, coder.digest, number)
        first += len(own)
    return folders


def written(folder, opened, kept=None, share=1.0, frequencies=FREQUENCIES, **changed):
    """Write an index there, its steps below the folder `.steps` beside it; its plan."""
    steps = folder.with_name(f"{folder.name}.steps")
    coder, plan = trained(steps / "quantizer", opened, kept, share, frequencies, **changed)
    index.write(folder, coder, lists_of(steps / "lists", coder, opened, kept))
    return plan


def built(folder, opened, kept=None, **changed):
    """A FAISS index of the shards, and its plan."""
    plan = written(folder, opened, kept, **changed)
    return faiss.read_index(str(folder / index.INDEX)), plan
