import argparse
import json
import math
import re
import shutil
from pathlib import Path

import pytest
import yaml

from espalier import cli
from espalier import config as configuration
from espalier.collections import access
from espalier.planning import estimate, plan, sampling, units
from espalier.planning.sampling import Run
from espalier.tracking import records

ROOT = Path(__file__).parents[2]
CONFIG = configuration.load(ROOT)
DOCUMENTS = {"documents": 4000, "passages": 10_000, "training": 10_000}
ANSWERABLE = {"train": 5000, "dev": 600, "test": 1500}
EMBEDDINGS = 70
"""Of a document."""
SEGMENTS = 7
"""Of a document that is scored."""
SPEED = estimate.Speed(core=50e9, gpu=50e12, distances=1e9)


def run_of(config, documents, beside=0.0):
    """A chain's records: counts as its config says, costs linear in documents and queries."""
    queries = {
        view: {
            split: config["collections"][view].get("max_queries", {}).get(split, ANSWERABLE[split])
            for split in config["collections"][view]["splits"]
        }
        for view in configuration.views_of(config)
    }
    jobs = [snapshot_of(view, documents[view], queries[view]) for view in queries]
    test, passages = queries["passages"]["test"], documents["passages"]
    taken = 32 * config["colbert"]["retrieval"]["k_prime"]
    retrieved = passages * (1 - math.exp(-0.3 * taken / passages))
    held = EMBEDDINGS * passages / 2
    partitions, sample = units.partitions(held, config)
    lists, seen = partitions + 256 if partitions else 0, min(sample, 65536)
    clustered = (10 * partitions * sample + 25 * 256 * seen) / 1e9 if partitions else 0
    lines = min(50, retrieved) * test
    jobs += [
        ("colbert-train", {"triples": config["colbert"]["training"]["triples"]}, {}, 1, 0),
        (
            *("colbert-quantizer-0.5", {}, {}, 1 + clustered + 2e-6 * held, 5000),
            3e8 + 512 * sample,
        ),
        ("colbert-index-0.5", {}, {}, 1 + 1e-6 * held, 20 * held),
        (
            *("colbert-sweep", {"documents_retrieved icf-p32": retrieved}, {}, 5, 9 * lines),
            6e8 + 260 * EMBEDDINGS * passages + 100 * lines,
        ),
        (
            *("sparse-index", {}, {}, 2 + 0.001 * passages, 5000 * passages),
            4e8 + 20_000 * passages,
        ),
        ("sparse-encode-queries", {}, {}, 3 + 0.01 * test, 100 * test),
        (
            *("sparse-retrieve", {}, {}, 1 + 0.02 * test + 3e-6 * test * passages, 0),
            4e8 + 9000 * passages,
        ),
        ("evaluation-evaluate", {}, {"paper": "colbert"}, 1 + 0.001 * lines, 200 * test),
    ]
    shards = config["colbert"]["shards"]
    for shard in range(shards):
        each = passages / shards
        metrics = {"embeddings": EMBEDDINGS * each}
        encoded = (f"colbert-encode-{shard}", metrics, {}, 5 + 0.02 * each, 256 * 70 * each)
        jobs.append((*encoded, 5e8 + 1e5 * each))
        own = held / shards
        coded = 1 + lists * own / 1e9 + 1e-6 * own
        jobs.append((f"colbert-invert-0.5-{shard}", {}, {}, coded, 24 * own, 3e8 + 48 * own))
    if "best" in config["papers"]:
        jobs += long_documents(config, documents["documents"], queries["documents"])
    return Run(config, {job[0]: recorded(*job) for job in jobs}, beside)


