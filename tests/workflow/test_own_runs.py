"""What the chain plans for run files and judgments that an overlay names."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from espalier.launch import environment

ROOT = Path(__file__).parents[2]


def test_files_that_are_named_are_taken_up(tmp_path) -> None:
    run, qrels = tmp_path / "mine.run", tmp_path / "mine.qrels"
    run.write_text("q1 Q0 d1 1 2.0 mine\n")
    qrels.write_text("q1 0 d1 1\n")
    overlay = tmp_path / "overlay.yaml"
    evaluation = {
        "own_runs": {"sparse": {"mine": str(run)}},
        "own_qrels": {"sparse": str(qrels)},
        "original_runs": {"sparse": {"splade-original": str(run)}},
    }
    results = str(tmp_path / "results")
    overlay.write_text(
        yaml.safe_dump({"results": results, "papers": ["sparse"], "evaluation": evaluation})
    )
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--printshellcmds", "--nolock"]
    command += ["--configfile", "config/smoke.yaml", str(overlay)]
    planned = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert planned.returncode == 0, planned.stderr[-3000:]
    shown = re.findall(r"(espalier evaluation (\S+) .*)", planned.stdout + planned.stderr)
    commands = {verb: line for line, verb in shown}
    assert set(commands) == {"adopt", "evaluate", "latencies", "reproduction", "claims"}
    folder = f"{results}/smoke"
    assert f"--own {run} --runs {folder}/sparse/own " in commands["adopt"]
    assert (
        f"--runs {folder}/bm25/passages/test {folder}/sparse/runs {folder}/sparse/own"
        in (commands["evaluate"])
    )
    assert f"--qrels {qrels} " in commands["evaluate"]
    assert '"name": "splade-own", "systems": ["mine"]' in commands["evaluate"]
    assert '"own_runs": ["mine"]' in commands["evaluate"]
    assert f"--originals {run} --qrels {qrels} " in commands["reproduction"]
    assert '"baseline": "splade-original-union"' in commands["latencies"]
    for table in ("latencies", "reproduction"):
        assert f"{folder}/evaluation/sparse.{table}.parquet" in commands["claims"]
