import json
import math
import re
import shutil
from pathlib import Path

import pytest
import yaml

from espalier import cli
from espalier import config as configuration
from espalier.planning import estimate, plan, sampling, units
from espalier.planning.sampling import Run

ROOT = Path(__file__).parents[2]
CONFIG = configuration.load(ROOT)
DOCUMENTS = {"documents": 4000, "passages": 10_000, "training": 10_000}
ANSWERABLE = {"train": 5000, "dev": 600, "test": 1500}
EMBEDDINGS = 70
"""Of a document."""


def run_of(config, documents):
    """A chain's records: counts as its config says, costs linear in documents and queries."""
    queries = {
        view: {
            split: config["collections"][view].get("max_queries", {}).get(split, ANSWERABLE[split])
            for split in config["collections"][view]["splits"]
        }
        for view in documents
    }
    test, passages = queries["passages"]["test"], documents["passages"]
    long = queries["documents"]
    taken = 32 * config["colbert"]["retrieval"]["k_prime"]
    retrieved = passages * (1 - math.exp(-0.3 * taken / passages))
    jobs = [
        *(snapshot_of(view, documents[view], queries[view]) for view in documents),
        ("colbert-train", {"triples": config["colbert"]["training"]["triples"]}, {}, 1, 0),
        ("sparse-index", {}, {}, 2 + 0.001 * passages, 5000 * passages),
        ("sparse-encode-queries", {}, {}, 3 + 0.01 * test, 100 * test),
        ("evaluation-evaluate", {}, {"paper": "colbert"}, 1 + 0.1 * test, 200 * test),
        ("best-rerank", {}, {}, 4 + 0.5 * 80 * long["test"], 64 * long["test"]),
        ("colbert-sweep", {"documents_retrieved icf-p32": retrieved}, {}, 5, 4000 * test),
        (
            "best-segment",
            {
                "instances": 2 * long["train"],
                "documents": 40 * long["test"],
                "inference_segments": 320 * long["test"],
                "dev_pairs": 10 * long["dev"],
                "test_pairs": 10 * long["test"],
            },
            {}, 1, 0,
        ),
    ]  # fmt: skip
    shards = config["colbert"]["shards"]
    for shard in range(shards):
        each = passages / shards
        metrics = {"embeddings": EMBEDDINGS * each}
        jobs.append((f"colbert-encode-{shard}", metrics, {}, 5 + 0.02 * each, 256 * 70 * each))
    return Run(config, {job[0]: recorded(*job) for job in jobs})


def snapshot_of(view, count, queries):
    metrics = {"documents": count, "documents_not_sampled": DOCUMENTS[view] - count}
    for split, asked in queries.items():
        metrics[f"{split}_queries"] = asked
        metrics[f"{split}_queries_not_sampled"] = ANSWERABLE[split] - asked
    return f"collections-snapshot-{view}", metrics, {}, 1, 1000


def recorded(name, metrics, settings, seconds, written):
    return {
        "name": name,
        "stage": re.sub(r"-(\d|passages|documents|training)$", "", name).replace("-", " ", 1),
        "metrics": metrics,
        "settings": settings,
        "outputs": {"all": [{"bytes": written}]},
        "cost": {"started": 0, "cpu_seconds": seconds, "peak_memory_bytes": 1e9},
    }


def sample_of(size):
    config = json.loads(json.dumps(CONFIG))
    configuration.merge(config, sampling.overlay(CONFIG, size))
    return run_of(config, dict.fromkeys(DOCUMENTS, size.documents))


SAMPLES = [sample_of(size) for size in plan.sizes(CONFIG, 1000, 10_000)]
WHOLE = run_of(CONFIG, DOCUMENTS)


@pytest.fixture(scope="module")
def estimated():
    speed = estimate.Speed(core=50e9, gpu=50e12)
    return {row.stage: row for row in estimate.estimates(CONFIG, SAMPLES, speed)}


