import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier import cli
from espalier.planning import estimate, units
from espalier.planning.units import Extent

CONFIG = {
    "papers": ["colbert"],
    "collections": {
        "passages": {"splits": {"test": "t"}, "max_queries": {"test": 500}},
        "training": {"splits": {"train": "t"}},
    },
    "colbert": {
        "encoder": {"query_length": 32},
        "index": {"sample": 0.05, "bits": 8},
        "latency": {"queries": 50},
        "retrieval": {"k_prime": 1000, "nprobe": 10},
        "shards": 4,
        "training": {"triples": 960},
    },
}


@given(st.floats(0, 100), st.floats(0, 10), st.floats(0, 1e-3))
def test_a_cost_of_known_factors_is_recovered(constant, first, second):
    rows = np.array([[10, 2500], [10, 10_000], [30, 30_000]], dtype=float)
    costs = constant + rows @ np.array([first, second])
    factors = estimate.fitted(rows, costs)
    whole = np.array([1, 500, 5e6])
    assert factors @ whole == pytest.approx(constant + 500 * first + 5e6 * second, rel=1e-6)


def test_no_factor_is_negative():
    rows, costs = np.array([[1.0], [2.0], [4.0]]), np.array([3.0, 2.0, 1.0])
    assert estimate.fitted(rows, costs).tolist() == pytest.approx([2.0, 0.0])


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

    small = {"query_length": 32, "k_prime": 25}
    config = {**CONFIG, "colbert": {**CONFIG["colbert"], "retrieval": small}}
    sample = Sample(config, {}, {})
    seen = Extent({"passages": 1000}, {}, retrieved=hit(1000, 32 * 25))
    found = units.documents_retrieved(CONFIG, 40_000, sample, seen)
    assert found == pytest.approx(hit(40_000, 32_000), rel=0.05)


def test_the_whole_is_foretold_from_what_the_sample_left_out():
    split = {"unanswerable": 3, "qrels": 9}
    snapshots = {
        "passages": {
            "documents": 1000,
            "documents_not_sampled": 9000,
            "test_queries": 10,
            "test_queries_not_sampled": 1490,
            **{f"test_{name}": count for name, count in split.items()},
        },
        "training": {
            "documents": 1000,
            "documents_not_sampled": 9000,
            "train_queries": 20,
            "train_queries_not_sampled": 80,
        },
    }
    metrics = {
        "colbert train": {"triples": 32},
        "colbert encode": {"embeddings": 70_000},
        "colbert sweep": {"documents_retrieved first-p32": 600.0, "queries": 10},
    }
    whole = units.extent_of_whole(CONFIG, Sample(CONFIG, snapshots, metrics))
    assert whole.documents == {"passages": 10_000, "training": 10_000}
    assert whole.queries == {"passages": {"test": 500}, "training": {"train": 100}}
    assert (whole.triples, whole.embeddings) == (960, 700_000)


def test_units_of_some_stages_by_hand():
    extent = Extent(
        {"passages": 10_000}, {"passages": {"test": 500}},
        triples=960, embeddings=700_000, retrieved=6000,
    )  # fmt: skip

    def of(stage, name=""):
        return units.units_of(CONFIG, extent, {"stage": stage, "name": name, "settings": {}})

    assert of("colbert train") == (960,)
    assert of("colbert encode") == (2500,)
    # 5% of 350,000 are 17,500 for k-means: 256 partitions of at least 39 (2^8 <= 17,500 / 39).
    assert of("colbert quantizer", "colbert-quantizer-0.5") == (700_000, 256 * 25 * 17_500)
    # In four shards.
    assert of("colbert invert", "colbert-invert-0.5-3") == (87_500, 256 * 87_500)
    assert of("colbert index", "colbert-index-0.5") == (350_000,)
    # 35,000 / 39 = 897: 512 partitions, of which 10 are searched; a document has 70 embeddings.
    pairs = 32 * (6000 * 70 + 512 + 700_000 * 10 / 512 / 8)
    assert of("colbert sweep") == (500, pytest.approx(500 * pairs))
    assert of("colbert latency") == (50, pytest.approx(50 * pairs))
    # So small a collection is searched whole.
    few = Extent({"passages": 100}, {"passages": {"test": 10}}, embeddings=7000, retrieved=90)
    sweep = {"stage": "colbert sweep", "name": "", "settings": {}}
    assert units.units_of(CONFIG, few, sweep) == (10, 10 * 32 * (90 * 70 + 7000))


def test_a_shard_of_the_sample_stands_for_all():
    sample = Sample({"colbert": {"shards": 1}}, {}, {})
    for stage, jobs in (("colbert encode", 4), ("colbert invert", 4), ("colbert index", 1)):
        assert units.jobs_like({"colbert": {"shards": 4}}, sample, {"stage": stage}) == jobs


def test_every_stage_of_the_chain_has_its_units():
    verbs = {verb.name for room in cli.ROOMS for verb in cli.room_of(room).verbs.values()}
    # CIFF files are made when they are asked for, not by the chain.
    assert verbs - {"sparse export"} == set(units.STAGES)


def test_an_unknown_stage_is_named():
    with pytest.raises(units.EspalierError, match="'best invent'; add its units"):
        units.units_of(CONFIG, Extent({}, {}), {"stage": "best invent"})
