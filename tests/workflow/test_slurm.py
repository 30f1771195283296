"""The smoke chain's sharded part on a real Slurm of one node: the same bytes as without."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from espalier.files import sha256_of
from tests.workflow import slurm_node

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).resolve().parents[2]

SMALLER = {
    "colbert": {"encoder": {"doc_maxlen": 16}, "training": {"triples": 16, "doc_maxlen": 16}},
    "sparse": {"weightings": {"splade": {"max_length": 16}}},
}
"""Changes to the smoke config that spare time."""

TARGETS = ("sparse/splade/indexes/splade", "colbert/indexes/1")

TIMED = ("records", "logs", "benchmarks")
"""Folders whose content a clock decides."""

THREADS = 2
"""Of the stages that use all cores: a sum in another number of threads rounds otherwise."""

QUICK = [
    "--slurm-status-command=squeue", "--slurm-no-account",
    "--slurm-init-seconds-before-status-checks=1", "--seconds-between-status-checks=1",
    "--latency-wait=10",
    "--set-threads", f"colbert_train={THREADS}", f"colbert_index={THREADS}",
]  # fmt: skip
"""A Slurm without accounting, and little waiting."""


@pytest.fixture(scope="module")
def node():
    """The environment of a node that is up."""
    reason = slurm_node.obstacle()
    if reason is None and importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        reason = "snakemake-executor-plugin-slurm is not installed (pip install -e '.[cluster]')"
    if reason:
        pytest.skip(reason)
    # Not in pytest's folder: a socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder,
        slurm_node.running(Path(folder), cpus=THREADS, memory=16_000) as environment,
    ):
        yield environment


def run(folder, *options, environment=None):
    """Make the targets with results in `folder`."""
    overlay = folder / "overlay.yaml"
    overlay.write_text(yaml.safe_dump({"results": str(folder / "results"), **SMALLER}))
    results = folder / "results" / "smoke"
    before, after = options[: options.index("--")], options[options.index("--") + 1 :]
    done = subprocess.run(
        [
            sys.executable, "-m", "espalier.cli", "run", "--config", "config/smoke.yaml",
            "--config", str(overlay), *before, "--",
            *(str(results / target) for target in TARGETS), *after,
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    found = {}
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        name = path.relative_to(results)
        if name.parts[0] not in TIMED and not name.name.startswith("."):
            found[name.as_posix()] = sha256_of(path)
    return found, done.stderr


def test_through_slurm_every_result_has_the_same_bytes(node, tmp_path):
    (tmp_path / "local").mkdir()
    (tmp_path / "slurm").mkdir()
    here, _ = run(tmp_path / "local", "--cores", str(THREADS), "--")
    logs = tmp_path / "slurm-logs"
    there, said = run(
        tmp_path / "slurm", "--profile", "slurm", "--", *QUICK, f"--slurm-logdir={logs}",
        environment=node,
    )  # fmt: skip
    assert there == here
    assert {"sparse/splade/shards/1/learned.npy", "colbert/shards/1/embeddings.npy"} <= set(here)
    assert {f"{TARGETS[0]}/union/docs.npy", f"{TARGETS[1]}/index.faiss"} <= set(here)

    # Every job went through Slurm, and asked for what its shard needs.
    command = ["squeue", "--states=all", "--noheader", "--format=%k %T %C %m"]
    asked = subprocess.run(command, env=node, capture_output=True, text=True, check=True)
    jobs = dict(line.split(" ", 1) for line in asked.stdout.splitlines())
    assert said.count("submitted with SLURM jobid") == len(jobs) == 10
    assert all(job.startswith("COMPLETED") for job in jobs.values())
    passages = json.loads(
        (tmp_path / "slurm/results/smoke/collection/passages/manifest.json").read_text()
    )["docs_count"]
    for shard in "01":
        memory = round(2000 + 0.120 * passages / 2)
        assert jobs[f"rule_colbert_encode_wildcards_{shard}"] == f"COMPLETED 1 {memory}M"
    assert jobs["rule_colbert_train"] == f"COMPLETED {THREADS} 6000M"


def test_the_node_leaves_nothing_behind(tmp_path):
    """Neither a process nor a file outside its folder."""
    reason = slurm_node.obstacle()
    if reason:
        pytest.skip(reason)
    system = Path("/etc/slurm")
    before = sorted(system.rglob("*"))
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder:
        with slurm_node.running(Path(folder), cpus=1, memory=1000) as environment:
            said = subprocess.run(
                ["srun", "-n1", "printenv", "SLURM_CLUSTER_NAME"],
                env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert said.stdout == "espalier\n"
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            assert process.name == str(os.getpid()) or folder.encode() not in words
    assert sorted(system.rglob("*")) == before
