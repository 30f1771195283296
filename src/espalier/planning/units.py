"""What each stage's cost grows with, in a run that was made and in one that is planned.

A stage's cost is a constant plus a factor for each of its units. Every unit is a count that
follows from the config and the size of the collections (`Extent`). A sample has one shard, one
replicate and one fold, which stand for all.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from espalier import config as configuration
from espalier.best import parts
from espalier.errors import EspalierError
from espalier.planning.sampling import TRACKED, Config, Run

QUERIES_LIKE_ONE_DOCUMENT = 1 / 16000
"""BM25 indexes a document in the time in which it scores it for so many queries (measured)."""

PARTITION_ROUNDS, CODE_ROUNDS, MOST_POINTS = 10, 25, 256
"""Rounds of FAISS's k-means for partitions and for codes, and the points for each centroid that it
sees at most: the defaults of its `IndexIVFPQ` (tests/planning asks it)."""


@dataclass(frozen=True)
class Extent:
    """The counts that costs follow from."""

    documents: Mapping[str, int]
    """Of each view."""
    queries: Mapping[str, Mapping[str, int]]
    """Of each view's splits; of the long documents' by role, in one part of the experiment."""
    triples: int = 0
    embeddings: float = 0
    retrieved: Mapping[str, float] = field(default_factory=dict)
    """Documents that each pruned system retrieves for a query (mean)."""
    instances: float = 0
    """Training instances of BeST: pairs of a positive and a negative."""
    positives: float = 0
    cut: float = 0
    """Long documents that are cut into segments."""
    dev_segments: float = 0
    test_segments: float = 0
    """Segments scored for all dev or test queries."""


def extent_of(run: Run) -> Extent:
    """The counts of a run that was made."""
    views = configuration.views_of(run.config)
    counts = {view: run.view(view) for view in views}
    extent = Extent(
        {view: found["documents"] for view, found in counts.items()},
        {view: queries_of(run.config, view, found) for view, found in counts.items()},
    )
    if "colbert" in run.config["papers"]:
        told = next(iter(run.of_stage("colbert sweep")))["metrics"]
        prefix = "documents_retrieved "
        extent = replace(
            extent,
            triples=int(run.metric("colbert train", "triples")),
            embeddings=run.metric("colbert encode", "embeddings"),
            retrieved={
                name.removeprefix(prefix): mean
                for name, mean in told.items()
                if name.startswith(prefix)
            },
        )
    if "best" in run.config["papers"]:
        told = next(iter(run.of_stage("best segment")))["metrics"]
        scored = next(iter(run.of_stage("best rerank")))["metrics"]["segments"]
        extent = replace(
            extent,
            instances=told["instances"],
            positives=told["positives"],
            cut=told["documents"],
            dev_segments=told["dev_pairs"] * scored / told["test_pairs"],
            test_segments=scored,
        )
    return extent


def queries_of(config: Config, view: str, counts: Mapping[str, Any]) -> dict[str, int]:
    """Queries of each split by the snapshot's counts."""
    splits = configuration.view_of(config, view)["splits"]
    return {split: counts[f"{split}_queries"] for split in splits}


def extent_of_whole(config: Config, sample: Run) -> Extent:
    """The counts of the planned run, as a sample of it foretells them."""
    seen = extent_of(sample)
    documents: dict[str, int] = {}
    queries: dict[str, dict[str, int]] = {}
    for view in seen.documents:
        counts = sample.view(view)
        own = configuration.view_of(config, view)
        every = counts["documents"] + counts["documents_not_sampled"]
        # Those relevant to the queries are kept, however many.
        documents[view] = max(min(every, own.get("max_docs", every)), counts["documents"])
        limits = own.get("max_queries", {})
        folds = config["best"]["folds"] if view == "documents" else None
        queries[view] = {}
        for split, count in seen.queries[view].items():
            answerable = count + counts[f"{split}_queries_not_sampled"]
            if folds and split == "train":
                answerable *= len(folds) - 2
            queries[view][split] = min(answerable, limits.get(split, answerable))
    whole = Extent(documents, queries)
    if "colbert" in config["papers"]:
        training = config["colbert"]["training"]
        grown = documents["passages"] / seen.documents["passages"]
        taken = [c["colbert"]["retrieval"]["k_prime"] for c in (sample.config, config)]
        of = [extent.documents["passages"] for extent in (seen, whole)]
        whole = replace(
            whole,
            triples=training["triples"] if training else 0,
            embeddings=seen.embeddings * grown,
            retrieved={name: spread(n, *taken, *of) for name, n in seen.retrieved.items()},
        )
    if "best" in config["papers"]:
        ratio = {s: n / seen.queries["documents"][s] for s, n in queries["documents"].items()}
        dev, test = (a / b for a, b in zip(depths(config), depths(sample.config), strict=True))
        whole = replace(
            whole,
            instances=seen.instances * ratio["train"],
            positives=seen.positives * ratio["train"],
            dev_segments=seen.dev_segments * ratio["dev"] * dev,
            test_segments=seen.test_segments * ratio["test"] * test,
        )
        of = [extent.documents["documents"] for extent in (seen, whole)]
        whole = replace(whole, cut=spread(seen.cut, sides(seen), sides(whole), *of))
    return whole


