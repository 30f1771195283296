import dataclasses

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier import cli
from espalier.planning import estimate, units
from espalier.planning.units import Extent

CONFIG = {
    "papers": ["colbert"],
    "seed": 1,
    "collections": {
        "passages": {"splits": {"test": "t"}, "max_queries": {"test": 500}},
        "training": {"splits": {"train": "t"}, "max_queries": {"train": None}},
        "documents": {"splits": {}},
    },
    "best": {
        "arms": ["maxp", "best"],
        "iterations": 2,
        "seeds": 1,
        "folds": None,
        "shards": 3,
        "segments": {"shortest": 0.5, "training": 4},
        "training": {"loss": "hinge", "epochs": 2, "theta0": "sampled", "dev_depth": 20},
        "reranking": {"depth": 100},
    },
    "colbert": {
        "encoder": {"query_length": 32},
        "index": {"sample": 0.05, "bits": 8},
        "latency": {"queries": 50},
        "retrieval": {"k_prime": 1000, "nprobe": 10, "depth": 50},
        "shards": 4,
        "training": {"triples": 960},
    },
    "sparse": {
        "shards": 5,
        "depth": 10,
        "latency_queries": 20,
        "latency_repeats": 3,
        "weightings": {"a": {"kind": "x"}, "b": {"kind": "x"}, "gone": None},
        "settings": [{"name": "x"}, {"name": "y", "k": 100}],
    },
}


def changed(paper, **keys):
    return {**CONFIG, paper: {**CONFIG[paper], **keys}}


@given(st.floats(0, 100), st.floats(0, 10), st.floats(0, 1e-3))
def test_a_cost_of_known_factors_is_recovered(constant, first, second):
    rows = np.array([[10, 2500], [10, 10_000], [30, 30_000]], dtype=float)
    costs = constant + rows @ np.array([first, second])
    factors = estimate.fitted(rows, costs)
    whole = np.array([1, 500, 5e6])
    assert factors @ whole == pytest.approx(constant + 500 * first + 5e6 * second, rel=1e-5)


def test_no_factor_is_negative():
    # A constant alone: (a/3 - 1)² + (a/2 - 1)² + (a - 1)² is least at a = (11/6) / (49/36).
    rows, costs = np.array([[1.0], [2.0], [4.0]]), np.array([3.0, 2.0, 1.0])
    assert estimate.fitted(rows, costs).tolist() == pytest.approx([66 / 49, 0.0])


def test_speed_in_distances_is_that_of_a_processor():
    # Of 32 dimensions a core computes between ten million and a trillion in a second.
    assert 1e7 < estimate.distance_speed(32) < 1e12


class Sample:
    """What `units` asks of a run."""

    def __init__(self, config, snapshots, metrics):
        self.config, self.snapshots, self.metrics = config, snapshots, metrics

    def view(self, name):
        return self.snapshots[name]

    def of_stage(self, stage):
        return [{"metrics": self.metrics[stage]}]

    def metric(self, stage, name):
        return self.metrics[stage][name]


def test_documents_retrieved_follow_draws_with_repetition():
    # Neighbours fall on documents at random: so many different ones are hit.
    draw = np.random.default_rng(5)

    def hit(documents, taken):
        return np.mean([len(set(draw.integers(documents, size=taken))) for _ in range(20)])

    found = units.spread(hit(1000, 800), 25, 1000, 1000, 40_000)
    assert found == pytest.approx(hit(40_000, 32_000), rel=0.05)


def test_all_documents_of_a_sample_do_not_mean_infinitely_many():
    assert 10_000 > units.spread(1000, 100, 100, 1000, 10_000) > 4000


def counted(documents, others, **splits):
    found = {"documents": documents, "documents_not_sampled": others}
    for split, (asked, not_sampled) in splits.items():
        found[f"{split}_queries"], found[f"{split}_queries_not_sampled"] = asked, not_sampled
    return found