def long_documents(config, count, queries):
    best = config["best"]
    dev = best["training"]["dev_depth"] * queries["dev"]
    test = best["reranking"]["depth"] * queries["test"]
    instances = 2 * queries["train"]
    named = 2 * instances + SEGMENTS * (dev + test)
    cut = count * (1 - math.exp(-0.8 * named / count))
    metrics = {
        "instances": instances, "positives": instances, "documents": cut,
        "dev_pairs": dev, "test_pairs": test,
    }  # fmt: skip
    trained = 2 * instances * (1 + best["segments"]["shortest"]) / 2
    passes = best["training"]["epochs"] * (3 * trained + SEGMENTS * dev)
    scored = SEGMENTS * test
    return [
        ("best-segment", metrics, {}, 3 + 0.002 * cut, 1400 * cut),
        ("best-train", {}, {}, 4 + 0.001 * passes, 16_000_000, 1e9 + 1400 * cut),
        (
            *("best-rerank", {"segments": scored}, {}, 4 + 0.001 * scored, 64 * scored),
            1e9 + 2 * 1400 * cut,
        ),
    ]


def snapshot_of(view, count, queries):
    metrics = {"documents": count, "documents_not_sampled": DOCUMENTS[view] - count}
    for split, asked in queries.items():
        metrics[f"{split}_queries"] = asked
        metrics[f"{split}_queries_not_sampled"] = ANSWERABLE[split] - asked
    return f"collections-snapshot-{view}", metrics, {}, 1, 1000


def recorded(name, metrics, settings, seconds, written, peak=1e9):
    return {
        "name": name,
        "format": records.FORMAT,
        "stage": re.sub(r"(-[\d.]+)+$|-(passages|documents|training)$", "", name).replace(
            "-", " ", 1
        ),
        "metrics": metrics,
        "settings": settings,
        "outputs": {"all": [{"path": "x", "bytes": written}]},
        "inputs": {},
        "cost": {"started": 0, "cpu_seconds": seconds, "peak_memory_bytes": peak},
    }


def sample_of(size, papers=CONFIG["papers"]):
    config = json.loads(json.dumps(CONFIG))
    configuration.merge(config, sampling.overlay(CONFIG, size))
    config["papers"] = papers
    pages = min(size.pages, DOCUMENTS["documents"])
    sizes = {"documents": pages, "passages": size.documents, "training": size.documents}
    return run_of(config, sizes, beside=10)


def samples():
    small, asked, large = plan.sizes(CONFIG, 1500, 10_000)
    return [sample_of(small), sample_of(asked, ["colbert", "sparse"]), sample_of(large)]


SAMPLES = samples()
WHOLE = run_of(CONFIG, DOCUMENTS)


@pytest.fixture(scope="module")
def estimated():
    return {row.stage: row for row in estimate.estimates(CONFIG, SAMPLES, SPEED)}


def test_what_grows_evenly_is_foretold_exactly(estimated):
    actual = {row.stage: row for row in estimate.taken(WHOLE)}
    assert actual.keys() == estimated.keys() - {estimate.STARTING}
    for stage, found in actual.items():
        row = estimated[stage]
        assert row.jobs == found.jobs, stage
        assert row.bytes == pytest.approx(found.bytes, rel=1e-4), stage
        assert row.core_hours == pytest.approx(found.core_hours, rel=1e-4), stage
        assert row.memory == pytest.approx(found.memory, rel=1e-4), stage


def test_counts_of_the_whole_are_foretold():
    whole, told = units.extent_of(WHOLE), units.extent_of_whole(CONFIG, SAMPLES[-1])
    assert told.documents == whole.documents
    assert told.queries == whole.queries
    assert told.retrieved == pytest.approx(whole.retrieved)
    for count in ("embeddings", "test_segments", "dev_segments", "instances", "positives", "cut"):
        assert getattr(told, count) == pytest.approx(getattr(whole, count)), count


def test_what_no_record_has_grows_with_the_jobs(estimated):
    jobs = sum(row.jobs for row in estimated.values())
    each = 10 / len(SAMPLES[-1].records)
    assert estimated[estimate.STARTING].core_hours == pytest.approx(jobs * each / 3600)


def test_gpu_hours_are_of_models_alone_and_follow_the_speeds(estimated):
    with_models = {stage for stage, row in estimated.items() if row.gpu_hours}
    assert with_models == {"colbert encode", "best rerank", "best train", "sparse encode-queries"}
    # What grows of 10,000 documents at 0.02 s, a thousand times as fast.
    encode = estimated["colbert encode"]
    assert encode.gpu_hours == pytest.approx(200 / 1000 / 3600)
    assert encode.left_hours == pytest.approx(2 * 5 / 3600)
    for stage, row in estimated.items():
        if stage not in with_models:
            assert row.left_hours == row.core_hours, stage


