"""Sparse retrieval against PISA on the same postings, and dual guidance against safe baselines.

`make bench-sparse` writes benchmarks/results/sparse.json and prints it. One process, one thread,
thread CPU time; for each query all engines and settings in turn, in another order in every round,
each twice in a row, of which the second run counts; a query's time is the median of the rounds. The
scores of every engine are compared on every query as it is timed. What is best is best by the
statistic of its row.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import pisa, ratios, synthetic
from benchmarks.memory import Memory
from espalier.sparse import index as dual
from espalier.sparse import inverted, names, queries, shards
from espalier.sparse.postings import Query, learned_side
from espalier.sparse.retrieval import search

SEED = 7
BLOCK = 128
ROUNDS = 5
DEPTHS = (10, 100, 1000)
QUERY_UNIT = 8
"""PISA repeats a term by its weight, so synthetic query weights are kept small."""

PAIRS = {
    "exhaustive (taat)": ("taat", "ranked_or", 0.60),
    "exhaustive (daat)": ("daat", "ranked_or", 0.60),
    "MaxScore": ("maxscore", "maxscore", 0.80),
    "WAND": ("wand", "wand", 0.75),
    "BMW": ("bmw", "block_max_wand", None),
    "VBMW": ("vbmw", "block_max_wand", 0.75),
}
"""Ours, PISA's, and the goal."""

GUIDED_GOALS = {10: 1 / 1.6, 100: 1 / 1.4}
"""Of DTHS against our own VBMW, by k; 100 of a million documents are the paper's share."""

SAFE = ("daat", "taat", "maxscore", "blockmax-maxscore", "wand", "bmw", "vbmw", "auto")
GUIDED = {"alpha": 0.9, "beta": 0.2, "f_s": 1.0, "f_f": 1.0, "threshold": "dual"}
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"algorithm": name, "beta": 0.0} for name in SAFE},
    "VBMW on both sides' postings": {"algorithm": "vbmw", "beta": 0.0},
    "DTHS": {"algorithm": "dths", "view": "independent", **GUIDED},
    "DTHS, single threshold": {
        "algorithm": "dths", "view": "independent", **GUIDED, "threshold": "single",
    },
    "DTHS, uniform view": {"algorithm": "dths", "view": "uniform", **GUIDED},
    "DTHS, F_s = 1.3": {"algorithm": "dths", "view": "independent", **GUIDED, "f_s": 1.3},
    "safe hybrid (auto)": {"algorithm": "auto", "beta": 0.2},
}  # fmt: skip


def synthetic_shards(documents: int, folder: Path) -> list[shards.Shard]:
    """The made-up collection as shards on disk."""
    lexicon = names.Names.of(f"{term:05d}" for term in range(synthetic.VOCABULARY))
    made, first = [], 0
    for number, block in enumerate(synthetic.collection(documents, SEED)):
        size = len(block.lengths)
        doc_ids = names.Names.of(str(doc) for doc in range(first, first + size))
        shards.write(folder / str(number), shards.Shard(doc_ids, lexicon, *block))
        made.append(shards.read(folder / str(number)))
        first += size
    return made


def turned(parts: Sequence[shards.Shard], folder: Path) -> list[inverted.Inverted]:
    """The shards inverted, on disk."""
    for number, part in enumerate(parts):
        inverted.write(folder / str(number), inverted.invert(part))
    return [inverted.read(folder / str(number)) for number in range(len(parts))]


def built(folder: Path, parts: Sequence[inverted.Inverted], **options: Any) -> dual.Index:
    """An index of the shards, opened."""
    meta = dual.build(folder, parts, block_size=BLOCK, k1=0.9, b=0.4, **options)
    dual.seal(folder, meta)
    return dual.read(folder)


def synthetic_queries(index: dual.Index, documents: int, count: int) -> list[Query]:
    """Queries of the made-up collection."""
    asked = []
    for query in synthetic.queries(count, documents, SEED):
        terms = np.array([index.lexicon[f"{term:05d}"] for term in query.terms.tolist()], np.int64)
        learned = np.maximum(1, np.rint(query.learned * QUERY_UNIT)).astype(np.int64)
        asked.append(Query(terms, np.full(len(terms), learned.max()), learned))
    return asked