def spread(hit: float, taken: float, taken_whole: float, of: int, of_whole: int) -> float:
    """How many of `of_whole` documents `taken_whole` draws hit, when `taken` hit `hit` of `of`.

    h draws from D documents hit D (1 - exp(-c h / D)) of them, where c says how often draws fall
    together; it is the same for both.
    """
    c_taken = -math.log1p(-min(hit / of, 1 - 1 / of)) * of
    return of_whole * -math.expm1(-c_taken * taken_whole / taken / of_whole)


def depths(config: Config) -> tuple[int, int]:
    """Candidates that BeST scores for a dev query and for a test query."""
    best = config["best"]
    return best["training"]["dev_depth"], best["reranking"]["depth"]


def sides(extent: Extent) -> float:
    """What names a long document: instances and scored segments, as these grow with candidates."""
    return 2 * extent.instances + extent.dev_segments + extent.test_segments


def passes(config: Config, extent: Extent, *, jointly: bool = False) -> float:
    """Forward passes of a longest segment in training one ranker, or θ0 and θ1.

    In every epoch: a segment of each document of an instance, forward and backward (as three
    passes), and all segments of the dev candidates. Training segments have lengths drawn between
    `shortest` and 1. θ0 has one or all leading segments, and scores all for θ1.
    """
    best = config["best"]
    training, segments = best["training"], best["segments"]
    others = extent.instances if training["loss"] == "hinge" else extent.positives
    trained = (extent.instances + others) * (1 + segments["shortest"]) / 2
    each = 3 * trained + extent.dev_segments
    if jointly:
        theta0 = 1 if training["theta0"] == "sampled" else segments["training"]
        each += 3 * trained * theta0 + trained * segments["training"] + extent.dev_segments
    return float(training["epochs"] * each)


def tested(config: Config, extent: Extent, paper: str) -> int:
    """Queries of a paper's runs, counted again for each replicate and fold."""
    asked = extent.queries[configuration.VIEWS[paper][0]]["test"]
    return asked * (len(parts.parts(config)) if paper == "best" else 1)


def lines(config: Config, extent: Extent, paper: str) -> float:
    """Lines of a paper's runs."""
    asked = tested(config, extent, paper)
    if paper == "best":
        return asked * len(parts.ranked(config)) * float(config["best"]["reranking"]["depth"])
    most = extent.documents["passages"]
    if paper == "colbert":
        depth = float(config["colbert"]["retrieval"]["depth"])
        return asked * sum(min(depth, found) for found in extent.retrieved.values())
    sparse = config["sparse"]
    kept = [float(setting.get("k", sparse["depth"])) for setting in sparse["settings"]]
    return asked * len(configuration.weightings_of(config)) * sum(min(k, most) for k in kept)


def partitions(embeddings: float, config: Config) -> tuple[int, int]:
    """Partitions of an index of so many embeddings, and embeddings that it is trained on."""
    from espalier.colbert.quantizer import plan

    index = config["colbert"]["index"]
    planned = plan(int(embeddings), index["sample"], index["bits"])
    return planned.partitions, planned.sample


def kept(extent: Extent, record: Mapping[str, Any]) -> float:
    """Embeddings of the index whose share ends its jobs' names ('colbert-invert-0.5-3')."""
    return extent.embeddings * float(record["name"].split("-")[2])


