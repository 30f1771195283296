"""The store: segments map back to the text, and the limits of the config hold."""

import pandas as pd
import pytest
from transformers import AutoTokenizer

from espalier.best import store
from espalier.best.inputs import Layout
from espalier.collections.access import Doc
from espalier.errors import EspalierError

SETTINGS = {
    "max_length": 16, "query_length": 4, "title_length": 2, "shortest": 0.4,
    "training": 3, "inference": None,
}  # fmt: skip
WORDS = ["Aa bb cc. ", "Dd e. ", "Ff, gg. ", "Hh ii jj kk ll mm nn.\n\n", "Oo. "]
LONG = Doc("d1", "a b c", "".join(WORDS * 6))
EMPTY = Doc("d2", "e", "")
ALL = {kind: {"d1", "d2"} for kind in store.KINDS}


@pytest.fixture(scope="module")
def tokenizer(checkpoint):
    return AutoTokenizer.from_pretrained(checkpoint)


def cut(tokenizer, answers=(), **changes):
    settings = SETTINGS | changes
    spans = pd.DataFrame(answers, columns=["query_id", "doc_id", "start", "end"])
    special = Layout.of(tokenizer).special
    return store.cut(tokenizer, [LONG, EMPTY], ALL, spans, settings, special, 3)


def test_segments_are_the_word_pieces_of_their_characters(tokenizer):
    tables = cut(tokenizer)
    for kind in store.KINDS:
        table = tables[kind]
        rows = table[table["doc_id"] == "d1"]
        assert len(rows) == (3 if kind == "training" else rows["segment"].max() + 1)
        title = store.pieces_of(tokenizer, LONG.title)[:2].tolist()
        whole = tokenizer(LONG.text, add_special_tokens=False, return_offsets_mapping=True)
        places = list(zip(whole["input_ids"], whole["offset_mapping"], strict=True))
        for row in rows.itertuples():
            own = [i for i, (first, last) in places if row.start <= first and last <= row.end]
            assert row.pieces.tolist() == title + own
            assert len(row.pieces) + 4 + 3 <= 16


def test_inference_segments_are_the_whole_text(tokenizer):
    rows = cut(tokenizer)["inference"].query("doc_id == 'd1'")
    assert "".join(LONG.text[r.start : r.end] for r in rows.itertuples()) == LONG.text


def test_a_document_without_text_is_one_segment_of_its_title(tokenizer):
    tables = cut(tokenizer)
    for table in (tables[kind] for kind in store.KINDS):
        (row,) = table[table["doc_id"] == "d2"].itertuples()
        assert (row.start, row.end) == (0, 0)
        assert row.pieces.tolist() == store.pieces_of(tokenizer, "e").tolist()


def test_fewer_segments_are_the_leading_ones(tokenizer, monkeypatch):
    whole = cut(tokenizer)["inference"].query("doc_id == 'd1' and segment < 4")
    monkeypatch.setattr(store, "BLOCK", 1)
    leading = cut(tokenizer, inference=4, training=4)["inference"].query("doc_id == 'd1'")
    pd.testing.assert_frame_equal(leading.reset_index(drop=True), whole.reset_index(drop=True))


def test_only_what_is_wanted_is_cut(tokenizer):
    wanted = {"training": {"d1"}, "inference": {"d2"}}
    special = Layout.of(tokenizer).special
    nothing = pd.DataFrame(columns=["query_id", "doc_id", "start", "end"])
    tables = store.cut(tokenizer, [LONG, EMPTY], wanted, nothing, SETTINGS, special, 3)
    assert set(tables["training"]["doc_id"]) == {"d1"}
    assert set(tables["inference"]["doc_id"]) == {"d2"}


def test_long_queries_are_cut_and_counted(tokenizer):
    texts = {"train": {"q1": "a b c d e"}, "dev": {"q2": "a b c d"}, "test": {}}
    table, shortened = store.query_table(tokenizer, texts, 4)
    assert shortened == 1
    assert [len(pieces) for pieces in table["pieces"]] == [4, 4]


def test_no_room_for_segments_is_the_users_error(tokenizer):
    with pytest.raises(EspalierError, match=r"best\.segments\.max_length"):
        cut(tokenizer, max_length=9)


def test_written_and_read(tokenizer, tmp_path):
    layout, tables = Layout.of(tokenizer), cut(tokenizer)
    queries, _ = store.query_table(tokenizer, {"train": {"q1": "a b"}, "dev": {}, "test": {}}, 4)
    store.write(tmp_path / "s", layout, {"queries": queries, **tables})
    opened = store.Store(tmp_path / "s")
    assert opened.layout == layout
    assert opened.queries("train")["q1"].tolist() == store.pieces_of(tokenizer, "a b").tolist()
    assert opened.queries("dev") == {}
    found = opened.segments("inference")["d1"]
    expected = tables["inference"].query("doc_id == 'd1'")["pieces"]
    assert [pieces.tolist() for pieces in found] == [pieces.tolist() for pieces in expected]


def test_gold_segments_are_training_segments_wherever_they_stand(tokenizer):
    whole = cut(tokenizer, training=99)["training"].query("doc_id == 'd1'").reset_index(drop=True)
    at = len(whole) - 3
    one, next_one = whole.loc[at], whole.loc[at + 1]
    answers = [
        ("inside", "d1", one.start + 1, one.end - 1),
        ("more in the first", "d1", one.start + 1, one.end + 1),
        ("half and half", "d1", one.end - 2, one.end + 2),
        ("two places", "d1", next_one.start, next_one.end),
        ("two places", "d1", one.start, one.end),
        ("longer than segments", "d1", whole.loc[0, "end"] - 1, whole["end"].max()),
    ]
    tables = cut(tokenizer, answers, training=2)
    assert tables["training"].query("doc_id == 'd1'")["segment"].tolist() == [0, 1]
    gold = tables["gold"].set_index("query_id")
    assert gold["segment"].to_dict() == {
        "inside": at, "more in the first": at, "two places": at,
        "longer than segments": 1,
    }  # fmt: skip
    assert gold.loc["inside", "pieces"].tolist() == one.pieces.tolist()


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 3), (5, 10**6)])
def test_a_span_outside_its_text_is_named(start, end):
    spans = pd.DataFrame([("q7", "d1", start, end)], columns=["query_id", "doc_id", "start", "end"])
    store.check_spans([EMPTY, LONG], spans.assign(start=0, end=3))
    with pytest.raises(EspalierError, match=rf"query q7 in document d1: characters {start} to"):
        store.check_spans([EMPTY, LONG], spans)
