from hypothesis import given
from hypothesis import strategies as st

from espalier.text.batching import by_length


@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 200))
def test_every_text_once_and_batches_within_the_bound(lengths: list[int], padded: int) -> None:
    batches = by_length(lengths, padded)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= padded


def test_shortest_first_and_equal_lengths_in_order() -> None:
    assert by_length([5, 2, 5, 2], 10) == [[1, 3], [0, 2]]