def test_what_grows_evenly_is_foretold_exactly(estimated):
    assert {job["stage"] for job in WHOLE.records.values()} == set(estimated)
    for stage, row in estimated.items():
        costs = [estimate.cost_of(job) for job in WHOLE.of_stage(stage)]
        seconds, written, memory = zip(*costs, strict=True)
        assert row.jobs == len(costs), stage
        assert row.bytes == pytest.approx(sum(written), rel=1e-6), stage
        assert row.core_hours * 3600 == pytest.approx(sum(seconds), rel=1e-6), stage
        assert row.memory == pytest.approx(max(memory)), stage


def test_counts_of_the_whole_are_foretold():
    whole, told = units.extent_of(WHOLE), units.extent_of_whole(CONFIG, SAMPLES[-1])
    assert told.documents == whole.documents
    assert told.queries == whole.queries
    assert told.retrieved == pytest.approx(whole.retrieved)
    assert told.embeddings == pytest.approx(whole.embeddings)
    assert told.test_segments == pytest.approx(whole.test_segments)
    assert told.instances == pytest.approx(whole.instances)


def test_gpu_hours_are_of_models_alone_and_follow_the_speeds(estimated):
    with_models = {stage for stage, row in estimated.items() if row.gpu_hours}
    assert with_models == {"colbert encode", "best rerank", "sparse encode-queries"}
    # What grows of 10,000 documents at 0.02 s, a thousand times as fast.
    assert estimated["colbert encode"].gpu_hours == pytest.approx(200 / 1000 / 3600)


@pytest.fixture
def planned(monkeypatch, tmp_path, pydocs_mini, capsys, caplog):
    """Run `espalier plan` with samples that have been run before; its status, output and log."""

    def run(*options, **changes):
        remaining = list(SAMPLES)
        monkeypatch.setattr(sampling, "run", lambda *_: remaining.pop(0))
        overlay = tmp_path / "overlay.yaml"
        ids = f"{pydocs_mini}/passages"
        view = {"docs": ids, "splits": {"test": f"{ids}/test"}}
        keys = {"results": str(tmp_path), "collections": {"passages": view}, **changes}
        overlay.write_text(yaml.safe_dump(keys))
        status = cli.main(["plan", "--config", str(overlay), *options])
        return status, capsys.readouterr().out, caplog.messages

    return run


def test_the_table_ends_with_the_sum(planned):
    status, out, _ = planned()
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("documents: ")
    assert lines[1].split() == [
        "stage", "jobs", "disk", "GiB", "memory", "GiB", "core-hours", "or", "GPU-hours",
    ]  # fmt: skip
    assert lines[-1].startswith("all ")


def test_the_json_holds_every_stage(planned):
    status, out, _ = planned("--json")
    rows = json.loads(out)
    assert status == 0
    assert rows[-1]["stage"] == "all"
    assert {row["stage"] for row in rows[:-1]} == {job["stage"] for job in WHOLE.records.values()}


def test_a_disk_that_is_too_small_is_refused(planned, monkeypatch, tmp_path):
    free = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    status, _, log = planned()
    assert status == 1
    line = log[-1]
    assert f"{tmp_path}: the results need " in line
    assert "the disk has 0.00 GiB free; free some space or set the config key 'results'" in line


def test_a_collection_that_does_not_exist_is_refused(planned):
    view = {"docs": "no/such", "splits": {"test": "no/such"}}
    status, _, log = planned(collections={"passages": view})
    assert status == 1
    assert log[-1].startswith("espalier: error: collection 'no/such' is unknown")


def test_samples_are_nested_in_size_and_retrieve_a_share(planned):
    config = {"colbert": {"retrieval": {"k_prime": 1000}}}
    small, large, asked = plan.sizes(config, 1000, 10_000)
    assert (small.documents, large.documents, asked.documents) == (250, 1000, 1000)
    assert small.queries == large.queries < asked.queries
    # 1000 of 10,000 documents' embeddings are 25 of 250 documents'.
    assert {size.k_prime for size in (small, large, asked)} == {25}
