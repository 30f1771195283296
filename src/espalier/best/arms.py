"""What all arms of an experiment share, so that they differ in their segments alone."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from espalier.best import ranker
from espalier.best.dev import Dev
from espalier.best.inputs import Input, Pieces
from espalier.best.learner import Example, Learner, Schedule
from espalier.best.ranker import Ranker
from espalier.best.scoring import quantized
from espalier.best.selection import best_segments, score_blocks, shard, starts
from espalier.best.store import PAIR, Store
from espalier.best.training import Instance, chosen
from espalier.errors import EspalierError
from espalier.models import devices, parallel
from espalier.models.checkpoints import Checkpoint
from espalier.models.locate import locate


class Group(NamedTuple):
    """One of S by ids: a query, a positive, its negatives."""

    query_id: str
    positive: str
    negatives: list[str]


class Arms:
    """The store and the settings, and what training, selection and re-ranking make of them."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], threads: int) -> None:
        self.threads = threads
        devices.seeded(settings["seed"], threads)
        parallel.start(devices.device())
        self.store = Store(folder)
        self.settings = settings
        self.layout = self.store.layout
        self.batch_tokens: int = settings["best"]["batch_tokens"]

    @cached_property
    def groups(self) -> list[Group]:
        """S: every row of the instances for a pairwise loss, else a positive with all its rows."""
        rows = self.store.table("instances").itertuples(index=False, name=None)
        if self.settings["best"]["training"]["loss"] == "hinge":
            return [Group(query_id, positive, [negative]) for query_id, positive, negative in rows]
        negatives: dict[tuple[str, str], list[str]] = {}
        for query_id, positive, negative in rows:
            negatives.setdefault((query_id, positive), []).append(negative)
        return [Group(*pair, drawn) for pair, drawn in negatives.items()]

    @cached_property
    def documents(self) -> dict[str, list[Pieces]]:
        """The leading segments of the training documents."""
        return self.store.segments("training")

    @cached_property
    def queries(self) -> dict[str, Pieces]:
        """The training queries."""
        return self.store.queries("train")

    def training_pairs(self) -> pd.DataFrame:
        """query_id, doc_id of every document of the instances, once."""
        table = self.store.table("instances")
        sides = [
            table[["query_id", side]].set_axis(PAIR, axis=1) for side in ("positive", "negative")
        ]
        return pd.concat(sides).drop_duplicates(ignore_index=True)

    def instance(self, group: Group) -> Instance:
        """One of S, as word pieces."""
        return Instance(
            self.queries[group.query_id],
            self.documents[group.positive],
            [self.documents[negative] for negative in group.negatives],
        )

    def instances(self) -> list[Instance]:
        """S, as word pieces."""
        return list(map(self.instance, self.groups))

    def selected(self, selection: pd.DataFrame) -> list[Example]:
        """S with the segments of a selection (query_id, doc_id, segment)."""
        segment = selection.set_index(PAIR)["segment"].to_dict()
        return [
            chosen(
                self.instance(group),
                [segment[group.query_id, doc] for doc in (group.positive, *group.negatives)],
            )
            for group in self.groups
        ]

    def first(self) -> list[Example]:
        """S with first segments: FirstP and MaxP."""
        return self.selected(self.training_pairs().assign(segment=0))

    def random(self) -> list[Example]:
        """S with a random leading segment of each document: what selection is to be better than."""
        pairs = self.training_pairs()
        sizes = [len(self.documents[doc_id]) for doc_id in pairs["doc_id"]]
        generator = np.random.default_rng([self.settings["seed"], len(pairs)])
        return self.selected(pairs.assign(segment=generator.integers(sizes)))

    def gold(self) -> list[Example]:
        """S with the positives' known right segments, wherever they stand: GoldP.

        Positives without one are left out; negatives are as in `random`. Raises EspalierError when
        no positive has one.
        """
        table = self.store.table("gold")
        right = dict(
            zip(table[PAIR].itertuples(index=False, name=None), table["pieces"], strict=True)
        )
        examples = [
            Example([Input(self.queries[group.query_id], right[key])], drawn.negatives)
            for group, drawn in zip(self.groups, self.random(), strict=True)
            if (key := (group.query_id, group.positive)) in right
        ]
        if not examples:
            raise EspalierError(
                f"{self.store.folder}: no training query's answer is known, which GoldP is trained "
                "on; take 'goldp' out of config key 'best.arms'"
            )
        return examples

    def learner(self, system: str) -> Learner:
        """A newly initialised ranker, ready to be trained; all arms start from the same weights."""
        devices.seeded(self.settings["seed"], self.threads)
        settings = self.settings["best"]
        fresh = ranker.new(
            locate(self.settings["models"]["ranker"]),
            mark=settings["ranker"]["exact_match_marking"],
        )
        schedule = Schedule(**{key: settings["training"][key] for key in Schedule.__annotations__})
        return Learner(
            system,
            fresh.to(devices.device()),
            self.layout,
            self.dev,
            schedule,
            self.settings["seed"],
        )

    @cached_property
    def dev(self) -> Dev:
        """The dev measure."""
        return Dev.of(
            self.store.queries("dev"),
            self.store.table("dev"),
            self.store.segments("inference"),
            self.layout,
            self.batch_tokens,
        )

    def trained(self, folder: Path) -> Ranker:
        """A ranker that was saved."""
        return ranker.load(folder).to(devices.device())

    def selection(
        self, trained: Ranker, number: int, shards: int, checkpoint: Checkpoint
    ) -> pd.DataFrame:
        """One shard of I: query_id, doc_id, and the leading segment that is scored highest."""
        if self.settings["best"]["selection"]["int8"]:
            trained = quantized(trained)
        everything = self.training_pairs()
        own = shard(len(everything), number, shards)
        pairs = everything.iloc[own.start : own.stop].reset_index(drop=True)
        documents = [self.documents[doc_id] for doc_id in pairs["doc_id"]]
        scores = score_blocks(
            trained,
            self.layout,
            [self.queries[query_id] for query_id in pairs["query_id"]],
            documents,
            self.batch_tokens,
            checkpoint,
            "selection",
        )
        return pairs.assign(segment=best_segments(scores, starts(documents)))

    def test_scores(self, trained: Ranker, checkpoint: Checkpoint) -> pd.DataFrame:
        """query_id, doc_id, rank, segment, score: all segments of all test pairs of the store."""
        pairs, queries = self.store.table("test"), self.store.queries("test")
        segments = self.store.segments("inference")
        documents = [segments[doc_id] for doc_id in pairs["doc_id"]]
        scores = score_blocks(
            trained,
            self.layout,
            [queries[query_id] for query_id in pairs["query_id"]],
            documents,
            self.batch_tokens,
            checkpoint,
            "re-ranking",
        )
        sizes = list(map(len, documents))
        rows = pairs[[*PAIR, "rank"]].loc[pairs.index.repeat(sizes)].reset_index(drop=True)
        numbers = np.arange(len(rows)) - np.repeat(starts(documents), sizes)
        return rows.assign(segment=numbers, score=scores)


def finish(learners: Mapping[str, Learner], outputs: Mapping[str, Path]) -> dict[str, float]:
    """Save each ranker, in its best state, as the output of its name; write their history.

    Returns, for each, the best dev measure and its epoch, and the last loss.
    """
    history = [epoch for learner in learners.values() for epoch in learner.history]
    pd.DataFrame(history).to_parquet(outputs["history"], index=False)
    metrics: dict[str, float] = {}
    for name, learner in learners.items():
        ranker.save(outputs[name], learner.finished())
        metrics |= {
            f"{learner.system}_dev_rr": learner.best.dev_rr,
            f"{learner.system}_best_epoch": learner.best.epoch,
            f"{learner.system}_loss": learner.history[-1].loss,
        }
    return metrics
