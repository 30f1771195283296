"""The real chain on the smoke config: once undisturbed, once killed again and again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from espalier.files import sha256_of

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).resolve().parents[2]
ESPALIER = [sys.executable, "-m", "espalier.cli"]
TIMED = ("records", "logs", "benchmarks", "report")
"""Folders whose content a clock decides."""


def run(overlays, *extra, **options):
    command = [*ESPALIER, "run"]
    for overlay in overlays:
        command += ["--config", str(overlay)]
    return subprocess.run(
        [*command, *(["--", *extra] if extra else [])],
        cwd=ROOT, capture_output=True, text=True, check=False, **options,
    )  # fmt: skip


def overlays(folder, **changes):
    """The smoke config with its results in `folder`."""
    path = folder / "overlay.yaml"
    path.write_text(yaml.safe_dump({"results": str(folder / "results"), **changes}))
    return [ROOT / "config" / "smoke.yaml", path]


def result_files(folder):
    """Digest of every file that depends on config and data alone."""
    results = folder / "results" / "smoke"
    found = {}
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        name = path.relative_to(results)
        timed = name.parts[0] in TIMED or name.name.startswith(
            ("latency", ".", "claims", "tracked")
        )
        if not timed:
            found[name.as_posix()] = sha256_of(path)
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    finished = run(overlays(folder))
    assert finished.returncode == 0, finished.stderr[-5000:]
    return folder, finished


def test_the_last_lines_say_where_to_look(undisturbed):
    folder, finished = undisturbed
    results = folder / "results" / "smoke"
    ending = finished.stdout.splitlines()[-3:]
    assert ending[0].split() == ["Report", str(results / "report" / "index.html")]
    assert ending[1].startswith("MLflow   make mlflow")
    assert ending[2].split() == ["Ledger", str(results / "claims.json")]
    assert "reproduced" in finished.stdout
    assert (results / "report" / "index.html").stat().st_size > 10_000
    # Snakemake's own step counts are the progress that a user sees.
    assert "(100%) done" in finished.stderr


def test_the_ledger_has_the_promised_fields(undisturbed):
    folder, _ = undisturbed
    rows = json.loads((folder / "results" / "smoke" / "claims.json").read_text())
    fields = {"id", "paper", "claim", "kind", "published", "here", "verdict", "why"}
    assert all(fields <= set(row) for row in rows)
    assert {row["paper"] for row in rows} == {"best", "colbert", "sparse"}


def test_a_second_run_has_nothing_to_do(undisturbed):
    folder, _ = undisturbed
    again = run(overlays(folder))
    assert again.returncode == 0
    assert "Nothing to be done" in again.stderr
    tracked = json.loads((folder / "results" / "smoke" / "tracked.json").read_text())
    assert tracked["added"] > 0
    assert tracked["replaced"] == tracked["removed"] == 0


def planned_rules(*arguments):
    plan = run(*arguments, "--dry-run", "--quiet", "rules")
    assert plan.returncode == 0, plan.stderr[-3000:]
    full = run(*arguments, "--dry-run")
    lines = full.stderr.splitlines() + full.stdout.splitlines()
    return {
        line.split()[1].rstrip(":") for line in lines if line.startswith(("rule ", "localrule "))
    }


def test_one_parameter_re_runs_only_what_depends_on_it(undisturbed):
    folder, _ = undisturbed
    changed = overlays(folder, colbert={"retrieval": {"nprobe": 3}})
    try:
        rules = planned_rules(changed)
    finally:
        overlays(folder)
    assert "colbert_sweep" in rules
    assert "evaluate" in rules
    assert not {r for r in rules if r.startswith(("best_", "sparse_", "collection", "bm25"))}
    assert not {"colbert_train", "colbert_encode", "colbert_index"} & rules


def test_snakemake_builds_its_report(undisturbed):
    folder, _ = undisturbed
    page = folder / "snakemake-report.html"
    made = run(overlays(folder), "--report", str(page))
    assert made.returncode == 0, made.stderr[-3000:]
    assert page.stat().st_size > 100_000


def test_mlflow_serves_the_verdict_first(undisturbed):
    folder, _ = undisturbed
    command = [*ESPALIER, "serve", "--port", "5317"]
    for overlay in overlays(folder):
        command += ["--config", str(overlay)]
    server = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        experiment = post_when_up(
            "experiments/search", {"max_results": 10, "filter": "name = 'espalier/smoke'"}
        )["experiments"][0]
        found = post_when_up(
            "runs/search",
            {
                "experiment_ids": [experiment["experiment_id"]],
                "order_by": ["attributes.start_time DESC"],
                "max_results": 500,
            },
        )["runs"]
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
    names = [r["info"]["run_name"] for r in found]
    assert names[0].startswith("verdicts: ")
    assert {"best theta1", "colbert icf-p03", "sparse splade-dths"} <= set(names)
    notes = {tag["key"]: tag["value"] for tag in experiment["tags"]}["mlflow.note.content"]
    assert "reproduced" in notes.splitlines()[0]


def post_when_up(call, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:5317/api/2.0/mlflow/{call}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    for _ in range(120):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server did not come up")


def test_a_killed_chain_completes_with_the_same_bytes(undisturbed, tmp_path):
    reference, _ = undisturbed
    chosen = overlays(tmp_path)
    moments = random.Random(7)
    command = [*ESPALIER, "run", *(f"--config={overlay}" for overlay in chosen)]
    kills = 0
    for _ in range(5):
        chain = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            chain.wait(timeout=moments.uniform(12, 45))
            break
        except subprocess.TimeoutExpired:
            os.killpg(chain.pid, signal.SIGKILL)
            chain.wait()
            kills += 1
    finished = run(chosen)
    assert finished.returncode == 0, finished.stderr[-5000:]
    assert kills >= 3
    assert result_files(tmp_path) == result_files(reference)


def test_two_chains_do_not_share_a_folder(tmp_path):
    from espalier.files import locked

    chosen = overlays(tmp_path)
    with locked(tmp_path / "results" / "smoke" / ".lock"):
        second = run(chosen)
    assert second.returncode == 1
    assert "another chain is working there" in second.stderr
