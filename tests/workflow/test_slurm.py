"""The smoke chain's sharded part on a real Slurm of one node: the same bytes as without."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from espalier.files import SIDECAR, sha256_of
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
    "--set-threads", f"colbert_train={THREADS}",
]  # fmt: skip
"""A Slurm without accounting, and little waiting."""


@contextmanager
def node(cpus, memory):
    """The environment and the folder of a node that is up; skips where there can be none."""
    reason = slurm_node.obstacle()
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        reason = "snakemake-executor-plugin-slurm is not installed (pip install -e '.[cluster]')"
    if reason:
        pytest.skip(reason)
    # Not in pytest's folder: a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder, ExitStack() as stack:
        try:
            up = slurm_node.running(Path(folder), cpus=cpus, memory=memory)
            environment = stack.enter_context(up)
        except slurm_node.NotUpError as error:
            pytest.skip(str(error))
        yield environment, folder


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
        timed = name.parts[0] in TIMED or name.name.startswith(".") or name.name.endswith(SIDECAR)
        if not timed:
            found[name.as_posix()] = sha256_of(path)
    return found, done.stderr


@pytest.mark.long
def test_through_slurm_every_result_has_the_same_bytes(tmp_path):
    for place in ("local", "slurm"):
        (tmp_path / place).mkdir()
    with node(THREADS, 16_000) as (environment, _):
        here, _ = run(tmp_path / "local", "--cores", str(THREADS), "--")
        there, said = run(
            tmp_path / "slurm", "--profile", "slurm", "--", *QUICK,
            f"--slurm-logdir={tmp_path / 'slurm-logs'}", environment=environment,
        )  # fmt: skip
        command = ["squeue", "--states=all", "--noheader", "--format=%k %T %C %m"]
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
    assert there == here
    assert {"sparse/splade/shards/1/learned.npy", "colbert/shards/1/embeddings.npy"} <= set(here)
    assert {f"{TARGETS[0]}/union/docs.npy", f"{TARGETS[1]}/index.faiss"} <= set(here)

    # Every job went through Slurm, and asked for what its shard needs.
    jobs = dict(line.split(" ", 1) for line in asked.splitlines())
    assert said.count("submitted with SLURM jobid") == len(jobs) == 15
    assert all(job.startswith("COMPLETED") for job in jobs.values())
    manifest = tmp_path / "slurm/results/smoke/collection/passages/manifest.json"
    memory = round(2000 + 0.120 * json.loads(manifest.read_text())["docs_count"] / 2)
    for shard in "01":
        assert jobs[f"rule_colbert_encode_wildcards_{shard}"] == f"COMPLETED 1 {memory}M"
    assert jobs["rule_colbert_train"] == f"COMPLETED {THREADS} 6000M"


def test_the_node_leaves_nothing_behind():
    """Neither a process nor a file outside its folder."""
    system = Path("/etc/slurm")
    before = sorted(system.rglob("*"))
    with node(1, 1000) as (environment, folder):
        said = subprocess.run(
            ["srun", "-n1", "printenv", "SLURM_CLUSTER_NAME"],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert said.stdout == "espalier\n"
        assert mentioning(folder) > 2
    assert mentioning(folder) == 0
    assert sorted(system.rglob("*")) == before


def mentioning(text):
    """How many processes have `text` in their command line."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            found += text.encode() in (process / "cmdline").read_bytes()
    return found