def test_the_whole_is_foretold_from_what_the_sample_left_out():
    snapshots = {
        "passages": counted(1000, 9000, test=(10, 1490)),
        "training": counted(1000, 9000, train=(20, 80)),
    }
    metrics = {
        "colbert train": {"triples": 32},
        "colbert encode": {"embeddings": 70_000},
        "colbert sweep": {"documents_retrieved first-p32": 600.0, "queries": 10},
    }
    sampled = changed("colbert", retrieval={"k_prime": 100})
    whole = units.extent_of_whole(CONFIG, Sample(sampled, snapshots, metrics))
    assert whole.documents == {"passages": 10_000, "training": 10_000}
    assert whole.queries == {"passages": {"test": 500}, "training": {"train": 100}}
    assert (whole.triples, whole.embeddings) == (960, 700_000)
    # Ten times the embeddings of ten times the documents: the same share.
    assert whole.retrieved == {"first-p32": pytest.approx(6000)}


@pytest.mark.parametrize(("max_docs", "expected"), [(4000, 4000), (20_000, 10_000), (500, 1000)])
def test_an_experiment_s_own_sample_is_the_whole(max_docs, expected):
    # All 10,000 at most, and at least the sample's, which are those that its queries need.
    own = {**CONFIG["collections"]["passages"], "max_docs": max_docs}
    config = {**CONFIG, "papers": ["sparse"], "collections": {"passages": own}}
    snapshot = counted(1000, 9000, test=(10, 1490))
    whole = units.extent_of_whole(config, Sample(config, {"passages": snapshot}, {}))
    assert whole.documents == {"passages": expected}


BEST = {
    "best segment": {
        "instances": 30, "positives": 10, "documents": 100, "dev_pairs": 50, "test_pairs": 100,
    },
    "best rerank": {"segments": 700},
}  # fmt: skip


def test_one_fold_stands_for_all():
    config = changed("best", folds=["f1", "f2", "f3", "f4", "f5"])
    config["papers"] = ["best"]
    config["collections"] = {"documents": {"splits": dict.fromkeys(config["best"]["folds"], "t")}}
    sampled = changed("best", training={"dev_depth": 10}, reranking={"depth": 10})
    sampled["papers"] = ["best"]
    splits = {"train": "t", "dev": "t", "test": "t"}
    sampled["collections"] = {"documents": {"splits": splits}}
    snapshot = counted(5000, 15_000, train=(5, 45), dev=(5, 45), test=(10, 40))
    whole = units.extent_of_whole(config, Sample(sampled, {"documents": snapshot}, BEST))
    # Three folds of 50 are trained on, one is the dev, one the test.
    assert whole.queries["documents"] == {"train": 150, "dev": 50, "test": 50}
    assert (whole.instances, whole.positives) == (900, 300)
    # 50 of 100 pairs' 700 segments; ten times the queries, twice as deep.
    assert whole.dev_segments == 350 * 10 * 2
    assert whole.test_segments == 700 * 5 * 10
    assert whole.documents == {"documents": 20_000}
    assert 100 < whole.cut < 20_000


def test_passes_of_training_by_hand():
    extent = Extent({}, {}, instances=100, positives=40, dev_segments=1000)
    # Segments are 3/4 as long on average: 200 of them, forward and backward, twice.
    assert units.passes(CONFIG, extent) == 2 * (3 * 200 * 0.75 + 1000)
    # θ0 as well, its dev, and its scores of four leading segments of each document.
    alone = 3 * 150
    assert units.passes(CONFIG, extent, jointly=True) == 2 * (2 * (alone + 1000) + 4 * 150)
    pointwise = dict(CONFIG["best"]["training"], loss="cross-entropy", theta0="all")
    config = changed("best", training=pointwise)
    assert units.passes(config, extent) == 2 * (3 * 140 * 0.75 + 1000)
    alone = 3 * 105
    assert units.passes(config, extent, jointly=True) == 2 * (5 * alone + 2000 + 4 * 105)


