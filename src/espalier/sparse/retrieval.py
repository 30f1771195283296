"""From a config's settings and encoded queries to rankings, counters and latencies."""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from tqdm import tqdm

from espalier.errors import EspalierError
from espalier.sparse import segments
from espalier.sparse.cursors import MOST_TERMS
from espalier.sparse.daat import daat
from espalier.sparse.dths import dths
from espalier.sparse.guidance import UNITS, Guidance, mixed
from espalier.sparse.index import Index, read
from espalier.sparse.postings import (
    Counters,
    Query,
    Ranking,
    Side,
    Weights,
    bm25_side,
    learned_side,
    lists,
    ranked,
)
from espalier.sparse.queries import by_query
from espalier.sparse.wand import wand
from espalier.sparse.windows import CHUNK, windows

Setting = Mapping[str, Any]
"""One of the config's settings."""

PARTITION = {"bmw": "fixed"}
"""Partition whose blocks an algorithm uses; the others use variable ones."""

WINDOWS = 64
"""Windows that a small collection is at least cut into, so that a threshold can form early."""

FEW_DOCUMENTS = 2**17
"""Documents up to which adding up all postings takes at most a tenth more time than skipping some:
with short queries about as much, with SPLADE's a quarter less."""

LARGEST_WINDOW = 8192
"""Documents of a window: 32 KiB of accumulators."""

SMALLEST_WINDOW = 256


class Scoring(NamedTuple):
    """What is summed for a document: one side or both, the query's weights, and their unit."""

    terms: npt.NDArray[np.int64]
    first: Side
    second: Side | None
    w_first: npt.NDArray[np.float64]
    w_second: npt.NDArray[np.float64]
    unit: float


class Retrieved(NamedTuple):
    """All queries under one setting."""

    run: pd.DataFrame
    """query_id, doc_id, score."""
    counts: pd.DataFrame
    """The counters of each query."""
    cut_short: int
    """Queries whose segments, as many as were asked for, are of fewer documents than were."""


def guidance_of(setting: Setting) -> Guidance:
    """The guidance that a config's setting describes."""
    return Guidance(
        float(setting["alpha"]),
        float(setting["beta"]),
        float(setting["f_s"]),
        float(setting["f_f"]),
        setting["threshold"] == "dual",
        setting["view"] == "uniform",
    )


def support_of(setting: Setting) -> str:
    """Which index a setting traverses: one side's own when it ranks by that side alone.

    `index: union` makes it traverse the postings of both sides all the same.
    """
    if setting["algorithm"] == "dths":
        return "union"
    own = {0.0: "learned", 1.0: "bm25"}.get(float(setting["beta"]), "union")
    return str(setting.get("index", own))


def scoring(index: Index, partition: str, query: Query, beta: float) -> Scoring:
    """RankScore(d, β) as sums over postings; a side whose share is 0 is not read."""
    blocks = index.partitions[partition]
    learned, bm25 = (s(index.postings, blocks) for s in (learned_side, bm25_side))
    if beta in (0.0, 1.0):
        side, weights = (learned, query.learned) if beta == 0 else (bm25, query.bm25)
        kept = weights > 0
        nothing = np.zeros(int(kept.sum()))
        return Scoring(
            query.terms[kept], side, None, weights[kept].astype(np.float64), nothing, 1.0
        )
    weights_b, weights_l = mixed(query, beta, np.float64)
    return Scoring(query.terms, learned, bm25, weights_l, weights_b, float(UNITS))