def test_a_batch_takes_no_more_memory_than_in_the_sample_and_segments_are_held():
    grown = [{**run.records["best-train"], "cost": dict(run.records["best-train"]["cost"])}
             for run in (SAMPLES[0], SAMPLES[2])]  # fmt: skip
    for record, peak in zip(grown, (8e8, 9e8), strict=True):
        record["cost"]["peak_memory_bytes"] = peak
    runs = [
        Run(run.config, {**run.records, "best-train": record})
        for run, record in zip((SAMPLES[0], SAMPLES[2]), grown, strict=True)
    ]
    rows = {row.stage: row for row in estimate.estimates(CONFIG, runs, SPEED)}
    more = estimate.written(WHOLE.records["best-segment"])
    more -= estimate.written(SAMPLES[2].records["best-segment"])
    assert rows["best train"].memory == pytest.approx(9e8 + more, rel=1e-4)


@pytest.fixture
def planned(monkeypatch, tmp_path, pydocs_mini, capsys, caplog):
    """Run `espalier plan` with samples that have been run before; its status, output and log."""
    overlay = tmp_path / "overlay.yaml"
    ids = f"{pydocs_mini}/passages"
    view = {"docs": ids, "splits": {"test": f"{ids}/test"}}
    compiled = []

    def run(*options, compiling=(), **changes):
        remaining, asked = list(SAMPLES), []

        def sample(config, root, size, cores, papers=None):
            asked.append((size.documents, size.questions, papers))
            if compiling and not compiled:
                compiled.append(compiling)
                return SAMPLES[0]
            return remaining.pop(0)

        monkeypatch.setattr(plan, "speed_of", lambda config, tflops: SPEED)
        monkeypatch.setattr(sampling, "run", sample)
        monkeypatch.setattr(sampling, "compiled", lambda: set(compiled))
        keys = {"results": str(tmp_path), "collections": {"passages": view}, **changes}
        overlay.write_text(yaml.safe_dump(keys))
        status = cli.main(["plan", "--config", str(overlay), *options])
        return status, capsys.readouterr().out, [*caplog.messages, *map(str, asked)]

    return run


def test_the_table_ends_with_the_sum_and_what_it_costs(planned):
    status, out, _ = planned("--core-price", "0.1", "--gpu-price", "3")
    assert status == 0
    *lines, cores, gpus = out.splitlines()
    assert lines[0].startswith("documents: ")
    assert lines[1].split() == [
        "stage", "jobs", "disk", "GiB", "memory", "GiB", "core-hours", "or", "GPU-hours",
    ]  # fmt: skip
    assert lines[-1].startswith("all ")
    paid, hours, price = map(float, re.findall(r"[\d.]+", cores))
    assert (paid, price) == (pytest.approx(hours * 0.1, abs=0.006), 0.1)
    paid, hours, core, gpu_hours, gpu = map(float, re.findall(r"[\d.]+", gpus))
    assert (core, gpu) == (0.1, 3)
    assert paid == pytest.approx(hours * 0.1 + gpu_hours * 3, abs=0.006)


def test_the_json_holds_every_stage(planned):
    status, out, _ = planned("--json")
    rows = json.loads(out)
    assert status == 0
    assert rows[-1]["stage"] == "all"
    stages = {row["stage"] for row in rows[:-1]}
    assert stages == {job["stage"] for job in WHOLE.records.values()} | {estimate.STARTING}


def test_more_questions_are_asked_of_the_retrieving_papers_alone(planned):
    _, _, log = planned()
    assert log[-3:] == [
        "(250, 6, None)", "(250, 200, ['colbert', 'sparse'])", "(1500, 200, None)",
    ]  # fmt: skip


