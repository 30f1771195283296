import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.errors import EspalierError
from espalier.sparse import names
from espalier.sparse.names import Names

strings = st.lists(st.text(max_size=12), max_size=20)


def test_names_are_their_utf_8_bytes_and_where_they_begin():
    packed = Names.of(["a", "", "é", "日x"])
    assert packed.text.tolist() == [0x61, 0xC3, 0xA9, 0xE6, 0x97, 0xA5, 0x78]
    assert packed.begin.tolist() == [0, 1, 1, 3, 7]
    assert (packed.text.dtype, packed.begin.dtype) == (np.uint8, np.int64)
    assert (len(packed), packed[2], list(packed)) == (4, "é", ["a", "", "é", "日x"])


@given(strings)
def test_names_are_read_as_they_were_written(tmp_path_factory, given_strings):
    folder = tmp_path_factory.mktemp("names")
    Names.of(given_strings).write(folder, "doc_ids")
    back = Names.read(folder, "doc_ids")
    assert list(back) == given_strings
    assert [back[i] for i in range(len(back))] == given_strings
    assert {path.name for path in folder.iterdir()} == {"doc_ids.npy", "doc_ids_begin.npy"}


@given(st.lists(strings, max_size=5))
def test_joined_names_are_all_names_in_order(parts):
    whole = names.joined(map(Names.of, parts))
    assert list(whole) == [string for part in parts for string in part]
    assert (whole.text.dtype, whole.begin.dtype) == (np.uint8, np.int64)


# Few letters, so that names repeat often.
few = st.lists(st.text("ab\0é", max_size=3), max_size=12)


@pytest.mark.parametrize("colliding", [False, True])
@given(few)
def test_a_repeated_name_is_found_even_where_hashes_collide(colliding, given_strings):
    packed = Names.of(given_strings)
    with pytest.MonkeyPatch.context() as patch:
        if colliding:
            patch.setattr(names, "polynomial", lambda n: np.zeros(len(n), np.uint64))
        found = names.repeated(packed)
    twice = {string for string in given_strings if given_strings.count(string) > 1}
    assert found in twice if twice else found is None


def test_a_hash_depends_on_every_byte_on_their_order_and_on_the_length():
    distinct = ["", "\0", "\0\0", "a", "a\0", "\0a", "ab", "ba", "abc", "abd", "xbc", "é"]
    hashes = names.polynomial(Names.of([*distinct, *distinct]))
    assert hashes[: len(distinct)].tolist() == hashes[len(distinct) :].tolist()
    assert len(set(hashes.tolist())) == len(distinct)


def test_what_is_no_unicode_text_is_one_clear_error():
    with pytest.raises(EspalierError, match=r"^'a\\ud800' is no Unicode text; correct that doc_id"):
        Names.of(["fine", "a\ud800"])
