from types import SimpleNamespace

import pytest

from espalier.resources import memory, minutes


@pytest.fixture
def asked(tmp_path):
    """A job on a view of 3 million documents, with inputs of 700 MB."""
    (tmp_path / "manifest.json").write_text('{"docs_count": 3000000}')
    wildcards = SimpleNamespace(view="passages")
    return wildcards, SimpleNamespace(view=str(tmp_path), size_mb=700.0)


def test_memory_is_that_of_the_shard_and_grows_with_each_attempt(asked):
    # 1000 MB, and 20 kB for each of 750,000 documents.
    assert memory(1000, document_kb=20, shards=4)(*asked, 1) == 16_000
    assert memory(1000, document_kb=20, shards=4)(*asked, 3) == 48_000
    assert memory(1000, document_kb={"passages": 2, "documents": 9})(*asked, 1) == 7_000
    assert memory(50, input_share=0.5)(*asked, 2) == 800


def test_minutes_likewise(asked):
    # 30 minutes, and 60 ms for each of 1.5 million documents: 1500 minutes.
    assert minutes(30, document_ms=60, shards=2)(*asked, 1) == 1530
    assert minutes(30, document_ms=60, shards=2)(*asked, 2) == 3060
    assert minutes(1, mb_seconds=3)(*asked, 1) == 36


def test_before_the_snapshot_the_size_is_not_known(asked, tmp_path):
    """Snakemake takes this error, with this name, for an input that another job will make."""
    wildcards, given = asked
    given.view = str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as raised:
        memory(1000, document_kb=20)(wildcards, given, 1)
    assert raised.value.filename == given.view
    assert memory(1000, input_share=1)(wildcards, given, 1) == 1700
