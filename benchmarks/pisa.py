"""PISA over the postings of one of our indexes: an oracle for scores, a rival for speed.

PISA (Mallia et al. 2019) comes as the extension module of `pyterrier-pisa`; an index is written
here in PISA's own plain format, so that both engines have the same postings.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from espalier.sparse.index import Index
from espalier.sparse.postings import Query, Side

ALGORITHMS = ("ranked_or", "maxscore", "wand", "block_max_wand", "block_max_maxscore")

BLOCK_SIZE = 64
"""Postings of a block, for whose maximum PISA's block-max algorithms ask."""


def extension() -> Any:
    """PISA's extension module; ImportError where pyterrier-pisa is not installed."""
    from pyterrier_pisa import _pisathon

    return _pisathon


def write(folder: Path, index: Index, side: Side) -> dict[int, str]:
    """One side of an index as PISA's plain files in a new folder; PISA's name of each term."""
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
    terms = {term: f"{term:09d}" for term in kept}
    # The shortest names: PISA spends time on a result's names.
    for name, lines in (("terms", terms.values()), ("documents", map(str, range(documents)))):
        (folder / f"fwd.{name}").write_text("".join(f"{line}\n" for line in lines))
    return terms


class Pisa:
    """PISA's plain files in a folder, taken over: compressed by SIMD-BP128, blocks of 64."""

    def __init__(self, folder: Path, terms: Mapping[int, str]) -> None:
        """`terms` names those of our terms that PISA has."""
        self.module = extension()
        self.terms = terms
        doc_ids = (folder / "fwd.documents").read_text().split("\n")[:-1]
        self.documents = {doc_id: number for number, doc_id in enumerate(doc_ids)}
        for name, lexicon in (("terms", "termlex"), ("documents", "doclex")):
            self.module.build_binlex(str(folder / f"fwd.{name}"), str(folder / f"fwd.{lexicon}"))
        self.context = self.module.RetrievalContext()
        self.module.prepare_index(
            self.context, str(folder), "block_simdbp", "quantized", "",
            block_size=BLOCK_SIZE, quantize=0, stop_fname="",
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
        docs = np.array([self.documents[doc_id] for doc_id in names[:found]], np.int64)
        return docs, scores[:found], taken
