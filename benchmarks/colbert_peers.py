"""Peers of late interaction, run by the interpreter of an environment that has them.

    PYTHON benchmarks/colbert_peers.py plaid FOLDER THREADS
    PYTHON benchmarks/colbert_peers.py maxsim FOLDER THREADS

`plaid` indexes FOLDER's embeddings with PyLate's StanfordPLAID (2 bits, its own settings for each
k); `maxsim` scores all documents with maxsim-cpu. FOLDER holds embeddings.npy float16[tokens, d],
offsets.npy int64[documents + 1], queries.npy float32[queries, q, d]. The last line printed is JSON.
"""

import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

ROUNDS = 3


def plaid(folder: Path, threads: int) -> dict:
    """Milliseconds and documents of each query, by k."""
    import torch
    from pylate.indexes.stanford_plaid import StanfordPLAID

    torch.set_num_threads(threads)
    embeddings = np.load(folder / "embeddings.npy")
    offsets, queries = np.load(folder / "offsets.npy"), np.load(folder / "queries.npy")
    documents = [embeddings[a:b].astype(np.float32) for a, b in pairwise(offsets)]
    settings = {
        "index_folder": str(folder / "plaid"), "index_name": "plaid", "nbits": 2,
        "embedding_size": embeddings.shape[1],
        "ndocs": None, "centroid_score_threshold": None, "ncells": None,
    }  # fmt: skip
    StanfordPLAID(override=True, **settings).add_documents(
        [str(i) for i in range(len(documents))], documents
    )
    found = {}
    # Its extensions start a thread of their own, even for one.
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    for k in (10, 100, 1000):
        searcher = StanfordPLAID(override=False, **settings).searcher
        times, ranked = [[] for _ in queries], []
        for turn in range(ROUNDS + 1):
            for i, query in enumerate(torch.from_numpy(queries)):
                started = clock()
                ids, _, _ = searcher.search(query, k=k)
                passed = clock() - started
                if turn:
                    times[i].append(passed)
                else:
                    ranked.append([int(doc) for doc in ids])
        found[k] = {"ms": (np.median(times, axis=1) / 1e6).tolist(), "documents": ranked}
    return found


def maxsim(folder: Path, threads: int) -> dict:
    """Median milliseconds for all documents, from half precision and widened before; scores."""
    os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    from maxsim_cpu import maxsim_scores_variable

    embeddings = np.load(folder / "embeddings.npy", mmap_mode="r")
    offsets, queries = np.load(folder / "offsets.npy"), np.load(folder / "queries.npy")
    bounds = list(pairwise(offsets))
    wide = [embeddings[a:b].astype(np.float32) for a, b in bounds]
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    taken: dict[str, list[float]] = {"half": [], "wide": []}
    for _ in range(9):
        for name, times in taken.items():
            started = clock()
            given = wide
            if name == "half":
                given = [embeddings[a:b].astype(np.float32) for a, b in bounds]
            scores = maxsim_scores_variable(queries[0], given)
            times.append((clock() - started) / 1e6)
    return {
        **{k: float(np.median(v)) for k, v in taken.items()},
        "scores": list(map(float, scores)),
    }


if __name__ == "__main__":
    what, where, count = sys.argv[1:]
    print(json.dumps({"plaid": plaid, "maxsim": maxsim}[what](Path(where), int(count))))