def distances(config: Config, extent: Extent, record: Mapping[str, Any]) -> float:
    """Distances to centroids that a job computes: k-means, or where each embedding belongs.

    Both for the partitions and for the codes of the sub-quantizers, which are so many parts of a
    distance to each of 2^bits centroids. k-means sees some points of a larger sample.
    """
    if record["stage"] not in CENTROIDS:
        return 0.0
    held = kept(extent, record)
    lists, sample = partitions(held, config)
    codes = 2 ** int(config["colbert"]["index"]["bits"]) if lists else 0
    if record["stage"] == "colbert invert":
        return (lists + codes) * held / int(config["colbert"]["shards"])
    return sum(
        centroids * rounds * min(sample, MOST_POINTS * centroids)
        for centroids, rounds in ((lists, PARTITION_ROUNDS), (codes, CODE_ROUNDS))
    )


def searching(config: Config, extent: Extent, queries: float) -> tuple[float, ...]:
    """Queries; pairs of a query embedding and a document's, a centroid or a code compared.

    A code's distance is summed from tables, an eighth of the work.
    """
    lists, _ = partitions(extent.embeddings, config)
    nprobe = config["colbert"]["retrieval"]["nprobe"]
    codes = extent.embeddings * min(nprobe / lists, 1) if lists else 8 * extent.embeddings
    found = max(extent.retrieved.values())
    scored = found * extent.embeddings / extent.documents["passages"]
    length = config["colbert"]["encoder"]["query_length"]
    return queries, queries * length * (scored + lists + codes / 8)


Units = Callable[[Config, Extent, Mapping[str, Any]], tuple[float, ...]]
"""Units of one job, from its config, the counts and its record."""


