import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.errors import EspalierError
from espalier.stage import Room, peak_memory_bytes
from espalier.tracking import records


@pytest.fixture
def run(tmp_path):
    """Run a stage function as the command line would; the paths it was given."""

    def run(function, *options, inputs=("text",), outputs=("copy",)):
        room = Room("test")
        room.stage(inputs=inputs, outputs=outputs)(function)
        (verb,) = room.verbs.values()
        parser = argparse.ArgumentParser()
        verb.add_arguments(parser)
        shared = ["--settings", '{"seed": 7}', "--record", str(tmp_path / "record.json")]
        verb.run(parser.parse_args([*map(str, options), *shared]))

    return run


def test_outputs_and_record_are_written(tmp_path, run):
    source, target = tmp_path / "in.txt", tmp_path / "deep" / "out.txt"
    source.write_text("abc")

    def copy(job):
        job.out("copy").write_text(job.path("text").read_text() * job.seed)
        return {"characters": 21}

    run(copy, "--text", source, "--copy", target)
    assert target.read_text() == "abc" * 7
    record = records.read(tmp_path / "record.json")
    assert record["stage"] == "test copy"
    assert record["metrics"] == {"characters": 21}
    assert record["settings"] == {"seed": 7}
    (output,) = record["outputs"]["copy"]
    assert output["bytes"] == 21
    assert output["path"] == "deep/out.txt"
    assert record["cost"]["peak_memory_bytes"] > 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere getrusage is all there is")
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_peak_memory_is_getrusage_s_where_proc_does_not_tell(monkeypatch):
    assert peak_memory_bytes() > 1_000_000
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda path: "Name:\tpython\nVmRSS:\t 5 kB\n")
        found = peak_memory_bytes()
    # Asked for before and after: it only rises.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 0.9 * most < found <= most


def test_peak_memory_is_not_that_of_the_process_that_started_this_one():
    held = b"x" * (200 << 20)
    program = "from espalier.stage import peak_memory_bytes; print(peak_memory_bytes())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert 1 << 20 < int(done.stdout) < len(held)


def test_a_failing_stage_leaves_the_old_output_and_nothing_else(tmp_path, run):
    source, target = tmp_path / "in.txt", tmp_path / "results" / "out.txt"
    source.touch()
    target.parent.mkdir()
    target.write_text("old")

    def copy(job):
        job.out("copy").write_text("half")
        raise EspalierError("no more")

    with pytest.raises(EspalierError, match="no more"):
        run(copy, "--text", source, "--copy", target)
    assert target.read_text() == "old"
    assert [p.name for p in target.parent.iterdir()] == ["out.txt"]
    assert not (tmp_path / "record.json").exists()


def test_an_input_that_is_not_as_its_stage_wrote_it_is_refused(tmp_path, run):
    source, made, last = (tmp_path / name for name in ("in", "made", "last"))
    source.write_text("abc")

    def copy(job):
        job.out("copy").write_text(job.path("text").read_text())

    run(copy, "--text", source, "--copy", made)
    (tmp_path / "record.json").rename(tmp_path / "first.json")
    run(copy, "--text", made, "--copy", last)
    made.write_text("abd")
    message = r"made: truncated or altered .*\(3 bytes then, 3 now\); delete it and run again$"
    with pytest.raises(EspalierError, match=message):
        run(copy, "--text", made, "--copy", last)
    assert last.read_text() == "abc"


def test_a_full_disk_is_one_line_that_names_the_folder(tmp_path, run):
    def copy(job):
        job.out("copy").write_text("half")
        raise RuntimeError("write failed: No space left on device (os error 28)")

    source = tmp_path / "in.txt"
    source.touch()
    with pytest.raises(EspalierError, match=f"^{tmp_path.parent}: the disk is full; free some"):
        run(copy, "--text", source, "--copy", tmp_path / "out.txt")
    assert [path.name for path in tmp_path.glob("*.txt")] == ["in.txt"]
    assert not list(tmp_path.glob(".tmp.*"))


def test_a_missing_input_is_named(tmp_path, run):
    with pytest.raises(EspalierError, match=r"absent\.txt.*'test copy'"):
        run(copy_nothing, "--text", tmp_path / "absent.txt", "--copy", tmp_path / "x")


def copy_nothing(job):
    raise AssertionError("must not be called")


copy_nothing.__name__ = "copy"


def test_inputs_of_several_and_of_none(tmp_path, run):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.touch()
    seen = {}

    def gather(job):
        seen.update(many=job.paths("many"), perhaps=job.paths("perhaps"))
        job.out("copy").touch()

    run(gather, "--many", *paths, "--copy", tmp_path / "c", inputs=("many+", "perhaps?"))
    assert seen == {"many": paths, "perhaps": []}


def test_a_record_of_another_format_is_refused(tmp_path):
    path = tmp_path / "r.json"
    for text in ("{", json.dumps({"format": 999}), "[]"):
        path.write_text(text)
        with pytest.raises(EspalierError, match=r"r\.json"):
            records.read(path)


def test_a_killed_stage_finds_its_checkpoint_and_a_finished_one_leaves_none(tmp_path, run):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("abc")
    found = []

    def count(job):
        checkpoint = job.checkpoint(0)
        state = checkpoint.load() or {"step": 0}
        found.append(state["step"])
        checkpoint.save({"step": state["step"] + 1})
        if state["step"] < 2:
            raise EspalierError("killed")
        job.out("copy").write_text("done")

    for content in ("abc", "abc", "changed", "changed"):
        source.write_text(content)
        with pytest.raises(EspalierError, match="killed"):
            run(count, "--text", source, "--copy", target)
    run(count, "--text", source, "--copy", target)
    assert found == [0, 1, 0, 1, 2]
    assert [p.name for p in tmp_path.glob(".*.checkpoint")] == []


def test_a_process_beside_the_first_writes_nothing(tmp_path, run, monkeypatch):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.touch()
    monkeypatch.setenv("RANK", "1")
    worked = []

    def copy(job):
        worked.append(job.seed)
        job.out("copy").write_text("mine")

    run(copy, "--text", source, "--copy", target)
    assert worked == [7]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt"]
