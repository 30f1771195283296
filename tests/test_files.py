import errno
import hashlib
import shutil

import pytest

from espalier import files


def test_written_whole_publishes_only_on_success(tmp_path):
    target = tmp_path / "out" / "a.txt"
    with files.written_whole(target) as temporary:
        temporary.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"
    with pytest.raises(RuntimeError):
        fail_while_writing(target)
    assert target.read_text() == "one"
    assert [p.name for p in target.parent.iterdir()] == ["a.txt"]


def fail_while_writing(target):
    with files.written_whole(target) as temporary:
        temporary.write_text("two")
        raise RuntimeError


def test_publish_replaces_a_folder(tmp_path):
    old, new = tmp_path / "model", tmp_path / ".tmp.1.model"
    for folder, name in ((old, "stale"), (new, "fresh")):
        folder.mkdir()
        (folder / name).write_text(name)
    files.publish(new, old)
    assert [p.name for p in old.iterdir()] == ["fresh"]


def test_leftovers_of_one_output_alone_are_removed(tmp_path):
    for name in (".tmp.12.run.gz", ".tmp.12.other.gz", "run.gz"):
        (tmp_path / name).touch()
    files.remove_leftovers(tmp_path / "run.gz")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".tmp.12.other.gz", "run.gz"]


def test_digest_of_a_folder_follows_names_and_content(tmp_path):
    folder = tmp_path / "f"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "b").write_bytes(b"x")
    inner = hashlib.sha256(b"x").hexdigest()
    assert files.sha256_of(folder) == hashlib.sha256(f"sub/b {inner}\n".encode()).hexdigest()
    assert files.size_of(folder) == 1
    before = files.sha256_of(folder)
    (folder / ".snakemake_timestamp").touch()
    assert files.sha256_of(folder) == before
    (folder / "sub" / "b").rename(folder / "sub" / "c")
    assert files.sha256_of(folder) != before


def test_lock_is_exclusive_and_ends_with_its_holder(tmp_path):
    lock = tmp_path / ".lock"
    with (
        files.locked(lock, wait=False),
        pytest.raises(BlockingIOError),
        files.locked(lock, wait=False),
    ):
        pass
    with files.locked(lock, wait=False):
        pass


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".tmp.1.record.json").touch()
    with files.written_whole(tmp_path / "record.json") as temporary:
        temporary.touch()
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_reserved_blocks_are_the_disks(tmp_path):
    path = tmp_path / "holes"
    with path.open("wb") as stream:
        stream.truncate(1 << 20)
    assert path.stat().st_blocks == 0
    files.reserve(path)
    assert path.stat().st_blocks * 512 >= 1 << 20
    assert path.read_bytes() == bytes(1 << 20)


def test_an_error_is_a_full_disks_by_its_number_its_words_or_the_disk(tmp_path, monkeypatch):
    assert files.no_space(OSError(errno.ENOSPC, "none"), tmp_path)
    assert files.no_space(RuntimeError("IO error: No space left on device"), tmp_path)
    assert not files.no_space(ValueError("other"), tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert files.no_space(ValueError("other"), tmp_path)


def test_an_altered_file_is_named(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "sub" / "b").write_bytes(b"")
    digests = files.digests_of(tmp_path)
    # The digests of "abc" and of nothing, as published for SHA-256.
    assert digests == {
        "a": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sub/b": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    assert files.altered(tmp_path, digests) is None
    (tmp_path / "sub" / "b").write_bytes(b"0")
    assert files.altered(tmp_path, digests) == tmp_path / "sub" / "b"
    (tmp_path / "a").unlink()
    assert files.altered(tmp_path, digests) == tmp_path / "a"