def test_a_sample_that_had_kernels_to_compile_runs_again(planned):
    _, _, log = planned(compiling="kernel")
    assert log[-4:-2] == ["(250, 6, None)", "(250, 6, None)"]


def test_a_disk_that_is_too_small_is_refused(planned, monkeypatch, tmp_path):
    free = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    status, _, log = planned()
    assert status == 1
    line = next(line for line in log if "error" in line)
    assert f"{tmp_path}: the results need " in line
    assert "the disk has 0.00 GiB free; free some space or set the config key 'results'" in line


def test_a_collection_that_does_not_exist_is_refused(planned):
    view = {"docs": "no/such", "splits": {"test": "no/such"}}
    status, _, log = planned(collections={"passages": view})
    assert status == 1
    assert log[-1].startswith("espalier: error: collection 'no/such' is unknown")


def finish(results, config=CONFIG):
    """Leave the records that a finished run of the whole would."""
    folder = results / config["experiment"] / "records"
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in WHOLE.records.items():
        (folder / f"{name}.json").write_text(json.dumps(record))


def test_an_estimate_is_held_against_what_the_run_took(planned, tmp_path):
    assert planned()[0] == 0
    finish(tmp_path)
    status, out, log = planned("--against", "--json")
    assert status == 0
    assert not any("(250" in line for line in log), "a sample was run"
    pairs = json.loads(out)
    assert [pair["estimate"]["stage"] for pair in pairs][-1] == "all"
    assert {pair["actual"]["stage"] for pair in pairs[:-1]} == {
        job["stage"] for job in WHOLE.records.values()
    }
    seconds = sum(job["cost"]["cpu_seconds"] for job in WHOLE.records.values())
    assert pairs[-1]["actual"]["core_hours"] == pytest.approx(seconds / 3600)
    assert pairs[-1]["estimate"]["core_hours"] == pytest.approx(seconds / 3600, rel=1e-3)

    status, out, _ = planned("--against")
    heads, *lines = out.splitlines()[1:]
    assert heads.split() == ["stage", *["estimate", "actual", "ratio"] * 3]
    encode = next(line for line in lines if line.startswith("colbert encode")).split()[2:]
    # 70 embeddings of 256 bytes for 10,000 documents; a gigabyte; two jobs of 5 + 100 seconds.
    assert encode == ["170.9", "170.9", "1.00", "953.7", "953.7", "1.00", "210.0", "210.0", "1.00"]
    assert lines[-1].startswith("all ")


def test_what_was_not_estimated_is_named(planned, tmp_path):
    assert planned()[0] == 0
    finish(tmp_path)
    extra = recorded("evaluation-adopt", {}, {}, 1, 1)
    (tmp_path / "demo/records/evaluation-adopt.json").write_text(json.dumps(extra))
    assert planned("--against")[1].endswith("\nnot estimated: evaluation adopt\n")


@pytest.mark.parametrize(
    ("prepared", "changes", "message"),
    [
        ("", {}, "plan.json: no estimate yet; run 'espalier plan' without --against first"),
        ("plan", {"seed": 7}, "plan.json: made for another config; run 'espalier plan' again"),
        ("plan", {}, "records: no records; run the chain first"),
    ],
)
def test_nothing_is_compared_that_does_not_belong_together(planned, prepared, changes, message):
    if prepared:
        assert planned()[0] == 0
    status, _, log = planned("--against", **changes)
    assert status == 1
    assert log[-1].startswith("espalier: error: ")
    assert message in log[-1]


def test_artifacts_are_part_of_what_tracking_stores(tmp_path):
    record = recorded("tracking-track", {}, {}, 1, 50)
    folder = tmp_path / "demo/records"
    folder.mkdir(parents=True)
    (folder / "tracking-track.json").write_text(json.dumps(record))
    stored = tmp_path / "mlartifacts/espalier/demo/run/artifacts"
    stored.mkdir(parents=True)
    (stored / "x.run.gz").write_bytes(bytes(1000))
    (row,) = estimate.taken(sampling.read({**CONFIG, "results": str(tmp_path)}))
    assert row.bytes == 1050


