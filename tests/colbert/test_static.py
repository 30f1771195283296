import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.colbert import static
from espalier.colbert.static import kept

FREQUENCY = np.array([90, 1, 7, 7, 30, 0])


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        # Document 0 has the tokens 0 (its [CLS]), 4, 2, 3, 1; document 1 none; document 2 0, 0, 4.
        # Rarest first after [CLS]: 1, 2, 3 (a tie, by position), 4; and 4, 0.
        (0.01, "10000 100"),
        (0.4, "10001 101"),  # 2 of 5; 1.2, so 2, of 3
        (0.5, "10101 101"),  # 2.5, so 3; 1.5, so 2
        (0.8, "10111 111"),
        (1.0, "11111 111"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_the_rarest_stay_by_hand(share, expected, at_once, monkeypatch):
    monkeypatch.setattr(static, "DOCUMENTS", at_once)
    tokens, offsets = np.array([0, 4, 2, 3, 1, 0, 0, 4], dtype=np.int32), np.array([0, 5, 5, 8])
    chosen = "".join("01"[int(stays)] for stays in kept(tokens, offsets, FREQUENCY, share))
    assert chosen == expected.replace(" ", "")


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=6),
    st.sampled_from([0.07, 0.1, 0.3, 0.5, 0.7, 1.0]),
)
def test_every_document_keeps_its_share_and_its_first(documents, share):
    tokens = np.array([t for document in documents for t in document], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, documents)])
    chosen = kept(tokens, offsets, FREQUENCY, share)
    for document, a, b in zip(documents, offsets[:-1], offsets[1:], strict=True):
        own = chosen[a:b]
        # In hundredths, where shares are whole numbers.
        assert own.sum() == -(-round(100 * share) * len(document) // 100)
        if document:
            assert own[0]
            ranks = FREQUENCY[np.array(document[1:], dtype=np.int64)]
            if not own.all() and own[1:].any():
                assert ranks[own[1:]].max() <= ranks[~own[1:]].min()