def timed(
    single: dual.Index, both: dual.Index, rival: pisa.Pisa, asked: Sequence[tuple[Query, Query]],
    k: int,
) -> dict[str, ratios.Values]:  # fmt: skip
    """Milliseconds of each query by engine and setting; every safe score compared with PISA's."""
    engines = [*(f"PISA {algorithm}" for algorithm in pisa.ALGORITHMS), *SETTINGS]
    taken = {name: np.zeros((ROUNDS, len(asked))) for name in engines}
    for turn in range(ROUNDS):
        for number, (alone, mixed) in enumerate(asked):
            scores = {}
            for name in np.random.default_rng([turn, number]).permutation(engines).tolist():
                # The first run fills the caches, whatever ran before; the second counts.
                for _ in range(2):
                    if name in SETTINGS:
                        index, query = (single, alone) if name in SAFE else (both, mixed)
                        started = time.thread_time_ns()
                        _, found, _ = search(index, query, SETTINGS[name], k)
                        passed = time.thread_time_ns() - started
                    else:
                        algorithm = name.removeprefix("PISA ")
                        _, found, passed = rival.search(alone, alone.learned, k, algorithm)
                taken[name][turn, number] = passed
                scores[name] = found.astype(np.float32)
            for name in (*SAFE, *(f"PISA {algorithm}" for algorithm in pisa.ALGORITHMS)):
                if not np.array_equal(scores[name], scores["PISA ranked_or"]):
                    raise AssertionError(f"{name}'s scores differ from PISA's at k = {k}")
    return {name: np.median(rounds, axis=0) / 1e6 for name, rounds in taken.items()}


def compared(
    work: str, times: Mapping[str, ratios.Values], k: int, best_goal: float | None
) -> Iterator[ratios.Row]:
    """Rows for one collection and k."""
    where = f"{work}, k = {k}"
    for statistic in ("mean", "p95"):
        for name, (ours, theirs, goal) in PAIRS.items():
            yield ratios.paired(
                f"{name} / PISA", where, times[ours], times[f"PISA {theirs}"],
                statistic=statistic, goal=goal,
            )  # fmt: skip
        cost = {name: ratios.reduced(each, statistic, axis=0) for name, each in times.items()}
        best = min((f"PISA {algorithm}" for algorithm in pisa.ALGORITHMS), key=cost.__getitem__)
        yield ratios.paired(
            "auto / PISA's best", where, times["auto"], times[best],
            statistic=statistic, goal=best_goal, note=best.removeprefix("PISA "),
        )  # fmt: skip
        own = min((name for name in SAFE if name != "auto"), key=cost.__getitem__)
        yield ratios.paired(
            "auto / our best safe mode", where, times["auto"], times[own],
            statistic=statistic, goal=1.1, note=own,
        )  # fmt: skip
        for name in SETTINGS:
            if name.startswith("DTHS"):
                yield ratios.paired(
                    f"{name} / VBMW", where, times[name], times["vbmw"], statistic=statistic,
                )  # fmt: skip
        yield ratios.paired(
            "DTHS / VBMW on the same postings", where, times["DTHS"],
            times["VBMW on both sides' postings"], statistic=statistic,
            goal=GUIDED_GOALS.get(k) if statistic == "mean" else None,
        )  # fmt: skip
        yield ratios.paired(
            "DTHS / safe hybrid by MaxScore", where, times["DTHS"], times["safe hybrid (auto)"],
            statistic=statistic,
        )  # fmt: skip


def quality(both: dual.Index, asked: Sequence[Query], work: str, k: int) -> Iterator[ratios.Row]:
    """How much of the safe hybrid ranking's top k each guided setting misses."""
    for name, setting in SETTINGS.items():
        if name.startswith("DTHS"):
            missed = []
            for query in asked:
                safe = search(both, query, {"algorithm": "auto", "beta": setting["beta"]}, k)[0]
                found = search(both, query, setting, k)[0]
                missed.append(1 - np.isin(safe, found).mean() if len(safe) else 0.0)
            yield ratios.row(f"{name}: share of the safe top k missed", f"{work}, k = {k}",
                             float(np.mean(missed)), 1.0, "")  # fmt: skip


