"""What is planned for folds, replicates, shards and processes: a dry run of the rules."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from torch.distributed.run import get_args_parser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plan")
    splits = {name: f"espalier/pydocs-mini/documents/{name}" for name in ("train", "dev", "test")}
    overlay = {
        "results": str(folder),
        "papers": ["best"],
        "collections": {"documents": {"splits": splits}},
        "best": {
            "arms": ["maxp", "goldp", "best"], "iterations": 2, "seeds": [4, 9], "shards": 3,
            "folds": ["train", "dev", "test"], "training": {"processes": 2},
        },
        "evaluation": {"families": {"best": []}},
    }  # fmt: skip
    (folder / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    command = [
        sys.executable, "-m", "snakemake", "--dry-run", "--printshellcmds", "--cores", "1",
        "--configfile", "config/smoke.yaml", str(folder / "overlay.yaml"),
    ]  # fmt: skip
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    return made.stdout + made.stderr


def test_one_job_for_each_fold_replicate_and_ranker(plan: str) -> None:
    stats = dict(re.findall(r"^(best_\w+) +(\d+)$", plan, re.MULTILINE))
    parts = 2 * 3
    assert {name: int(count) for name, count in stats.items()} == {
        "best_segment": parts,
        "best_describe": 1,
        "best_train_joint": parts,
        "best_train": parts * len(["maxp", "goldp", "theta2"]),
        "best_select": parts * 3,
        "best_rerank": parts * len(["maxp", "goldp", "theta0", "theta1", "theta2"]),
        "best_pick": parts,
        "best_join_folds": 2 * len(["maxp", "goldp", "theta0", "theta1", "theta2", "best"]),
        "best_selection_quality": 1,
    }


def test_seeds_and_splits_reach_their_parts(plan: str) -> None:
    (command,) = re.findall(r"espalier best segment .*/best/s2-f3/segments .*", plan)
    words = shlex.split(command)
    settings = yaml.safe_load(words[words.index("--settings") + 1])
    assert settings["seed"] == 9
    assert settings["splits"] == {"train": ["dev"], "dev": ["train"], "test": ["test"]}


def test_torchrun_starts_our_command_with_all_its_options(plan: str) -> None:
    command = next(line for line in plan.splitlines() if "best train-joint" in line)
    words = shlex.split(command)
    parsed = get_args_parser().parse_args(words[words.index("torchrun") + 1 :])
    assert (parsed.module, parsed.nproc_per_node, parsed.training_script) == (True, "2", "espalier")
    assert parsed.training_script_args[:2] == ["best", "train-joint"]
    assert "--log" in parsed.training_script_args
