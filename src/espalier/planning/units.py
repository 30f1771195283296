"""What each stage's cost grows with, in a run that was made and in one that is planned.

A stage's cost is a constant plus a factor for each of its units. Every unit is a count that
follows from the config and the size of the collections (`Extent`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from espalier import config as configuration
from espalier.errors import EspalierError
from espalier.planning.sampling import SHARDED, Config, Run

QUERIES_LIKE_ONE_DOCUMENT = 1 / 16000
"""BM25 indexes a document in the time in which it scores it for so many queries (measured)."""


@dataclass(frozen=True)
class Extent:
    """The counts that costs follow from."""

    documents: Mapping[str, int]
    """Of each view."""
    queries: Mapping[str, Mapping[str, int]]
    """Of each view's splits."""
    triples: int = 0
    embeddings: float = 0
    retrieved: float = 0
    """Documents that a query's embeddings retrieve together (mean)."""
    instances: float = 0
    """Training instances of BeST."""
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
        {view: queries_of(run.config, view, found, "queries") for view, found in counts.items()},
    )
    if "colbert" in run.config["papers"]:
        retrieved = next(iter(run.of_stage("colbert sweep")))["metrics"]
        extent = replace(
            extent,
            triples=int(run.metric("colbert train", "triples")),
            embeddings=run.metric("colbert encode", "embeddings"),
            retrieved=max(
                value for name, value in retrieved.items() if name.startswith("documents_retrieved")
            ),
        )
    if "best" in run.config["papers"]:
        metrics = next(iter(run.of_stage("best segment")))["metrics"]
        per_document = metrics["inference_segments"] / max(metrics["documents"], 1)
        extent = replace(
            extent,
            instances=metrics["instances"],
            cut=metrics["documents"],
            dev_segments=metrics["dev_pairs"] * per_document,
            test_segments=metrics["test_pairs"] * per_document,
        )
    return extent


def queries_of(config: Config, view: str, counts: Mapping[str, Any], name: str) -> dict[str, int]:
    """Queries of each split by the snapshot's counts."""
    return {split: counts[f"{split}_{name}"] for split in config["collections"][view]["splits"]}


def extent_of_whole(config: Config, sample: Run) -> Extent:
    """The counts of the planned run, as a sample of it foretells them."""
    seen = extent_of(sample)
    documents, queries = {}, {}
    for view in seen.documents:
        counts = sample.view(view)
        documents[view] = counts["documents"] + counts["documents_not_sampled"]
        limits = config["collections"][view].get("max_queries", {})
        answerable = {
            split: count + counts[f"{split}_queries_not_sampled"]
            for split, count in seen.queries[view].items()
        }
        queries[view] = {s: min(n, limits.get(s, n)) for s, n in answerable.items()}
    whole = Extent(documents, queries)
    if "colbert" in config["papers"]:
        training = config["colbert"]["training"]
        grown = documents["passages"] / seen.documents["passages"]
        whole = replace(
            whole,
            triples=training["triples"] if training else 0,
            embeddings=seen.embeddings * grown,
            retrieved=documents_retrieved(config, documents["passages"], sample, seen),
        )
    if "best" in config["papers"]:
        ratio = {s: n / seen.queries["documents"][s] for s, n in queries["documents"].items()}
        pairs = seen.instances * ratio["train"]
        scored = seen.dev_segments * ratio["dev"] + seen.test_segments * ratio["test"]
        per_pair = seen.cut / (seen.instances + seen.dev_segments + seen.test_segments)
        whole = replace(
            whole,
            instances=pairs,
            # A document is cut once, however many queries name it.
            cut=min(documents["documents"], per_pair * (pairs + scored)),
            dev_segments=seen.dev_segments * ratio["dev"],
            test_segments=seen.test_segments * ratio["test"],
        )
    return whole


def documents_retrieved(config: Config, documents: int, sample: Run, seen: Extent) -> float:
    """Documents that a query retrieves in the whole collection.

    h embeddings taken from D documents touch D (1 - exp(-c h / D)) of them, where c < 1 says how
    often neighbours share a document; c is the sample's.
    """
    length = config["colbert"]["encoder"]["query_length"]
    taken = sample.config["colbert"]["retrieval"]["k_prime"] * length
    few = seen.documents["passages"]
    share = min(seen.retrieved / few, 1 - 1 / few)
    c = -math.log1p(-share) * few / taken
    whole = config["colbert"]["retrieval"]["k_prime"] * length
    return documents * -math.expm1(-c * whole / documents)


def passes(config: Config, extent: Extent) -> float:
    """Forward passes of a segment in training one ranker.

    In every epoch: two segments of an instance, forward and backward (as three passes), and all
    segments of the dev candidates.
    """
    epochs = config["best"]["training"]["epochs"]
    return float(epochs * (6 * extent.instances + extent.dev_segments))


def tested(extent: Extent, paper: str) -> float:
    """Test queries of a paper."""
    return extent.queries[configuration.VIEWS[paper][0]]["test"]


def partitions(embeddings: float, config: Config) -> tuple[int, int]:
    """Partitions of an index of so many embeddings, and embeddings that it is trained on."""
    from espalier.colbert.quantizer import plan

    index = config["colbert"]["index"]
    planned = plan(int(embeddings), index["sample"], index["bits"])
    return planned.partitions, planned.sample


