from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from espalier.text.batching import BLOCK, by_length, in_blocks, shard

LENGTHS = st.lists(st.integers(1, 60), max_size=60)


@given(LENGTHS, st.integers(1, 200))
def test_every_text_once_and_batches_within_the_bound(lengths: list[int], padded: int) -> None:
    batches = by_length(lengths, padded)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= padded


def test_shortest_first_and_equal_lengths_in_order() -> None:
    assert by_length([5, 2, 5, 2], 10) == [[1, 3], [0, 2]]


def test_batches_end_where_blocks_do_and_leave_empty_texts_out() -> None:
    lengths = [3] * (BLOCK - 1) + [0] + [2, 1]
    assert in_blocks(lengths, 3 * BLOCK) == [list(range(BLOCK - 1)), [BLOCK + 1, BLOCK]]


@given(st.integers(0, 9 * BLOCK), st.integers(1, 12))
def test_shards_are_whole_blocks_in_order(texts: int, of: int) -> None:
    cuts = [shard(texts, number, of) for number in range(of)]
    assert cuts[0][0] == 0 and cuts[-1][1] == texts
    assert all(cut[1] == following[0] for cut, following in pairwise(cuts))
    assert all(start % BLOCK == 0 or start == texts for start, _ in cuts)
    sizes = [-(-(stop - start) // BLOCK) for start, stop in cuts]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_shards_have_the_batches_of_the_whole(seed: int, of: int) -> None:
    lengths = np.random.default_rng(seed).integers(0, 40, 4 * BLOCK + 17).tolist()
    whole = in_blocks(lengths, 300)
    parts = []
    for number in range(of):
        start, stop = shard(len(lengths), number, of)
        parts += [[start + i for i in batch] for batch in in_blocks(lengths[start:stop], 300)]
    assert parts == whole
