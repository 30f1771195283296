import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from espalier.best.selection import BLOCK, best_segments, shard, spread


@given(st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=6), max_size=8))
def test_best_segment_by_brute_force(scores: list[list[int]]) -> None:
    starts = np.cumsum([0, *map(len, scores)])[:-1]
    flat = np.array([s for group in scores for s in group], dtype=np.float32)
    assert best_segments(flat, starts).tolist() == [group.index(max(group)) for group in scores]


def test_spread_pairs_a_query_with_each_segment_of_its_document() -> None:
    one, two, three = (np.array([i], dtype=np.int32) for i in (1, 2, 3))
    everything = spread([one, two], [[one, two, three], [three]])
    assert [(int(q[0]), int(s[0])) for q, s in everything.inputs] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 3),
    ]
    assert everything.starts.tolist() == [0, 3]


@given(st.integers(0, 5000), st.integers(1, 9))
def test_shards_are_all_pairs_in_whole_blocks(pairs: int, shards: int) -> None:
    ranges = [shard(pairs, number, shards) for number in range(shards)]
    assert [i for own in ranges for i in own] == list(range(pairs))
    assert all(own.start % BLOCK == 0 or own.start == pairs for own in ranges)