def quantizing(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Embeddings that are read; distances to centroids in 25 rounds of k-means."""
    lists, sample = partitions(kept(extent, record), config)
    return extent.embeddings, lists * 25 * sample


def coding(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Embeddings of one shard that are coded; distances to centroids."""
    coded = kept(extent, record)
    each = coded / config["colbert"]["shards"]
    return each, partitions(coded, config)[0] * each


def kept(extent: Extent, record: Mapping[str, Any]) -> float:
    """Embeddings of the index whose share ends its jobs' names ('colbert-invert-0.5-3')."""
    return extent.embeddings * float(record["name"].split("-")[2])


def searching(config: Config, extent: Extent, queries: float) -> tuple[float, ...]:
    """Queries; pairs of a query embedding and a document's, a centroid or a code compared.

    A code's distance is summed from tables, an eighth of the work.
    """
    lists, _ = partitions(extent.embeddings, config)
    nprobe = config["colbert"]["retrieval"]["nprobe"]
    codes = extent.embeddings * min(nprobe / lists, 1) if lists else 8 * extent.embeddings
    scored = extent.retrieved * extent.embeddings / extent.documents["passages"]
    length = config["colbert"]["encoder"]["query_length"]
    return queries, queries * length * (scored + lists + codes / 8)


Units = Callable[[Config, Extent, Mapping[str, Any]], tuple[float, ...]]
"""Units of one job, from its config, the counts and its record."""


def candidates(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Documents that BM25 indexes, with those that it scores; queries."""
    view = record["name"].removeprefix("collections-bm25-")
    queries = sum(extent.queries[view].values())
    return extent.documents[view] * (1 + queries * QUERIES_LIKE_ONE_DOCUMENT), queries


def sparse_latency(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Queries timed in every round and once to warm up, and these times documents."""
    sparse = config["sparse"]
    timed = min(sparse["latency_queries"], tested(extent, "sparse"))
    asked = timed * (1 + sparse["latency_repeats"])
    return asked, asked * extent.documents["passages"]


def jobs_like(config: Config, sample: Run, record: Mapping[str, Any]) -> float:
    """Jobs of the planned run that one job of the sample stands for."""
    for paper in SHARDED:
        if record["stage"] in (f"{paper} encode", f"{paper} expand", f"{paper} invert"):
            return float(config[paper]["shards"] / sample.config[paper]["shards"])
    return 1.0


def per_shard(paper: str) -> Units:
    """Documents of one of a paper's shards."""
    return lambda config, extent, record: (extent.documents["passages"] / config[paper]["shards"],)


def training(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """Passes of one ranker's training."""
    return (passes(config, extent),)


def nothing(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """No unit: the cost is the sample's."""
    return ()


STAGES: Mapping[str, Units] = {
    "collections snapshot": nothing,
    "collections bm25": candidates,
    "best segment": lambda c, e, r: (e.cut, e.documents["documents"]),
    "best describe": lambda c, e, r: (e.documents["documents"], e.cut),
    "best train-joint": training,
    "best train": training,
    "best select": lambda c, e, r: (e.instances,),
    "best rerank": lambda c, e, r: (e.test_segments,),
    "best pick": nothing,
    "best join-folds": nothing,
    "best selection-quality": lambda c, e, r: (e.test_segments,),
    "colbert train": lambda c, e, r: (e.triples,),
    "colbert codec": nothing,
    "colbert encode": per_shard("colbert"),
    "colbert quantizer": quantizing,
    "colbert invert": coding,
    "colbert index": lambda c, e, r: (kept(e, r),),
    "colbert sweep": lambda c, e, r: searching(c, e, tested(e, "colbert")),
    "colbert latency": lambda c, e, r: searching(
        c, e, min(c["colbert"]["latency"]["queries"], tested(e, "colbert"))
    ),
    "sparse expand": per_shard("sparse"),
    "sparse encode": per_shard("sparse"),
    "sparse invert": per_shard("sparse"),
    "sparse index": lambda c, e, r: (e.documents["passages"],),
    "sparse encode-queries": lambda c, e, r: (tested(e, "sparse"),),
    "sparse retrieve": lambda c, e, r: (
        tested(e, "sparse"),
        tested(e, "sparse") * e.documents["passages"],
    ),
    "sparse latency": sparse_latency,
    "evaluation evaluate": lambda c, e, r: (tested(e, r["settings"]["paper"]),),
    "evaluation adopt": nothing,
    "evaluation latencies": nothing,
    "evaluation reproduction": nothing,
    "evaluation claims": lambda c, e, r: (sum(tested(e, paper) for paper in c["papers"]),),
    "report render": nothing,
    "tracking track": nothing,
}
"""Every stage of the chain; a new one gets its line here."""

MODELS = ("best train", "best select", "best rerank", "colbert train", "colbert encode",
          "sparse expand", "sparse encode")  # fmt: skip
"""How the names of stages begin that can use a GPU."""


def units_of(config: Config, extent: Extent, record: Mapping[str, Any]) -> tuple[float, ...]:
    """The units of one job; EspalierError for a stage that nothing is known of."""
    stage = record["stage"]
    if stage not in STAGES:
        raise EspalierError(f"planning.units.STAGES: nothing about stage '{stage}'; add its units")
    return STAGES[stage](config, extent, record)
