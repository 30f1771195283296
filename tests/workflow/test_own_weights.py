"""The worked example of config/README.md, run as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]


def blocks():
    """The example's program and overlay by file name."""
    text = (ROOT / "config" / "README.md").read_text()
    found = re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(found)


def test_the_worked_example_gives_the_same_tables(tmp_path):
    program, overlay = tmp_path / "own_weights.py", tmp_path / "own-weights.yaml"
    program.write_text(blocks()["own_weights.py"])
    subprocess.run([sys.executable, program.name], cwd=tmp_path, check=True, timeout=300)
    placed = blocks()["own-weights.yaml"]
    for name in ("vectors.jsonl", "queries.jsonl"):
        assert f" {name}" in placed
        placed = placed.replace(f" {name}", f" {tmp_path / name}")
    overlay.write_text(f"results: {tmp_path / 'results'}\n{placed}")
    done = subprocess.run(
        [sys.executable, "-m", "espalier.cli", "run", "--cores", "2", "--config", str(overlay)],
        cwd=ROOT, check=False, timeout=600, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]

    results = tmp_path / "results" / "own-weights"
    summary = json.loads((results / "evaluation" / "sparse.summary.json").read_text())
    systems = summary["systems"]
    assert {"mine-original", "mine-dths", "mine-bm25", "mine-maxscore"} <= set(systems)
    # What is safe ranks alike, whatever the algorithm.
    for measure in ("nDCG@10", "RR@10"):
        assert systems["mine-original"][measure] == systems["mine-maxscore"][measure]
        assert systems["mine-original"][measure] == systems["mine-taat"][measure]
    counts = pd.read_parquet(results / "sparse" / "counts.parquet")
    overlap = counts.groupby("system")["overlap"].mean()
    assert overlap["mine-original"] == overlap["mine-hybrid"] == 1
    assert "mine" in (results / "report" / "index.html").read_text()
