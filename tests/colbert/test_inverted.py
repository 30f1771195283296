"""Lists of shards, joined, are the bytes that FAISS writes of one process's index."""

import tracemalloc

import faiss
import numpy as np
import pytest

from espalier.colbert import index as ann
from espalier.colbert import inverted, quantizer
from espalier.errors import EspalierError
from espalier.text import batching
from tests.colbert import made


@pytest.fixture
def small_blocks(monkeypatch):
    """Few documents to a block, so that shards of some blocks are small."""
    monkeypatch.setattr(batching, "BLOCK", 100)


def sequential(coder, everything, stays, documents):
    """FAISS's bytes of one index that all blocks were added to; all documents have ten."""
    whole = faiss.deserialize_index(faiss.serialize_index(coder.index))
    with quantizer.one_thread():
        for start in range(0, 10 * documents, 1000):
            numbers = start + np.flatnonzero(stays[start : start + 1000])
            whole.add_with_ids(everything[numbers], numbers)
    return faiss.serialize_index(whole).tobytes()


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("cut", [1200, 400, 100])
def test_joined_lists_are_the_index_of_one_process(
    tmp_path, monkeypatch, small_blocks, cut, metric
):
    opened, everything = made.shards_of(tmp_path / "shards", [10] * 1200, cut, dimensions=32)
    coder, plan = made.trained(tmp_path / "q", opened, metric=metric, sample=0.3, bits=4)
    assert plan.partitions == 64
    for name, stays in (
        ("whole", np.ones(12_000, np.bool_)),
        ("half", np.arange(12_000) % 2 == 0),
        ("few", np.arange(12_000) % 1000 == 0),  # 12: most lists are empty
    ):
        kept = np.split(stays, np.arange(10 * cut, 12_000, 10 * cut))
        folders = made.lists_of(tmp_path / name, coder, opened, kept)
        expected = sequential(quantizer.read(tmp_path / "q"), everything, stays, 1200)
        assert (b"sprs" in expected) == (name == "few")
        for group in (1, 300, 1 << 18):
            monkeypatch.setattr(inverted, "GROUP", group)
            assert inverted.join(tmp_path / "i", coder.index, folders) == stays.sum()
            assert (tmp_path / "i").read_bytes() == expected
            assert coder.index.ntotal == 0


def test_a_flat_index_is_one_list(tmp_path, small_blocks):
    opened, everything = made.shards_of(tmp_path, [10] * 300, 100)
    coder, plan = made.trained(tmp_path / "q", opened)
    assert plan.partitions == 0
    folders = made.lists_of(tmp_path / "lists", coder, opened)
    sizes = [inverted.array(folder, "sizes").tolist() for folder in folders]
    assert sizes == [[1000]] * 3
    flat = faiss.IndexIDMap2(faiss.IndexFlatL2(8))
    flat.add_with_ids(everything, np.arange(3000))
    for name in ("i", "again"):  # it is joined into a copy
        assert inverted.join(tmp_path / name, coder.index, folders) == 3000
        assert (tmp_path / name).read_bytes() == faiss.serialize_index(flat).tobytes()


@pytest.mark.parametrize("documents", [200, 10])
def test_a_shard_without_embeddings_adds_nothing(tmp_path, documents):
    counts = [10] * documents
    opened, everything = made.shards_of(
        tmp_path / "s", [*counts, *[0] * documents, *counts], documents
    )
    index, plan = made.built(tmp_path / "i", opened, bits=4)
    assert (plan.partitions > 0) == (documents == 200)
    assert index.ntotal == len(everything) == 20 * documents


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_shard_is_coded_by_one_thread(tmp_path, monkeypatch, small_blocks, threads):
    opened, _ = made.shards_of(tmp_path, [12] * 1000, 1000, dimensions=64)
    usual, used = faiss.omp_get_max_threads(), []

    def noting(method):
        def noted(*arguments):
            used.append(faiss.omp_get_max_threads())
            return method(*arguments)

        return noted

    # Products are too small here to be rounded otherwise by two threads: so these are counted, too.
    for kind, method in ((faiss.IndexIVFPQ, "train"), (faiss.Index, "search")):
        monkeypatch.setattr(kind, method, noting(getattr(kind, method)))
    faiss.omp_set_num_threads(threads)
    try:
        made.built(tmp_path / "i", opened, bits=4)
        assert faiss.omp_get_max_threads() == threads
    finally:
        faiss.omp_set_num_threads(usual)
    assert used == [1] * (1 + 10)  # k-means, then ten blocks of a hundred documents