def test_units_of_some_stages_by_hand():
    extent = Extent(
        {"passages": 10_000}, {"passages": {"test": 500}, "documents": {"test": 10}},
        triples=960, embeddings=700_000, retrieved={"first-p01": 30, "first-p32": 6000},
    )  # fmt: skip

    config = {**CONFIG, "papers": ["colbert", "sparse"]}

    def of(stage, cost="seconds", name="", **settings):
        record = {"stage": stage, "name": name, "settings": settings}
        return units.units_of(config, extent, record, cost)

    assert of("colbert train") == (960,)
    assert of("colbert train", "memory") == ()
    assert of("colbert encode") == (2500,)
    assert of("colbert index", name="colbert-index-0.5") == (350_000,)
    # In four shards.
    assert of("colbert invert", name="colbert-invert-0.5-3") == (87_500,)
    # 35,000 / 39 = 897: 512 partitions, of which 10 are searched; a document has 70 embeddings.
    pairs = 32 * (6000 * 70 + 512 + 700_000 * 10 / 512 / 8)
    assert of("colbert sweep") == (500, pytest.approx(500 * pairs))
    # A run of 30 lines a query, and one of 50.
    assert of("colbert sweep", "bytes") == (500 * 80,)
    assert of("colbert latency") == (50, pytest.approx(50 * pairs))
    assert of("sparse latency") == (80, 80 * 10_000)
    assert of("sparse retrieve", "bytes") == (500 * 2 * 110,)
    # Four rankers and `best` rank 100 documents for 10 queries.
    assert of("evaluation evaluate", paper="best") == (10 * 5 * 100,)
    assert of("tracking track", "bytes") == (500 * 80 + 500 * 2 * 110,)
    # So small a collection is searched whole.
    few = Extent({"passages": 100}, {"passages": {"test": 10}}, embeddings=7000, retrieved={"x": 9})
    sweep = {"stage": "colbert sweep", "name": "", "settings": {}}
    found = units.units_of(CONFIG, few, sweep, "seconds")
    assert found == (10, 10 * 32 * (9 * 70 + 7000))


def test_rounds_of_k_means_are_those_of_faiss():
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(16), 16, 4, 2, 8)
    assert (index.cp.niter, index.pq.cp.niter) == (units.PARTITION_ROUNDS, units.CODE_ROUNDS)
    most = {parameters.max_points_per_centroid for parameters in (index.cp, index.pq.cp)}
    assert most == {units.MOST_POINTS}


def test_distances_of_an_index_by_hand():
    extent = Extent({}, {}, embeddings=700_000)
    trained = {"stage": "colbert quantizer", "name": "colbert-quantizer-0.5"}
    coded = {"stage": "colbert invert", "name": "colbert-invert-0.5-3"}
    # 5% of 350,000 are 17,500 for k-means: 256 partitions of at least 39 (2^8 <= 17,500 / 39), and
    # 256 codes of each sub-quantizer; then a shard's quarter of 350,000 to each.
    assert units.distances(CONFIG, extent, trained) == 256 * (10 + 25) * 17_500
    assert units.distances(CONFIG, extent, coded) == 2 * 256 * 87_500
    large = dataclasses.replace(extent, embeddings=4e6)
    # 2,048 partitions on 100,000 points, of which 65,536 are enough for 256 codes.
    expected = 2048 * 10 * 100_000 + 256 * 25 * 65_536
    assert units.distances(CONFIG, large, trained) == expected
    assert units.distances(CONFIG, extent, {"stage": "colbert sweep", "name": "x"}) == 0


def test_jobs_are_shards_of_every_part():
    config = changed("best", folds=["f1", "f2", "f3"], seeds=2, shards=3)
    stages = ("best select", "best train", "best selection-quality", "colbert encode",
              "sparse expand", "colbert invert", "colbert index")  # fmt: skip
    assert [units.jobs_like(config, {"stage": s}) for s in stages] == [18, 6, 1, 4, 5, 4, 1]


def test_every_stage_of_the_chain_has_its_units():
    verbs = {verb.name for room in cli.ROOMS for verb in cli.room_of(room).verbs.values()}
    # CIFF files are made when they are asked for, not by the chain.
    assert verbs - {"sparse export"} == set(units.STAGES)


def test_an_unknown_stage_is_named():
    with pytest.raises(units.EspalierError, match="'best invent'; add its units"):
        units.units_of(CONFIG, Extent({}, {}), {"stage": "best invent"}, "seconds")
