"""What rules ask of a machine, and that the profiles speak of rules that there are."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from espalier.cli import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = "\n".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
RULES = dict(re.findall(r"^ *rule (\w+):\n(.*?)(?=^ *rule |\Z)", TEXT, re.DOTALL | re.MULTILINE))
PROFILES = {
    path.parent.name: yaml.safe_load(path.read_text())
    for path in (ROOT / "workflow" / "profiles").glob("*/config.yaml")
}
ON_GPU = re.compile(r"train|encode|expand|rerank|select$|codec")
"""Rules whose stage runs a model."""


def test_every_rule_asks_for_memory_minutes_and_threads():
    assert len(RULES) > 20
    for name, body in RULES.items():
        assert re.search(r"\n +mem_mb=memory\(", body), name
        assert re.search(r"\n +runtime=minutes\(", body), name
        assert re.search(r"\n +threads: ", body), name
        assert bool(re.search(r"\n +gpu=gpus\(", body)) == bool(ON_GPU.search(name)), name


def test_the_head_node_alone_talks_to_mlflow():
    local = {name for name, body in RULES.items() if "localrule: True" in body}
    assert local == {name for name, body in RULES.items() if "espalier tracking" in body}
    importing = {
        path.relative_to(ROOT / "src" / "espalier").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"^ *(import|from) mlflow", path.read_text(), re.MULTILINE)
    }
    assert importing == {"tracking/mlflow_view.py"}


def test_profiles_name_rules_that_there_are():
    assert set(PROFILES) == {"default", "slurm", "kubernetes"}
    whole = {name for name, body in RULES.items() if "threads: all_cores()" in body}
    for name in ("slurm", "kubernetes"):
        # Of a laptop's collections, one thread trains the quantizer.
        assert set(PROFILES[name]["set-threads"]) == {*whole, "colbert_quantizer"}
        assert PROFILES[name]["retries"] > 0
        assert set(PROFILES[name].get("set-resources", {})) <= set(RULES)


def test_another_name_is_refused_in_one_line(caplog, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["run", "--profile", "pbs", "--config", "config/smoke.yaml"]) == 1
    assert re.search(
        r"--profile pbs: .*name one of default, kubernetes, slurm$", caplog.messages[-1]
    )


def test_the_terminal_names_no_source_file_and_keeps_errors(tmp_path):
    """A tiny workflow under the terminal's logger: one rule succeeds, one fails."""
    (tmp_path / "Snakefile").write_text(
        "rule all:\n    input: 'bad'\n"
        "rule good:\n    input: 'source.py'\n    output: 'good'\n    log: 'good.log'\n"
        "    shell: 'touch {output}'\n"
        "rule bad:\n    input: 'good', 'source.py'\n    output: 'bad'\n    log: 'bad.log'\n"
        "    shell: 'echo it broke > {log}; exit 3'\n"
    )
    (tmp_path / "source.py").touch()
    command = ["--cores", "1", "--logger", "espalier", "--show-failed-logs"]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *command],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "rule good: (log: good.log)" in done.stderr
    assert "1 of 3 steps (33%) done" in done.stderr
    assert "source.py" not in done.stderr
    for told in ("Error in rule bad:", "output: bad", "exit 3", "it broke"):
        assert told in done.stderr
    assert "Select jobs" not in done.stderr and "Finished jobid" not in done.stderr