def search(index: Index, query: Query, setting: Setting, k: int) -> Ranking:
    """The top k of one query under one setting.

    Algorithms: daat, taat (exhaustive), maxscore, blockmax-maxscore, wand, bmw, vbmw, dths; auto is
    what was never far from the fastest of the safe ones (benchmarks/sparse.py): maxscore, or taat
    in a small collection.
    """
    documents = len(index.doc_ids)
    k = min(k, documents)
    algorithm = setting["algorithm"]
    partition = PARTITION.get(algorithm, "variable")
    moved = lists(index.postings, index.partitions[partition])
    if len(query.terms) > MOST_TERMS:
        raise EspalierError(
            f"query of {len(query.terms)} terms: at most {MOST_TERMS} can be searched; cut it"
        )
    if algorithm == "dths":
        guidance = guidance_of(setting)
        blocks = index.partitions[partition]
        terms, unit, kind = query.terms, float(UNITS), kind_of(index.postings.learned)
        found = dths(
            moved, bm25_side(index.postings, blocks), learned_side(index.postings, blocks),
            terms, mixed(query, guidance.alpha, kind), mixed(query, guidance.beta, kind),
            documents, k, *guidance[2:],
        )  # fmt: skip
    else:
        terms, *sides, _, _, unit = scored = scoring(
            index, partition, query, float(setting["beta"])
        )
        factor = float(setting.get("f", 1.0))
        if algorithm == "daat":
            found = daat(moved, *sides, terms, *typed(scored), documents, k)
        elif algorithm in ("wand", "bmw", "vbmw"):
            by_block = algorithm != "wand"
            found = wand(moved, *sides, terms, *typed(scored), documents, k, by_block, factor)
        else:
            few = algorithm == "auto" and documents <= FEW_DOCUMENTS
            pruned, by_block = algorithm != "taat" and not few, algorithm == "blockmax-maxscore"
            found = windows(
                moved, *sides, terms, *typed(scored), accumulators(scored, documents),
                documents, k, pruned, by_block, factor,
            )  # fmt: skip
    docs, scores, count, read, loaded = found
    docs, scores = ranked(docs, scores / unit)
    total = (moved.term_block[terms + 1] - moved.term_block[terms] - 1).sum()
    return docs, scores, Counters(int(count), int(read), int(loaded), int(total))


def kind_of(weights: Weights) -> type[np.int64] | type[np.float64]:
    """The type of sums over posting weights: whole numbers stay whole."""
    return np.int64 if np.issubdtype(weights.dtype, np.integer) else np.float64


def typed(scored: Scoring) -> list[npt.NDArray[Any]]:
    """The query's weights on both sides, of the type of the sums."""
    kind = kind_of(scored.first.weights)
    return [weights.astype(kind) for weights in scored[3:5]]


