"""sentence-transformers' CrossEncoder, run by the interpreter of an environment that has it.

    PYTHON benchmarks/best_peers.py score FOLDER THREADS
    PYTHON benchmarks/best_peers.py train FOLDER THREADS

FOLDER holds a model, its tokenizer and work.json: `blocks` of pairs to score and `steps` of
triples to train on, all texts. Takes its turn when told to: each line on standard input asks for
the next piece of work (scoring: `predict I` or `forward I`; training: `trainer` or `bare`), and is
answered by a line of JSON with the milliseconds that it took.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback

BATCH = 32

# The libraries print as they like; answers go where standard output was.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(clock, started: int, **more) -> None:
    """Tell how long it took."""
    ANSWERS.write(json.dumps({"ms": (clock() - started) / 1e6, **more}) + "\n")
    ANSWERS.flush()


def score(model: CrossEncoder, work: dict, clock) -> None:
    """`predict`: from texts to scores, as its users do. `forward`: the model alone.

    The latter's batches of 32 are tokenised, sorted by length and padded beforehand.
    """
    blocks = work["blocks"]
    ready: dict[int, list] = {}
    for line in sys.stdin:
        what, number = line.split()
        pairs = blocks[int(number)]
        if what == "predict":
            started = clock()
            scores = model.predict(pairs, batch_size=BATCH, activation_fn=torch.nn.Identity())
            answer(clock, started, scores=scores.tolist())
            continue
        if int(number) not in ready:
            lengths = [len(ids) for ids in model.tokenizer(*zip(*pairs, strict=True))["input_ids"]]
            order = sorted(range(len(pairs)), key=lengths.__getitem__)
            ready[int(number)] = [
                model.preprocess([pairs[i] for i in order[first : first + BATCH]])
                for first in range(0, len(pairs), BATCH)
            ]
        model.eval()
        started = clock()
        with torch.inference_mode():
            for features in ready[int(number)]:
                model(dict(features))
        answer(clock, started)


class Hinge(torch.nn.Module):
    """The pairwise hinge, written as sentence-transformers' own losses are."""

    def __init__(self, model: CrossEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs, labels, prompt=None, task=None):
        queries, positives, negatives = inputs
        pairs = list(zip([*queries, *queries], [*positives, *negatives], strict=True))
        return hinge(self.model, self.model.preprocess(pairs))


def hinge(model, features):
    positive, negative = model(dict(features))["scores"].view(-1).chunk(2)
    return torch.relu(1 - positive + negative).mean()


class Turns(TrainerCallback):
    """Waits for its turn at the end of each step."""

    def __init__(self, clock) -> None:
        self.clock, self.started = clock, clock()

    def on_step_end(self, args, state, control, **kwargs):
        answer(self.clock, self.started)
        sys.stdin.readline()
        self.started = self.clock()


def train(model: CrossEncoder, work: dict, folder: Path, clock) -> None:
    """First the trainer's steps, then those of a bare loop on pairs tokenised beforehand."""
    triples = [triple for step in work["steps"] for triple in step]
    size = len(work["steps"][0])
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(folder / "trained"), per_device_train_batch_size=size, num_train_epochs=1,
        learning_rate=work["learning_rate"], lr_scheduler_type="constant", max_grad_norm=1.0,
        report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True,
        use_cpu=True, dataloader_num_workers=0,
        batch_sampler=lambda dataset, batch_size, drop_last, **_: DefaultBatchSampler(
            SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last
        ),
    )  # fmt: skip
    queries, positives, negatives = map(list, zip(*triples, strict=True))
    columns = {"query": queries, "positive": positives, "negative": negatives}
    sys.stdin.readline()
    CrossEncoderTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=Hinge(model),
        callbacks=[Turns(clock)],
    ).train()  # fmt: skip
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), work["learning_rate"], fused=True)
    for step in work["steps"]:
        queries, positives, negatives = zip(*step, strict=True)
        features = model.preprocess(
            list(zip(queries + queries, positives + negatives, strict=True))
        )
        started = clock()
        loss = hinge(model, features)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        answer(clock, started)
        sys.stdin.readline()


def main() -> None:
    what, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    work = json.loads((folder / "work.json").read_text())
    model = CrossEncoder(str(folder), device="cpu", max_length=work["max_length"], num_labels=1)
    if what == "score":
        score(model, work, clock)
    else:
        train(model, work, folder, clock)


main()