def test_joining_needs_no_more_memory_for_a_larger_collection(tmp_path, monkeypatch):
    monkeypatch.setattr(inverted, "GROUP", 4000)
    peaks = []
    for documents in (3000, 12_000):
        opened, _ = made.shards_of(tmp_path / f"{documents}", [10] * documents, 1500)
        steps = tmp_path / f"steps{documents}"
        coder, plan = made.trained(steps / "q", opened, sample=2500 / (10 * documents), bits=4)
        assert plan.partitions == 64
        folders = made.lists_of(steps / "lists", coder, opened)
        tracemalloc.start()
        inverted.join(steps / "i", coder.index, folders)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (steps / "i").stat().st_size > 10 * documents * (2 + 8)
    # Far below ten bytes for each of 120,000 embeddings.
    assert peaks[1] < 1.5 * peaks[0] < 600_000


def test_coding_takes_the_memory_that_it_says(tmp_path, small_blocks):
    opened, _ = made.shards_of(tmp_path / "s", [10] * 6000, 6000, dimensions=32)
    coder, _ = made.trained(tmp_path / "q", opened, subquantizers=32, bits=4)
    assert inverted.width(coder.index) == 16
    (kept,) = made.whole(opened)
    tracemalloc.start()
    inverted.invert(coder.index, opened.shards[0], kept, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 48 <= peak / 60_000 < 52


def test_lists_are_those_of_every_shard_once_in_order(tmp_path):
    opened, _ = made.shards_of(tmp_path / "s", [3, 2, 3, 2], 2)  # two shards that look alike
    coder, _ = made.trained(tmp_path / "q", opened)
    first, second = made.lists_of(tmp_path / "lists", coder, opened)

    def refused(lists, message):
        with pytest.raises(EspalierError) as caught:
            ann.write(tmp_path / "i", coder, lists)
        assert str(caught.value) == message
        assert not (tmp_path / "i").exists()

    order = "give each shard's once, in order"
    refused([second, first], f"{second}: lists of shard 1 where those of 0 belong; {order}")
    refused([first, first], f"{first}: lists of shard 0 where those of 1 belong; {order}")
    for lists in ([first], [first, second, second]):
        refused(
            lists,
            f"{tmp_path}/lists: lists of {len(lists)} shards, but the quantizer was trained on 2; "
            f"{order}",
        )


def test_damaged_lists_and_those_of_another_quantizer_are_refused(tmp_path):
    opened, _ = made.shards_of(tmp_path / "s", [3, 2], 2)
    coder, _ = made.trained(tmp_path / "q", opened)
    (folder,) = made.lists_of(tmp_path / "lists", coder, opened)
    ann.write(tmp_path / "i", coder, [folder])

    def refused(pattern, digest=coder.digest):
        with pytest.raises(EspalierError, match=f"^{folder}: {pattern}") as caught:
            inverted.verify([folder], digest)
        assert "\n" not in str(caught.value)

    refused("made by another quantizer; delete it and run again", "another")
    for name in ("sizes", "codes", "numbers"):
        path = folder / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        refused("damaged; delete it and run again")
        path.unlink()
        refused("damaged; delete it and run again")
        path.write_bytes(content)
    described = folder / inverted.DESCRIPTION
    for content in ("{", "{}", "[]"):
        described.write_text(content)
        refused(r"no lists \(.*\); delete it and run again")