def candidates(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Documents that BM25 indexes, with those that it scores; queries."""
    view = record["name"].removeprefix("collections-bm25-")
    queries = sum(extent.queries[view].values())
    return extent.documents[view] * (1 + queries * QUERIES_LIKE_ONE_DOCUMENT), queries


def indexed(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Documents of a view."""
    return (extent.documents[record["name"].removeprefix("collections-bm25-")],)


def sparse_latency(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Queries timed in every round and once to warm up, and these times documents."""
    sparse = config["sparse"]
    timed = min(sparse["latency_queries"], tested(config, extent, "sparse"))
    asked = timed * (1 + sparse["latency_repeats"])
    return asked, asked * extent.documents["passages"]


def colbert_latency(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """As `searching`, for the queries that are timed."""
    timed = min(config["colbert"]["latency"]["queries"], tested(config, extent, "colbert"))
    return searching(config, extent, timed)


def jobs_like(config: Config, record: Mapping[str, Any]) -> int:
    """Jobs of the planned run that one job of a sample stands for."""
    stage = record["stage"]
    shards = {
        "colbert encode": config["colbert"]["shards"],
        "colbert invert": config["colbert"]["shards"],
        "sparse encode": config["sparse"]["shards"],
        "sparse invert": config["sparse"]["shards"],
        "sparse expand": config["sparse"]["shards"],
        "best select": config["best"]["shards"],
    }
    each = len(parts.parts(config)) if stage in OF_A_PART else 1
    return int(shards.get(stage, 1)) * each


def per_shard(paper: str) -> Units:
    """Documents of one of a paper's shards."""
    return lambda config, extent, record: (extent.documents["passages"] / config[paper]["shards"],)


def passages(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Passages."""
    return (extent.documents["passages"],)


def evaluated(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Queries of the paper that is evaluated."""
    return (tested(config, extent, record["settings"]["paper"]),)


def nothing(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """No unit: the cost is the sample's."""
    return ()


class Growth(NamedTuple):
    """The units of a stage's CPU seconds, and of its bytes and memory if these have others."""

    seconds: Units
    bytes: Units | None = None
    memory: Units | None = None

    def of(self, cost: str) -> Units:
        """The units of one of `COSTS`."""
        return {"bytes": self.bytes, "memory": self.memory}.get(cost) or self.seconds


TRAINING = Growth(lambda c, e, r: (passes(c, e),), nothing, nothing)

STAGES: Mapping[str, Growth] = {
    "collections snapshot": Growth(nothing),
    "collections bm25": Growth(candidates, lambda c, e, r: candidates(c, e, r)[1:], indexed),
    "best segment": Growth(
        lambda c, e, r: (e.cut, e.documents["documents"]),
        lambda c, e, r: (e.cut,),
        lambda c, e, r: (e.cut,),
    ),
    "best describe": Growth(lambda c, e, r: (e.documents["documents"], e.cut), nothing),
    "best train-joint": Growth(lambda c, e, r: (passes(c, e, jointly=True),), nothing, nothing),
    "best train": TRAINING,
    "best select": Growth(lambda c, e, r: (e.instances / c["best"]["shards"],), memory=nothing),
    "best rerank": Growth(lambda c, e, r: (e.test_segments,), memory=nothing),
    "best pick": Growth(lambda c, e, r: (e.test_segments,)),
    "best join-folds": Growth(nothing),
    "best selection-quality": Growth(lambda c, e, r: (len(parts.parts(c)) * e.test_segments,)),
    "colbert train": Growth(lambda c, e, r: (e.triples,), nothing, nothing),
    "colbert codec": Growth(
        lambda c, e, r: (e.documents["passages"] * c["colbert"]["store"]["sample"],), nothing
    ),
    "colbert encode": Growth(per_shard("colbert")),
    "colbert quantizer": Growth(
        lambda c, e, r: (e.embeddings,),
        nothing,
        lambda c, e, r: (partitions(kept(e, r), c)[1],),
    ),
    "colbert invert": Growth(lambda c, e, r: (kept(e, r) / c["colbert"]["shards"],)),
    "colbert index": Growth(lambda c, e, r: (kept(e, r),), memory=nothing),
    "colbert sweep": Growth(
        lambda c, e, r: searching(c, e, tested(c, e, "colbert")),
        lambda c, e, r: (lines(c, e, "colbert"),),
        lambda c, e, r: (e.embeddings, lines(c, e, "colbert")),
    ),
    "colbert latency": Growth(
        colbert_latency,
        lambda c, e, r: colbert_latency(c, e, r)[:1],
        lambda c, e, r: (e.embeddings,),
    ),
    "sparse expand": Growth(per_shard("sparse")),
    "sparse encode": Growth(per_shard("sparse")),
    "sparse invert": Growth(per_shard("sparse")),
    "sparse index": Growth(passages),
    "sparse encode-queries": Growth(lambda c, e, r: (tested(c, e, "sparse"),), memory=nothing),
    "sparse retrieve": Growth(
        lambda c, e, r: (
            tested(c, e, "sparse"),
            tested(c, e, "sparse") * e.documents["passages"],
        ),
        lambda c, e, r: (lines(c, e, "sparse"),),
        lambda c, e, r: (e.documents["passages"], lines(c, e, "sparse")),
    ),
    "sparse latency": Growth(sparse_latency, lambda c, e, r: sparse_latency(c, e, r)[:1], passages),
    "evaluation evaluate": Growth(
        lambda c, e, r: (lines(c, e, r["settings"]["paper"]),), evaluated
    ),
    "evaluation adopt": Growth(nothing),
    "evaluation latencies": Growth(nothing),
    "evaluation reproduction": Growth(nothing),
    "evaluation claims": Growth(
        lambda c, e, r: (sum(tested(c, e, paper) for paper in c["papers"]),)
    ),
    "report render": Growth(nothing),
    TRACKED: Growth(nothing, lambda c, e, r: (sum(lines(c, e, paper) for paper in c["papers"]),)),
}
"""Every stage of the chain; a new one gets its line here."""

OF_A_PART = ("best segment", "best train-joint", "best train", "best select", "best rerank",
             "best pick")  # fmt: skip
"""Stages that run in each part of an experiment."""

HELD = {"best train-joint": 1, "best train": 1, "best select": 2, "best rerank": 2}
"""Bytes of memory for a byte of segments that a stage holds, beside what a batch takes: that is
reached in a sample, and grows no further."""

CENTROIDS = ("colbert quantizer", "colbert invert")
"""Stages whose distances are counted apart."""

MODELS = ("best train", "best select", "best rerank", "colbert train", "colbert encode",
          "sparse expand", "sparse encode")  # fmt: skip
"""How the names of stages begin that can use a GPU."""


def units_of(
    config: Config, extent: Extent, record: Mapping[str, Any], cost: str
) -> tuple[float, ...]:
    """The units of a job's `cost`; EspalierError for a stage that nothing is known of."""
    stage = record["stage"]
    if stage not in STAGES:
        raise EspalierError(f"planning.units.STAGES: nothing about stage '{stage}'; add its units")
    return STAGES[stage].of(cost)(config, extent, record)
