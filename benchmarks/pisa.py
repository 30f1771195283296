"""PISA over the postings of one of our indexes: an oracle for scores, a rival for speed.

PISA (Mallia et al. 2019) comes as the extension module of `pyterrier-pisa`; its inverted index is
written here in PISA's own plain format, so that both engines have the same postings.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from espalier.sparse.index import Index
from espalier.sparse.postings import Query, Side

ALGORITHMS = ("ranked_or", "maxscore", "wand", "block_max_wand", "block_max_maxscore")


def extension() -> Any:
    """PISA's extension module; ImportError where pyterrier-pisa is not installed."""
    from pyterrier_pisa import _pisathon

    return _pisathon


class Pisa:
    """One side of an index in PISA, blocks of `block_size` postings, SIMD-BP128 compressed."""

    def __init__(self, folder: Path, index: Index, side: Side, block_size: int = 64) -> None:
        self.module = extension()
        folder.mkdir(parents=True)
        docs, begin = index.postings.docs, index.postings.term_begin
        documents = len(index.doc_ids)
        kept = []
        with (folder / "inv.docs").open("wb") as d, (folder / "inv.freqs").open("wb") as f:
            np.array([1, documents], np.uint32).tofile(d)
            for term in range(len(begin) - 1):
                span = slice(begin[term], begin[term + 1] - 1)
                present = side.weights[span] > 0  # PISA has no postings of weight 0
                if present.any():
                    kept.append(term)
                    for stream, values in ((d, docs[span]), (f, side.weights[span])):
                        np.array([present.sum()], np.uint32).tofile(stream)
                        values[present].astype(np.uint32).tofile(stream)
        sizes = np.ones(documents + 1, np.uint32)
        sizes[0] = documents
        sizes.tofile(folder / "inv.sizes")
        self.terms = {term: f"{term:09d}" for term in kept}
        for name, lines in (
            ("terms", self.terms.values()),
            ("documents", (str(i) for i in range(documents))),
        ):
            (folder / f"fwd.{name}").write_text("".join(f"{line}\n" for line in lines))
        self.module.build_binlex(str(folder / "fwd.terms"), str(folder / "fwd.termlex"))
        self.module.build_binlex(str(folder / "fwd.documents"), str(folder / "fwd.doclex"))
        self.context = self.module.RetrievalContext()
        self.module.prepare_index(
            self.context, str(folder), "block_simdbp", "quantized", "",
            block_size=block_size, quantize=0, stop_fname="",
        )  # fmt: skip

    def search(self, query: Query, weights: Any, k: int, algorithm: str) -> tuple[Any, Any, int]:
        """Documents int64[≤k], scores float32[≤k], and the nanoseconds of this thread."""
        asked = {
            self.terms[term]: float(weight)
            for term, weight in zip(query.terms.tolist(), weights.tolist(), strict=True)
            if term in self.terms and weight > 0
        }
        numbers, names = np.empty(k, np.int32), np.empty(k, object)
        ranks, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        started = time.thread_time_ns()
        found = self.module.retrieve(
            self.context, algorithm, [(0, asked)], k=k, threads=1, query_weighted=1,
            pretokenised=True, result_qidxs=numbers, result_docnos=names, result_ranks=ranks,
            result_scores=scores,
        )  # fmt: skip
        taken = time.thread_time_ns() - started
        return names[:found].astype(np.int64), scores[:found], taken
