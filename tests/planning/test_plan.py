import json
import shutil
from pathlib import Path

import pytest
import yaml

from espalier import cli
from espalier.planning import estimate, plan, sampling
from espalier.planning.sampling import Run

DATA = json.loads((Path(__file__).parent / "data" / "demo.json").read_text())
"""The demo's records and those of its three samples, as `espalier plan` made them."""

SAMPLES = [Run(sample["config"], sample["records"]) for sample in DATA["samples"]]
WITHIN = 0.25


@pytest.fixture(scope="module")
def estimated():
    speed = estimate.Speed(core=50e9, gpu=50e12)
    return {row.stage: row for row in estimate.estimates(DATA["config"], SAMPLES, speed)}


def took(stage=None):
    """Bytes on disk, memory of the largest job and CPU seconds of the demo or one of its stages."""
    jobs = [job for job in DATA["demo"].values() if stage in (None, job["stage"])]
    seconds, written, memory = zip(*map(estimate.cost_of, jobs), strict=True)
    return sum(written), max(memory), sum(seconds)


def test_the_estimate_for_the_demo_is_near_what_it_took(estimated):
    whole = estimate.total(list(estimated.values()))
    written, memory, seconds = took()
    assert whole.jobs == len(DATA["demo"])
    assert whole.bytes == pytest.approx(written, rel=WITHIN)
    assert whole.memory == pytest.approx(memory, rel=WITHIN)
    assert whole.core_hours * 3600 == pytest.approx(seconds, rel=WITHIN)


@pytest.mark.parametrize(
    "stage", ["colbert encode", "colbert index", "sparse encode", "sparse index"]
)
def test_what_grows_with_the_collection_is_near_for_each_stage(estimated, stage):
    assert estimated[stage].bytes == pytest.approx(took(stage)[0], rel=WITHIN)


def test_gpu_hours_are_of_models_alone_and_follow_the_speeds(estimated):
    with_models = {stage for stage, row in estimated.items() if row.gpu_hours}
    assert {"colbert encode", "sparse encode", "best train-joint"} <= with_models
    assert not {"sparse index", "colbert sweep", "evaluation evaluate"} & with_models
    faster = estimate.estimates(DATA["config"], SAMPLES, estimate.Speed(core=50e9, gpu=100e12))
    assert estimate.total(faster).gpu_hours == pytest.approx(
        sum(row.gpu_hours for row in estimated.values()) / 2
    )


@pytest.fixture
def planned(monkeypatch, tmp_path, pydocs_mini, capsys):
    """Run `espalier plan` with samples that have been run before; its status, output, errors."""

    def run(*options, **changes):
        remaining = list(SAMPLES)
        monkeypatch.setattr(sampling, "run", lambda *_: remaining.pop(0))
        overlay = tmp_path / "overlay.yaml"
        ids = f"{pydocs_mini}/passages"
        view = {"docs": ids, "splits": {"test": f"{ids}/test"}}
        keys = {"results": str(tmp_path), "collections": {"passages": view}, **changes}
        overlay.write_text(yaml.safe_dump(keys))
        status = cli.main(["plan", "--config", str(overlay), *options])
        said = capsys.readouterr()
        return status, said.out, said.err

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
    assert {row["stage"] for row in rows[:-1]} == {job["stage"] for job in DATA["demo"].values()}


def test_a_disk_that_is_too_small_is_refused(planned, monkeypatch, tmp_path):
    free = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    status, _, err = planned()
    assert status == 1
    (line,) = [line for line in err.splitlines() if line.startswith("espalier: error:")]
    assert f"{tmp_path}: the results need " in line
    assert "the disk has 0.00 free; free some space or set the config key 'results'" in line


def test_a_collection_that_does_not_exist_is_refused(planned):
    view = {"docs": "no/such", "splits": {"test": "no/such"}}
    status, _, err = planned(collections={"passages": view})
    assert status == 1
    assert err.splitlines()[-1].startswith("espalier: error: collection 'no/such' is unknown")


def test_samples_are_nested_in_size_and_retrieve_a_share(planned):
    config = {"colbert": {"retrieval": {"k_prime": 1000}}}
    small, large, asked = plan.sizes(config, 1000, 10_000)
    assert (small.documents, large.documents, asked.documents) == (250, 1000, 1000)
    assert small.queries == large.queries < asked.queries
    # 1000 of 10,000 documents' embeddings are 25 of 250 documents'.
    assert {size.k_prime for size in (small, large, asked)} == {25}