def test_the_copy_of_a_sample_s_documents_is_no_output_of_the_whole(tmp_path):
    config = {**CONFIG, "results": str(tmp_path), "papers": ["sparse"]}
    copy = tmp_path / "demo/collection/passages/docs.jsonl"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(bytes(700))

    def bytes_of(planned):
        record = recorded("collections-snapshot-passages", {}, {}, 1, 0)
        record["outputs"] = {"view": [{"path": "x", "bytes": 1000}]}
        run = Run(config, {record["name"]: record})
        sampling.forget_copies(run, planned)
        return estimate.written(run.records[record["name"]])

    assert bytes_of(config) == 300
    kept = {"passages": {**CONFIG["collections"]["passages"], "max_docs": 250}}
    assert bytes_of({**config, "collections": kept}) == 1000


def test_samples_are_nested_in_size_and_retrieve_a_share():
    small, asked, large = plan.sizes(CONFIG, 1500, 10_000)
    assert (small.documents, asked.documents, large.documents) == (250, 250, 1500)
    assert small.questions < asked.questions == large.questions
    # 1000 of 10,000 documents' embeddings are 25 of 250 documents' and 150 of 1,500's.
    assert (small.k_prime, asked.k_prime, large.k_prime) == (25, 25, 150)
    assert small.queries == {"train": 20, "dev": 2, "test": 4}
    assert large.queries == {"train": 200, "dev": 20, "test": 40}


def test_a_large_ranker_gets_few_queries(monkeypatch):
    # The demo's ranker: 2 layers of width 128 on 192 word pieces.
    assert plan.segment_operations(CONFIG) == 2 * 12 * 2 * 128**2 * 192
    monkeypatch.setattr(plan, "segment_operations", lambda config: 9e10)
    assert plan.queries(CONFIG) == plan.FEWEST


def test_a_sample_is_no_larger_than_the_experiment_s_own(monkeypatch):
    config = json.loads(json.dumps(CONFIG))
    for view, own in (("passages", 100), ("documents", 8000)):
        config["collections"][view]["max_docs"] = own
    size = sampling.Size(250, 5000, 6, {"train": 20, "dev": 2, "test": 4}, 2, 3)
    views = sampling.overlay(config, size)["collections"]
    kept = {name: view["max_docs"] for name, view in views.items()}
    assert kept == {"passages": 100, "training": 250, "documents": 5000}
    # Of a collection's 10,000, these 100 are the whole: a sample of all has all of k' = 1000.
    asked = []
    monkeypatch.setattr(access, "docs", lambda _: iter(range(10_000)))
    monkeypatch.setattr(sampling, "run_compiled", lambda *given: asked.append(given[2].k_prime))
    monkeypatch.setattr(sampling, "run", lambda *given: asked.append(given[2].k_prime))
    plan.sampled(config, ROOT, argparse.Namespace(documents=1500, cores="1"))
    assert asked == [1000, 1000, 1000]


@pytest.mark.parametrize("paper", ["msmarco-document", "msmarco-passage", "robust04"])
def test_a_sample_of_a_paper_s_config_keeps_to_the_schemas(paper):
    config = configuration.load(ROOT, [ROOT / f"config/{paper}.yaml"])
    size = sampling.Size(250, 5000, 6, {"train": 20, "dev": 2, "test": 4}, 2, 3)
    configuration.merge(config, sampling.overlay(config, size))
    configuration.check_schema(config, ROOT)
    views = {name: configuration.view_of(config, name) for name in configuration.views_of(config)}
    if paper == "msmarco-passage":
        assert views["passages"]["max_queries"] == {"test": 6}
        assert views["passages"]["max_docs"] == 250
        return
    view = views["documents"]
    assert view["max_queries"] == {"train": 20, "dev": 2, "test": 4}
    # The official candidates name any document, so that all stay.
    assert view.get("max_docs") == (5000 if paper == "robust04" else None)
    if paper == "robust04":
        folds = [f"disks45/nocr/trec-robust-2004/fold{i}" for i in (1, 2, 3)]
        assert view["splits"] == dict(zip(("train", "dev", "test"), folds, strict=True))
