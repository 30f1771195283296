import json
import os

from espalier import launch
from espalier.tracking import records


def finished(folder, stage, path, size):
    (folder / "records").mkdir(exist_ok=True)
    outputs = {"out": [{"path": str(path), "bytes": size}]}
    record = {"format": records.FORMAT, "stage": stage, "outputs": outputs}
    written = folder / "records" / f"{stage}.json"
    written.write_text(json.dumps(record))
    return written


def test_a_stage_runs_again_whose_outputs_are_missing_or_of_another_size(tmp_path, capsys):
    for name in ("whole", "short"):
        (tmp_path / name).write_bytes(b"123")
    whole = finished(tmp_path, "a", "whole", 3)
    short = finished(tmp_path, "b", "short", 4)
    absent = finished(tmp_path, "c", "absent", 3)
    elsewhere = finished(tmp_path, "d", tmp_path.parent / "moved", 3)
    launch.forget_lost_outputs(tmp_path)
    assert [whole.exists(), short.exists(), absent.exists(), elsewhere.exists()] == [
        True, False, False, True,
    ]  # fmt: skip
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/short: truncated or altered; 'b' runs again",
        f"{tmp_path}/absent: missing; 'c' runs again",
    ]


def test_the_causes_of_a_failure_are_what_stages_logged_since_it_began(tmp_path):
    line = "2026-01-01 00:00:00,000 ERROR espalier: error: shard 1: altered; delete it\n"
    for name in ("old", "new", "again"):
        (tmp_path / f"{name}.log").write_text(f"begun\n{line}")
    began = (tmp_path / "old.log").stat().st_mtime + 100
    for name in ("new", "again"):
        os.utime(tmp_path / f"{name}.log", (began, began))
    assert launch.causes(tmp_path, began) == ["espalier: error: shard 1: altered; delete it"]
    assert launch.causes(tmp_path, began + 1) == []
