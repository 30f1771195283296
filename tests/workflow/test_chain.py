"""The real chain on the smoke config, undisturbed."""

import json
import os
import signal
import subprocess
import time
import urllib.request

import pytest

from tests.faults.chain import ESPALIER, ROOT, Chain

pytestmark = pytest.mark.workflow


def test_the_last_lines_say_where_to_look(undisturbed):
    chain, finished = undisturbed
    results = chain.results
    ending = finished.stdout.splitlines()[-3:]
    assert ending[0].split() == ["Report", str(results / "report" / "index.html")]
    assert ending[1].startswith("MLflow   make mlflow")
    assert ending[2].split() == ["Ledger", str(results / "claims.json")]
    assert "reproduced" in finished.stdout
    assert (results / "report" / "index.html").stat().st_size > 10_000
    # Snakemake's own step counts are the progress that a user sees.
    assert "(100%) done" in finished.stderr


def test_the_ledger_has_the_promised_fields(undisturbed):
    chain, _ = undisturbed
    rows = json.loads((chain.results / "claims.json").read_text())
    fields = {"id", "paper", "claim", "kind", "published", "here", "verdict", "why"}
    assert all(fields <= set(row) for row in rows)
    assert {row["paper"] for row in rows} == {"best", "colbert", "sparse"}


def test_a_second_run_has_nothing_to_do(undisturbed):
    chain, _ = undisturbed
    again = chain.run()
    assert again.returncode == 0
    assert "Nothing to be done" in again.stderr
    tracked = json.loads((chain.results / "tracked.json").read_text())
    assert tracked["added"] > 0
    assert tracked["replaced"] == tracked["removed"] == 0


def planned_rules(chain):
    plan = chain.run("--dry-run", "--quiet", "rules")
    assert plan.returncode == 0, plan.stderr[-3000:]
    full = chain.run("--dry-run")
    lines = full.stderr.splitlines() + full.stdout.splitlines()
    return {
        line.split()[1].rstrip(":") for line in lines if line.startswith(("rule ", "localrule "))
    }


def test_one_parameter_re_runs_only_what_depends_on_it(undisturbed):
    chain, _ = undisturbed
    rules = planned_rules(Chain(chain.folder, {"colbert": {"retrieval": {"nprobe": 3}}}))
    assert "colbert_sweep" in rules
    assert "evaluate" in rules
    assert not {r for r in rules if r.startswith(("best_", "sparse_", "collection", "bm25"))}
    untouched = {"train", "encode", "quantizer", "invert", "index"}
    assert not {f"colbert_{verb}" for verb in untouched} & rules


def test_snakemake_builds_its_report(undisturbed):
    chain, _ = undisturbed
    page = chain.folder / "snakemake-report.html"
    made = chain.run("--report", str(page))
    assert made.returncode == 0, made.stderr[-3000:]
    assert page.stat().st_size > 100_000


def test_mlflow_serves_the_verdict_first(undisturbed):
    chain, _ = undisturbed
    options = [f"--config={path}" for path in chain.overlays()]
    command = [*ESPALIER, "serve", "--port", "5317", *options]
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