def accumulators(scored: Scoring, documents: int) -> npt.NDArray[Any]:
    """Zeros for the documents of one window, of the narrowest type that holds all sums."""
    largest = float(scored.w_first @ scored.first.term_max[scored.terms].astype(np.float64))
    if scored.second is not None:
        tops = scored.second.term_max[scored.terms].astype(np.float64)
        largest += float(scored.w_second @ tops)
    kind: type[Any] = np.float64
    if np.issubdtype(scored.first.weights.dtype, np.integer):
        kind = np.int32 if largest < 2**31 else np.int64
    window = min(max(documents // WINDOWS // CHUNK * CHUNK, SMALLEST_WINDOW), LARGEST_WINDOW)
    return np.zeros(window, kind)


class Opened:
    """The indexes of one weighting, each opened when first needed, and its queries."""

    def __init__(self, folder: Path, encoded: pd.DataFrame) -> None:
        self.folder, self.encoded = folder, encoded
        self.indexes: dict[str, Index] = {}
        self.queries: dict[str, dict[str, Query]] = {}

    def for_setting(self, setting: Setting) -> tuple[Index, dict[str, Query]]:
        """The index that a setting traverses, and the queries in its term numbers."""
        support = support_of(setting)
        if support not in self.indexes:
            self.indexes[support] = read(self.folder / support)
            lexicon = self.indexes[support].lexicon
            self.queries[support] = by_query(self.encoded, lexicon)
        return self.indexes[support], self.queries[support]

    @property
    def of_segments(self) -> bool:
        """Whether the indexes are of segments."""
        return any(index.segments is not None for index in self.indexes.values())

    @property
    def documents(self) -> int:
        """Documents of the collection."""
        return max((len(index.ranked_ids) for index in self.indexes.values()), default=0)


def hits(index: Index, k: int, segment_hits: int) -> int:
    """How many of an index's documents or segments are searched for to rank k documents."""
    return k * segment_hits if index.segments else k


def formed(
    index: Index, found: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Places in `ranked_ids` and scores of the k best documents that a search has found."""
    return segments.best(index.segments, found, scores, k) if index.segments else (found, scores)


def retrieve(opened: Opened, setting: Setting, k: int, system: str, segment_hits: int) -> Retrieved:
    """All queries under one setting: the run, and the counters of each query.

    In an index of segments, k · `segment_hits` segments are searched for. `overlap` among the
    counters is the share of the safe ranking's top k that was found; the others count what the
    index is of.
    """
    index, queries = opened.for_setting(setting)
    safe = {"algorithm": "auto", "beta": setting["beta"]}
    asked = hits(index, k, segment_hits)
    counters, doc_ids, scores, overlap = [], [], [], []
    cut_short = 0
    for query in tqdm(queries.values(), desc=system, unit="query", mininterval=2):
        found, found_scores, counted = search(index, query, setting, asked)
        docs, score = formed(index, found, found_scores, k)
        cut_short += len(docs) < k and len(found) == asked < len(index.doc_ids)
        doc_ids.append([index.ranked_ids[doc] for doc in docs.tolist()])
        scores.append(score)
        counters.append(counted)
        expected, _ = formed(index, *search(index, query, safe, asked)[:2], k)
        overlap.append(np.isin(expected, docs).mean() if len(expected) else 1.0)
    query_ids = np.array(list(queries), dtype=object)
    run = pd.DataFrame(
        {
            "query_id": np.repeat(query_ids, [len(found) for found in doc_ids]),
            "doc_id": list(chain.from_iterable(doc_ids)),
            "score": np.concatenate(scores) if scores else np.zeros(0),
        }
    )
    counts = pd.DataFrame(counters, columns=Counters._fields, dtype="int64")
    counts.insert(0, "system", system)
    counts.insert(1, "query_id", query_ids)
    counts["overlap"] = np.array(overlap, dtype=np.float64)
    return Retrieved(run, counts, cut_short)


def latencies(
    opened: Opened,
    settings: Sequence[Setting],
    k: int,
    segment_hits: int,
    most: int,
    repeats: int,
    prefix: str,
) -> pd.DataFrame:
    """Nanoseconds of each of `most` queries under each setting, interleaved query by query.

    The median of `repeats` rounds; a first round, not counted, compiles and warms. The setting that
    begins, and finds the query's postings out of the caches, changes from query to query. Timed is
    the search of the index: looking doc_ids up, and taking the best of segments, are not. Columns
    system (`prefix`-setting), query_id, total_ns.
    """
    ready = [(setting, *opened.for_setting(setting)) for setting in settings]
    chosen = list(opened.encoded["query_id"].unique()[:most])
    taken: dict[tuple[str, str], list[int]] = {}
    for _ in range(repeats + 1):
        for i, query_id in enumerate(tqdm(chosen, desc="latency", unit="query", mininterval=2)):
            turn = i % len(ready)
            for setting, index, queries in [*ready[turn:], *ready[:turn]]:
                asked = hits(index, setting.get("k", k), segment_hits)
                started = time.perf_counter_ns()
                search(index, queries[query_id], setting, asked)
                passed = time.perf_counter_ns() - started
                taken.setdefault((setting["name"], query_id), []).append(passed)
    rows = [
        {"system": f"{prefix}-{name}", "query_id": query_id, "total_ns": int(np.median(times[1:]))}
        for (name, query_id), times in taken.items()
    ]
    return pd.DataFrame(rows, columns=["system", "query_id", "total_ns"])
