"""What all arms of an experiment share, so that they differ in their segments alone."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from espalier.best import ranker
from espalier.best.dev import Dev
from espalier.best.inputs import Pieces
from espalier.best.learner import Learner, Schedule
from espalier.best.ranker import Ranker
from espalier.best.scoring import score
from espalier.best.selection import best_segments, spread
from espalier.best.store import Store
from espalier.best.training import Choice, Instance
from espalier.errors import EspalierError
from espalier.models import devices
from espalier.models.locate import locate

PAIR = ["query_id", "doc_id"]


class Arms:
    """The store and the settings, and what training, selection and re-ranking make of them."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], threads: int) -> None:
        self.threads = threads
        devices.seeded(settings["seed"], threads)
        self.store = Store(folder)
        self.settings = settings
        self.layout = self.store.layout
        self.batch_tokens: int = settings["best"]["batch_tokens"]

    @cached_property
    def instances(self) -> pd.DataFrame:
        """query_id, positive, negative; EspalierError when there are none."""
        table = self.store.table("instances")
        if table.empty:
            raise EspalierError(
                f"{self.store.folder}: no training query has both a document judged relevant and "
                "an unjudged candidate; raise config key 'best.instances.depth' or the view's "
                "max_queries"
            )
        return table

    @cached_property
    def documents(self) -> dict[str, list[Pieces]]:
        """The leading segments of the training documents."""
        return self.store.segments("training")

    def training_pairs(self) -> pd.DataFrame:
        """query_id, doc_id of every document of the instances, once."""
        sides = [
            self.instances[["query_id", side]].set_axis(PAIR, axis=1)
            for side in ("positive", "negative")
        ]
        return pd.concat(sides).drop_duplicates(ignore_index=True)

    def training_instances(self) -> list[Instance]:
        """S, as word pieces."""
        queries = self.store.queries("train")
        return [
            Instance(queries[query_id], self.documents[positive], self.documents[negative])
            for query_id, positive, negative in self.instances.itertuples(index=False, name=None)
        ]

    def chosen(self, selected: pd.DataFrame) -> list[Choice]:
        """S with the segments of a selection (query_id, doc_id, segment)."""
        segment = selected.set_index(PAIR)["segment"].to_dict()
        rows = self.instances.itertuples(index=False, name=None)
        return [
            Choice(instance, segment[query_id, positive], segment[query_id, negative])
            for instance, (query_id, positive, negative) in zip(
                self.training_instances(), rows, strict=True
            )
        ]

    def learner(self, system: str) -> Learner:
        """A newly initialised ranker, ready to be trained; all arms start from the same weights."""
        devices.seeded(self.settings["seed"], self.threads)
        settings = self.settings["best"]
        fresh = ranker.new(
            locate(self.settings["models"]["ranker"]),
            mark=settings["ranker"]["exact_match_marking"],
        )
        schedule = Schedule(**{key: settings["training"][key] for key in Schedule.__annotations__})
        return Learner(system, fresh.to(devices.device()), self.layout, self.dev, schedule)

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

    def selection(self, trained: Ranker) -> pd.DataFrame:
        """I: query_id, doc_id, and the leading segment that is scored highest."""
        pairs = self.training_pairs()
        queries = self.store.queries("train")
        everything = spread(
            [queries[query_id] for query_id in pairs["query_id"]],
            [self.documents[doc_id] for doc_id in pairs["doc_id"]],
        )
        scores = score(trained, self.layout, everything.inputs, self.batch_tokens, "selection")
        return pairs.assign(segment=best_segments(scores, everything.starts))

    def test_scores(self, trained: Ranker) -> pd.DataFrame:
        """query_id, doc_id, segment, score, rank: all segments of all test pairs of the store."""
        pairs, queries = self.store.table("test"), self.store.queries("test")
        documents = self.store.segments("inference")
        everything = spread(
            [queries[query_id] for query_id in pairs["query_id"]],
            [documents[doc_id] for doc_id in pairs["doc_id"]],
        )
        scores = score(trained, self.layout, everything.inputs, self.batch_tokens, "re-ranking")
        sizes = [len(documents[doc_id]) for doc_id in pairs["doc_id"]]
        rows = pairs[[*PAIR, "rank"]].loc[pairs.index.repeat(sizes)].reset_index(drop=True)
        numbers = np.arange(len(rows)) - np.repeat(everything.starts, sizes)
        return rows.assign(segment=numbers, score=scores)


def finish(learners: Mapping[str, Learner], outputs: Mapping[str, Path]) -> dict[str, float]:
    """Save each ranker, in its best state, as the output of its name; write their history.

    Returns, for each, the dev measure before training and at its best, and the best epoch.
    """
    history = [epoch for learner in learners.values() for epoch in learner.history]
    pd.DataFrame(history).to_parquet(outputs["history"], index=False)
    metrics: dict[str, float] = {}
    for name, learner in learners.items():
        ranker.save(outputs[name], learner.finished())
        metrics |= {
            f"{learner.system}_dev_rr_untrained": learner.history[0].dev_rr,
            f"{learner.system}_dev_rr": learner.best.dev_rr,
            f"{learner.system}_best_epoch": learner.best.epoch,
            f"{learner.system}_loss": learner.history[-1].loss,
        }
    return metrics
