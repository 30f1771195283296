import pytest
import torch

from espalier.errors import EspalierError
from espalier.models.checkpoints import Checkpoint

STATE = {"weights": torch.arange(3.0), "step": 7, "losses": [0.5, 0.25], "rng": {"state": 2**100}}


def test_what_was_saved_is_loaded(tmp_path):
    Checkpoint(tmp_path / "c", "key", 0).save(STATE)
    found = Checkpoint(tmp_path / "c", "key", 0).load()
    assert torch.equal(found.pop("weights"), STATE["weights"])
    assert found == {k: v for k, v in STATE.items() if k != "weights"}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_none_before_the_first_and_none_of_another_key(tmp_path):
    assert Checkpoint(tmp_path / "c", "key", 0).load() is None
    Checkpoint(tmp_path / "c", "key", 0).save(STATE)
    assert Checkpoint(tmp_path / "c", "other", 0).load() is None


def test_due_when_the_seconds_have_passed(tmp_path, monkeypatch):
    now = iter([100.0, 109.0, 110.0, 111.0, 120.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    checkpoint = Checkpoint(tmp_path / "c", "key", 10)
    assert not checkpoint.due
    assert checkpoint.due
    checkpoint.save(STATE)
    assert not checkpoint.due


@pytest.mark.parametrize("damage", [lambda b: b[:-40], lambda b: b[: len(b) // 3], lambda b: b""])
def test_a_damaged_file_is_named(tmp_path, damage):
    file = tmp_path / "c"
    Checkpoint(file, "key", 0).save(STATE)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(EspalierError, match=r"c: a damaged checkpoint; delete it"):
        Checkpoint(file, "key", 0).load()
