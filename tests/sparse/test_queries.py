import pandas as pd
import pytest

from espalier.errors import EspalierError
from espalier.sparse import quantize, queries
from espalier.sparse.shards import Text


def rows(table):
    return list(table.itertuples(index=False, name=None))


def test_both_sides_fill_the_same_range():
    # 'red' stands twice: it weighs as much as the largest learned weight, and 'fox' half of it.
    asked = {"q": Text({"red": 2, "fox": 1}, {"fox": 0.5, "dog": 2.0})}
    assert rows(queries.table(asked, 1.0)) == [
        ("q", "dog", 0, 2 * 64),
        ("q", "fox", 1 * 64, 32),
        ("q", "red", 2 * 64, 0),
    ]
    # The scale stretches the BM25 side alone.
    assert rows(queries.table(asked, 0.25)) == [
        ("q", "dog", 0, 128),
        ("q", "fox", 16, 32),
        ("q", "red", 32, 0),
    ]


def test_without_learned_weights_the_most_frequent_term_weighs_1():
    asked = {"q": Text({"a": 1, "b": 4}, {}), "zeros": Text({"a": 3}, {"b": 0.0})}
    assert rows(queries.table(asked, 1.0)) == [
        ("q", "a", 16, 0),
        ("q", "b", 64, 0),
        ("zeros", "a", 64, 0),
    ]


def test_weights_are_rounded_and_terms_that_weigh_nothing_left_out():
    # 1/128 of 64 is 0.5, which rounds to the even 0; 'c' is lexical alone and 2/3 · 64 = 42.7.
    asked = {"q": Text({"a": 3, "c": 2}, {"a": 1.0, "b": 1 / 128, "d": 3 / 128})}
    assert rows(queries.table(asked, 1.0)) == [
        ("q", "a", 64, 64),
        ("q", "c", 43, 0),
        ("q", "d", 0, 2),
    ]


def test_the_table_s_columns_have_types_even_without_rows(tmp_path):
    for asked in ({}, {"empty": Text({}, {})}, {"q": Text({"a": 1}, {})}):
        table = queries.table(asked, 1.0)
        assert list(table.columns) == ["query_id", "term", "bm25", "learned"]
        assert [str(table[c].dtype) for c in ("bm25", "learned")] == ["int64", "int64"]
        table.to_parquet(tmp_path / "queries.parquet", index=False)
        assert rows(pd.read_parquet(tmp_path / "queries.parquet")) == rows(table)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_one_clear_error(bad):
    with pytest.raises(EspalierError, match=r"^query: 1 weights are negative, NaN or infinite"):
        queries.table({"q": Text({"a": 1}, {"a": bad, "b": 1.0})}, 1.0)


def test_weights_too_large_for_exact_sums_are_refused():
    most = float(quantize.MOST)
    assert rows(queries.table({"q": Text({}, {"a": most})}, 1.0)) == [("q", "a", 0, 2**26)]
    for text, scale in ((Text({}, {"a": most + 1}), 1.0), (Text({"a": 1}, {"a": most}), 1.5)):
        with pytest.raises(EspalierError, match=r"the most is 1048576; scale the queries' weights"):
            queries.table({"q": text}, scale)
    # 500 terms of that weight with the largest posting weights, in thousandths of a share.
    assert 500 * 2**26 * 255 * 1000 < 2**53


def test_queries_have_the_index_s_term_numbers_in_the_table_s_order():
    asked = {
        "b": Text({"red": 1, "fox": 1}, {"fox": 1.0}),
        "unknown": Text({"cat": 1}, {"cow": 1.0}),
        "empty": Text({}, {}),
        "a": Text({"dog": 1, "cat": 1}, {"dog": 2.0}),
    }
    found = queries.by_query(queries.table(asked, 1.0), {"dog": 0, "fox": 5, "red": 7})
    columns = {i: [c.tolist() for c in query] for i, query in found.items()}
    # 'empty' has no row; 'cat' and 'cow' are in no document.
    assert list(columns) == ["b", "unknown", "a"]
    assert columns == {
        "b": [[5, 7], [64, 64], [64, 0]],
        "unknown": [[], [], []],
        "a": [[0], [128], [128]],
    }
    assert {c.dtype.name for query in found.values() for c in query} == {"int64"}


def test_a_table_without_rows_and_an_index_without_terms_give_no_terms():
    assert queries.by_query(queries.table({}, 1.0), {"a": 0}) == {}
    found = queries.by_query(queries.table({"q": Text({"a": 1}, {})}, 1.0), {})
    assert [column.tolist() for column in found["q"]] == [[], [], []]