def real(folder: Path, work: str, scratch: Path, count: int) -> Iterator[ratios.Row]:
    """Rows for the SPLADE weights of a finished run, e.g. results/demo/sparse/splade."""
    if not folder.is_dir():
        print(f"{folder}: absent, left out; run that config first", file=sys.stderr)
        return
    single, both = (
        dual.read(folder / "indexes" / folder.name / name) for name in ("learned", "union")
    )
    encoded = pd.read_parquet(folder / "queries.parquet")
    alone, mixed = (queries.by_query(encoded, index.lexicon) for index in (single, both))
    # PISA cannot weigh a term 0, nor can its repeated terms weigh thousands.
    pairs = [
        (Query(alone[i].terms, alone[i].bm25, alone[i].learned // QUERY_UNIT), mixed[i])
        for i in list(alone)[:count]
    ]
    side = learned_side(single.postings, single.partitions["fixed"])
    rival = pisa.Pisa(scratch / work, pisa.write(scratch / work, single, side))
    for k in DEPTHS:
        yield from compared(
            work, timed(single, both, rival, pairs, k), k, {10: 0.75, 1000: 0.20}.get(k)
        )
        yield from quality(both, [m for _, m in pairs], work, k)


def start(index: Path) -> Iterator[ratios.Row]:
    """Seconds from nothing to a first answer, with an empty and with a filled kernel cache."""
    program = (
        "import sys, time, numpy as np; t = time.perf_counter(); "
        "from espalier.sparse.index import read; from espalier.sparse.postings import Query; "
        "from espalier.sparse.retrieval import search; from pathlib import Path; "
        "i = read(Path(sys.argv[1])); "
        "q = Query(np.array([5]), np.array([1]), np.array([1])); "
        "[search(i, q, s, 10) for s in ({'algorithm': 'auto', 'beta': 0.0}, "
        "{'algorithm': 'vbmw', 'beta': 0.0}, {'algorithm': 'dths', 'alpha': 0.9, 'beta': 0.2, "
        "'f_s': 1, 'f_f': 1, 'threshold': 'dual', 'view': 'independent'})]; "
        "print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        for name, goal in (("cold start: imports, compilation", None), ("warm start", 2.0)):
            done = subprocess.run(
                [sys.executable, "-c", program, str(index)], check=True, capture_output=True,
                text=True, env={**os.environ, "NUMBA_CACHE_DIR": cache},
            )  # fmt: skip
            yield ratios.row(name, "auto, VBMW and DTHS, one query", float(done.stdout), 1.0, "s",
                             goal=goal)  # fmt: skip


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--build-only", action="store_true", help="measure the build and stop")
    parser.add_argument("--scratch", type=Path, help="folder for indexes (default: temporary)")
    parser.add_argument("--name", default="sparse", help="name of the results file")
    given = parser.parse_args()
    rows: list[ratios.Row] = []
    with tempfile.TemporaryDirectory(dir=given.scratch) as temporary:
        scratch = Path(temporary)
        made = synthetic_shards(given.documents, scratch / "shards")
        watch, started = Memory(), time.perf_counter()
        parts = turned(made, scratch / "inverted")
        work = f"{given.documents:,} documents"
        rows += [
            ratios.row("invert", work, time.perf_counter() - started, 1.0, "s",
                       note=f"{len(parts)} shards, one after another"),
            ratios.row("peak memory of inverting a shard", work, watch.stop(), 1.0, "GiB"),
        ]  # fmt: skip
        watch = Memory()
        started, before = time.perf_counter(), time.process_time()
        both = built(scratch / "union", parts)
        size = sum(path.stat().st_size for path in (scratch / "union").iterdir())
        postings = both.meta["postings"]
        peak = watch.stop()
        rows += [
            ratios.row("bytes a posting, both weights", work, size / postings, 1.0, "B", goal=6.5,
                       note=f"{postings:,} postings"),
            ratios.row("merge", work, time.perf_counter() - started, 1.0, "s",
                       note=f"{time.process_time() - before:.0f} CPU s"),
            ratios.row("peak memory of the merge", work, peak, 1.0, "GiB",
                       note="less the pages of mapped files, which the system can drop"),
        ]  # fmt: skip
        print(ratios.table(rows), flush=True)
        if not given.build_only:
            rows += list(start(scratch / "union"))
            for order in ("random order", "reordered"):
                options = {"reordered": order == "reordered"}
                if order == "reordered":
                    both = built(scratch / "union-reordered", parts, **options)
                single = built(scratch / f"learned {order}", parts, support="learned", **options)
                asked = synthetic_queries(both, given.documents, given.queries)
                pairs = [(query, query) for query in asked]
                side = learned_side(single.postings, single.partitions["fixed"])
                own = scratch / f"pisa {order}"
                rival = pisa.Pisa(own, pisa.write(own, single, side))
                for k in DEPTHS:
                    label = f"{work}, {order}"
                    times = timed(single, both, rival, pairs, k)
                    rows += compared(label, times, k, {10: 0.75, 1000: 0.45}.get(k))
                    rows += quality(both, asked, label, k)
            for folder, label in (
                ("results/demo/sparse/splade", "SPLADE, built-in collection"),
                ("results/trec-dl-2019/sparse/splade", "SPLADE, MS MARCO (30k subset)"),
            ):
                rows += real(Path(folder), label, scratch, given.queries)
        path = ratios.write(given.name, rows)
    print(ratios.table(rows))
    print(f"\n{path}")


if __name__ == "__main__":
    main()
