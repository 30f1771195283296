import numpy as np
import pytest

from benchmarks import growth
from espalier.planning.sampling import Run

SIZES = np.array(growth.SIZES, dtype=float)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("constant", [0.0, 4.0])
def test_a_known_exponent_is_found_and_leads_to_the_cost_at_scale(exponent, constant):
    factor = 20 / 10_000**exponent
    found = growth.growth("x", growth.SIZES, constant + factor * SIZES**exponent, 0.02)
    assert found.exponent == pytest.approx(exponent, abs=0.01)
    assert found.low <= found.exponent <= found.high
    assert not found.flat
    expected = constant + factor * growth.MS_MARCO**exponent
    assert found.at_scale[1] <= expected <= found.at_scale[2]
    assert found.at_scale[0] == pytest.approx(expected, rel=0.05)


def test_the_interval_holds_the_exponent_about_as_often_as_it_says():
    draw = np.random.default_rng(3)
    truth = 4 + 80 * SIZES / 10_000
    held = 0
    for _ in range(100):
        noisy = truth * (1 + 0.03 * draw.standard_normal(len(SIZES)))
        found = growth.growth("x", growth.SIZES, noisy, 0.03)
        held += found.low <= 1 <= found.high
    assert 88 <= held <= 100


def test_noise_alone_is_flat():
    draw = np.random.default_rng(4)
    flat = [
        growth.growth("x", growth.SIZES, 4 * (1 + 0.03 * draw.standard_normal(4)), 0.03).flat
        for _ in range(50)
    ]
    assert sum(flat) >= 45


def test_of_a_flat_stage_only_the_known_part_leads_anywhere():
    found = growth.growth("x", growth.SIZES, np.full(4, 7.0), 0.02)
    assert found.flat
    assert found.at_scale is None
    known = np.array([0, 1, 2, 3, 3600])
    found = growth.growth("x", growth.SIZES, 7 + known[:-1], 0.02, known)
    assert found.flat
    assert found.at_scale == pytest.approx((3607, 3607, 3607))
    text = growth.printed([found], [found], growth.SIZES)
    assert text.endswith("| 1.0 [1.0, 1.0] |")


def test_a_known_part_is_left_out_of_the_exponent_and_put_in_at_scale():
    known = np.array([0, 1, 4, 16, 1e6])
    costs = 2 + 0.001 * SIZES + known[:-1]
    found = growth.growth("x", growth.SIZES, costs, 0.02, known)
    assert found.exponent == pytest.approx(1, abs=0.01)
    assert found.at_scale[0] == pytest.approx(1e6 + 2 + 0.001 * growth.MS_MARCO, rel=0.01)


def record(stage, started, seconds, peak):
    cost = {"started": started, "cpu_seconds": seconds, "peak_memory_bytes": peak}
    return {"stage": stage, "cost": cost}


def run(first, second, peak=100):
    return Run(
        {},
        {
            "late": record("late", 2, 7, 50),
            "encode-0": record("encode", 1, first, peak),
            "encode-1": record("encode", 1, second, 90),
        },
    )


def test_jobs_of_a_stage_add_up_in_time_and_the_largest_counts_in_memory():
    runs = [run(1, 2), run(3, 4, peak=80)]
    assert growth.stages_of(runs) == ["encode", "late"]
    assert growth.costs_of(runs, "encode", "cpu_seconds").tolist() == [3, 7]
    assert growth.costs_of(runs, "encode", "peak_memory_bytes").tolist() == [100, 90]


def test_noise_is_half_of_what_two_runs_differ_by_and_more():
    # 9 and 11 seconds are each 10% from their mean; two such errors differ by twice as much, and
    # the other stage has none: sqrt(2 * (0.1² + 0) / 2).
    first, again = [run(4, 5)], [run(5, 6)]
    assert growth.noise_of(first, again, "cpu_seconds") == pytest.approx(0.1)
    assert growth.noise_of(first, first, "cpu_seconds") == growth.LEAST_NOISE


def test_the_table_averages_rounds_and_says_what_is_flat():
    runs = [run(n / 500, n / 500) for n in growth.SIZES]
    again = [run(0.4, 0.6), run(5, 5)]
    rows = growth.table(runs, again, growth.SIZES, "cpu_seconds", {})
    assert rows[0].costs.tolist() == [1, 10, 20, 40]
    assert [row.flat for row in rows] == [False, True]
    text = growth.printed(rows, rows, growth.SIZES).splitlines()
    assert text[2].startswith("| encode | 1.0 / 10.0 / 20.0 / 40.0 | 1.00 [")
    assert text[3].startswith("| late | 7.0 / 7.0 / 7.0 / 7.0 | flat |")
    assert text[3].endswith("| flat |  |")
    result = growth.result_rows(rows, growth.SIZES, "cpu_seconds")
    assert (result[0]["name"], result[0]["ratio"]) == ("encode cpu_seconds", 1.0)
    assert result[1]["note"] == "7, 7, 7, 7 s; flat"


def test_a_larger_encoder_takes_its_operations_more():
    row = growth.Growth("colbert encode", SIZES, 1, 1, 1, flat=False, at_scale=(36000, 1, 1))
    # 12 layers of width 768 against 3 of 384: sixteen times the weights, of ten hours.
    text = growth.meaning([row], {"colbert": {"encoder": {"layers": 3}}})
    assert "BERT-base (16 times the operations a token): 160 CPU hours" in text


def test_distances_are_counted_for_the_shards_that_a_run_had():
    config = {
        "papers": ["colbert"],
        "collections": {"passages": {"splits": {"test": "t"}}},
        "colbert": {"training": None, "shards": 1, "index": {"sample": 0.05, "bits": 8}},
    }
    metrics = {
        "collections-snapshot-passages": {"documents": 10_000, "test_queries": 4},
        "colbert-train": {"triples": 0},
        "colbert-encode-0": {"embeddings": 700_000},
        "colbert-quantizer-0.5": {},
        "colbert-invert-0.5-0": {},
        "colbert-sweep": {},
    }
    records = {
        name: {"name": name, "stage": " ".join(name.split("-")[:2]), "metrics": told}
        for name, told in metrics.items()
    }
    # Each of 350,000 embeddings to 256 centroids and 256 codes. Of 8,841,823 documents there are
    # 309,463,805: 2^18 centroids, the power above 8 sqrt(n) = 140,733.
    found = growth.distances_of([Run(config, records)], "colbert invert", 1e6)
    assert found.tolist() == pytest.approx([179.2, (2**18 + 256) * 309.463805])
