import json
import math
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.format import open_memmap

from espalier.errors import EspalierError
from espalier.sparse import ciff, exchange, index, inverted, queries, shards
from espalier.sparse.guidance import Guidance
from espalier.sparse.names import Names
from espalier.sparse.postings import Partition, Postings, Query
from espalier.sparse.retrieval import search
from espalier.sparse.shards import Text
from tests.sparse.made import make_index
from tests.sparse.test_traversal import SAFE, guided

NUMBERS = {"block_size": 2, "k1": 0.9, "b": 0.4}
EVERY = [*({"algorithm": name} for name in SAFE), guided(Guidance(0.5, 0.5))]


def cut(documents, *cuts):
    """Documents {doc_id: (frequency, learned)} as shards that end at the cuts."""
    rows = list(documents.items())
    ends = [*cuts, len(rows)]
    return [
        shards.build([i for i, _ in rows[a:b]], [Text(*text) for _, text in rows[a:b]])
        for a, b in zip([0, *cuts], ends, strict=True)
    ]


def build(folder, parts, **options):
    """What `index.build` says of an index of shards."""
    turned = [inverted.invert(part) for part in parts]
    return index.build(folder, turned, **{**NUMBERS, **options})


def built(folder, parts, **options):
    """Build an index there, and open it."""
    index.seal(folder, build(folder, parts, **options))
    return index.read(folder)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def contents(opened):
    """{term: {doc_id: (bm25, learned)}} of terms with postings, and that every list is sound."""
    postings, documents, found = opened.postings, len(opened.doc_ids), {}
    assert list(opened.lexicon) == sorted(opened.lexicon)
    assert list(opened.lexicon.values()) == list(range(len(opened.lexicon)))
    assert len(postings.term_begin) == len(opened.lexicon) + 1
    assert postings.term_begin[-1] == len(postings.docs)
    for term, t in opened.lexicon.items():
        begin, end = (int(at) for at in postings.term_begin[t : t + 2])
        rows = zip(*(c[begin:end].tolist() for c in postings[:3]), strict=True)
        *held, sentinel = ((doc, (b, w)) for doc, b, w in rows)
        assert sentinel == (documents, (0, 0))
        assert [doc for doc, _ in held] == sorted({doc for doc, _ in held})
        if held:
            found[term] = {opened.doc_ids[doc]: weights for doc, weights in held}
        for side in ("bm25", "learned"):
            largest = getattr(postings, side)[begin:end].max()
            assert getattr(postings, f"term_{side}")[t] == largest
    return found


def check_partitions(opened):
    """Every block's last document and maxima are those of its postings."""
    postings = opened.postings
    for partition in opened.partitions.values():
        assert partition.term_block[-1] == len(partition.block_begin)
        ends = np.append(partition.block_begin, len(postings.docs))
        for m, (begin, end) in enumerate(pairwise(ends)):
            assert partition.block_last[m] == postings.docs[begin:end].max()
            assert partition.block_bm25[m] == postings.bm25[begin:end].max()
            assert partition.block_learned[m] == postings.learned[begin:end].max()


def exact(documents, support="union", own_terms=False):
    """{term: {doc_id: (bm25, learned)}} by the formulas, nothing scaled."""
    found = {}
    mean = sum(sum(f.values()) for f, _ in documents.values()) / max(len(documents), 1) or 1
    for doc_id, (frequency, learned) in documents.items():
        norm = 0.9 * (0.6 + 0.4 * sum(frequency.values()) / mean)
        for term in frequency.keys() | learned.keys():
            df = sum(term in f for f, _ in documents.values())
            times = frequency.get(term, 0)
            b = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5)) * times * 1.9
            w = 0.0 if own_terms and not times else learned.get(term, 0.0)
            if {"union": times or w, "bm25": times, "learned": w}[support]:
                found.setdefault(term, {})[doc_id] = (b / (times + norm), w)
    return found


# Document c is empty, and a's learned weight of 'dog' is 0: no posting.
DOCUMENTS = {
    "a": ({"red": 2, "fox": 1}, {"fox": 1.0, "dog": 0.0}),
    "b": ({"dog": 1}, {"red": 0.5}),
    "c": ({}, {}),
    "d": ({"fox": 1, "dog": 1}, {"dog": 2.0}),
}


def test_a_shard_has_its_documents_on_the_union_of_both_supports(tmp_path):
    (made,) = cut(DOCUMENTS)
    shards.write(tmp_path / "s", made)
    for shard in (made, shards.read(tmp_path / "s")):
        lexicon = list(shard.lexicon)
        rows = zip(shard.terms.tolist(), shard.frequency, shard.learned, strict=True)
        assert [(lexicon[t], f, w) for t, f, w in rows] == [
            ("dog", 0, 0.0), ("fox", 1, 1.0), ("red", 2, 0.0),
            ("dog", 1, 0.0), ("red", 0, 0.5),
            ("dog", 1, 2.0), ("fox", 1, 0.0),
        ]  # fmt: skip
        assert list(shard.doc_ids) == ["a", "b", "c", "d"]
        assert shard.doc_begin.tolist() == [0, 3, 5, 5, 7]
        assert shard.lengths.tolist() == [3, 1, 0, 2]
        kinds = [array.dtype.name for array in shard[2:]]
        assert kinds == ["int64", "int64", "int32", "int32", "float32"]


def test_a_damaged_inverted_shard_is_refused(tmp_path):
    folder = tmp_path / "s"
    inverted.write(folder, inverted.invert(cut(DOCUMENTS)[0]))
    assert len(inverted.read(folder).docs) == 7
    arrays = sorted(folder.glob("*.npy"))
    assert len(arrays) == 9
    for path in arrays:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        refused(f"{folder}: damaged; delete it and run again$", inverted.read, folder)
        path.unlink()
        refused(f"{folder}: damaged; delete it and run again$", inverted.read, folder)
        path.write_bytes(content)
    for content in ("{", "{}", "[]"):
        (folder / inverted.DESCRIPTION).write_text(content)
        refused(rf"{folder}: no inverted shard \(.*\); delete it", inverted.read, folder)


def test_an_inverted_shard_has_the_same_postings_term_by_term(tmp_path):
    (shard,) = cut(DOCUMENTS)
    inverted.write(tmp_path / "s", inverted.invert(shard))
    for made in (inverted.invert(shard), inverted.read(tmp_path / "s")):
        assert list(made.doc_ids) == ["a", "b", "c", "d"]
        assert list(made.lexicon) == ["dog", "fox", "red"]
        assert made.lengths.tolist() == [3, 1, 0, 2]
        assert made.term_begin.tolist() == [0, 3, 5, 7]
        rows = zip(made.docs.tolist(), made.frequency, made.learned, strict=True)
        assert list(rows) == [
            (0, 0, 0.0), (1, 1, 0.0), (3, 1, 2.0),
            (0, 1, 1.0), (3, 1, 0.0),
            (0, 2, 0.0), (1, 0, 0.5),
        ]  # fmt: skip
        kinds = [array.dtype.name for array in made[2:]]
        assert kinds == ["int64", "int64", "int32", "int32", "float32"]


# With k1 = 1 and b = 0 a term weighs idf · 2f / (f + 1): dog and fox ln 2 = 0.693 in two of four
# documents, red ln(10/3) · 4/3 = 1.605 twice in one: 110 and 255. Learned weights have a range of
# 2: 0.5 is 64, and 1.0, at 127.5, the even 128. Terms in order: dog, fox, red; 4 is the sentinel.
BY_HAND = {
    "union": (
        [1, 3, 4, 0, 3, 4, 0, 1, 4],
        [110, 110, 0, 110, 110, 0, 255, 0, 0],
        [0, 255, 0, 128, 0, 0, 0, 64, 0],
        [0, 3, 6, 9],
        [110, 110, 255],
        [255, 128, 64],
    ),
    # The range of BM25 is now that of dog in d and fox in a: whole at ln 2.
    "learned": (
        [3, 4, 0, 4, 1, 4],
        [255, 0, 255, 0, 0, 0],
        [255, 0, 128, 0, 64, 0],
        [0, 2, 4, 6],
        [255, 255, 0],
        [255, 128, 64],
    ),
    "bm25": (
        [1, 3, 4, 0, 3, 4, 0, 4],
        [110, 110, 0, 110, 110, 0, 255, 0],
        [0, 255, 0, 128, 0, 0, 0, 0],
        [0, 3, 6, 8],
        [110, 110, 255],
        [255, 128, 0],
    ),
}


@pytest.mark.parametrize("support", BY_HAND)
def test_an_index_by_hand(tmp_path, support):
    found = built(tmp_path / "i", cut(DOCUMENTS, 2), support=support, k1=1.0, b=0.0)
    for name, array, expected in zip(
        Postings._fields, found.postings, BY_HAND[support], strict=True
    ):
        assert array.tolist() == expected, name
    kinds = [array.dtype.name for array in found.postings]
    assert kinds == ["uint32", "uint8", "uint8", "int64", "uint8", "uint8"]
    assert list(found.doc_ids) == ["a", "b", "c", "d"]
    assert found.lexicon == {"dog": 0, "fox": 1, "red": 2}
    largest = math.log(2) if support == "learned" else math.log(10 / 3) * 4 / 3
    assert found.meta["largest"] == {"bm25": pytest.approx(largest), "learned": 2.0}
    assert found.meta["scale"] == pytest.approx(2 / largest)
    assert (found.meta["documents"], found.meta["terms"]) == (4, 3)
    assert found.meta["mean_length"] == 1.5
    assert found.meta["postings"] == len(BY_HAND[support][0]) - 3
    check_partitions(found)


def test_blocks_by_hand(tmp_path):
    union = built(tmp_path / "u", cut(DOCUMENTS, 2), k1=1.0, b=0.0)
    # Two postings a block: one for each list, and its sentinel's.
    fixed = union.partitions["fixed"]
    assert fixed.term_block.tolist() == [0, 2, 4, 6]
    assert fixed.block_begin.tolist() == [0, 2, 3, 5, 6, 8]
    assert fixed.block_last.tolist() == [3, 4, 3, 4, 1, 4]
    assert fixed.block_bm25.tolist() == [110, 0, 110, 0, 255, 0]
    assert fixed.block_learned.tolist() == [255, 0, 128, 0, 64, 0]
    kinds = [array.dtype.name for array in fixed]
    assert kinds == ["int64", "int64", "uint32", "uint8", "uint8"]
    single = built(tmp_path / "s", cut(DOCUMENTS, 2), k1=1.0, b=0.0, block_size=1)
    for partition in single.partitions.values():
        assert partition.term_block.tolist() == [0, 3, 6, 9]
        assert partition.block_begin.tolist() == list(range(9))
        assert partition.block_last.tolist() == BY_HAND["union"][0]
        assert partition.block_bm25.tolist() == BY_HAND["union"][1]
        assert partition.block_learned.tolist() == BY_HAND["union"][2]


def test_variable_blocks_are_cut_by_the_weight_that_drives_them(tmp_path):
    # BM25 changes at the fourth of six postings, learned weights at the third.
    documents = {
        str(i): ({"t": times}, {"t": learned})
        for i, (times, learned) in enumerate(
            zip([1, 1, 1, 9, 9, 9], [9, 9, 1, 1, 1, 1], strict=True)
        )
    }
    starts = {"bm25": [0, 3, 6], "learned": [0, 2, 6]}
    for by in starts:
        for support, driving in (("union", by), ("bm25", "bm25"), ("learned", "learned")):
            options = {"support": support, "partition_by": by, "block_size": 3, "b": 0.0}
            found = built(tmp_path / f"{by}-{support}", cut(documents), **options)
            assert found.partitions["variable"].block_begin.tolist() == starts[driving]
            assert found.meta["partition_by"] == driving
            check_partitions(found)


def test_only_own_terms_keep_their_learned_weight(tmp_path):
    found = built(tmp_path / "u", cut(DOCUMENTS), own_terms=True)
    # 'red' does not stand in b.
    assert {term: set(p) for term, p in contents(found).items()} == {
        "dog": {"b", "d"}, "fox": {"a", "d"}, "red": {"a"},
    }  # fmt: skip
    learned = built(tmp_path / "l", cut(DOCUMENTS), own_terms=True, support="learned")
    assert {t: {i: w for i, (_, w) in p.items()} for t, p in contents(learned).items()} == {
        "dog": {"d": 255}, "fox": {"a": 128},
    }  # fmt: skip


def test_terms_are_numbered_by_their_code_points(tmp_path):
    terms = ["b", "é", "##s", "B", "日", "", "a", "\U0001f98a", "\uffff"]
    documents = {str(i): ({}, {term: 1.0 + i}) for i, term in enumerate(terms)}
    found = built(tmp_path / "i", cut(documents, 4))
    assert list(found.lexicon) == sorted(terms)
    assert {term: list(p) for term, p in contents(found).items()} == {
        term: [str(i)] for i, term in enumerate(terms)
    }


term = st.sampled_from(["a", "b", "B", "é", "##s"])
text = st.tuples(
    st.dictionaries(term, st.integers(1, 5)),
    st.dictionaries(term, st.just(0.0) | st.floats(2**-10, 8, width=32)),
)
collections = st.dictionaries(st.text(max_size=3), text, max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    collections, st.lists(st.integers(0, 8), max_size=3), st.sampled_from([1, 2, 3]),
    st.sampled_from(index.SUPPORTS), st.booleans(), st.booleans(), st.sampled_from([8, None]),
)  # fmt: skip
def test_an_index_has_the_weights_of_the_formulas_however_it_is_cut(
    documents, cuts, chunk, support, own_terms, reordered, bits
):
    options = {"support": support, "own_terms": own_terms, "reordered": reordered, "bits": bits}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = built(folder / "whole", cut(documents), **options)
        parts = cut(documents, *sorted(min(c, len(documents)) for c in cuts))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index, "CHUNK", chunk)
            index.seal(folder / "cut", build(folder / "cut", parts, **options))
        assert files(folder / "cut") == files(folder / "whole")

        # Too few documents to be reordered.
        assert list(whole.doc_ids) == list(documents)
        expected, found = exact(documents, support, own_terms), contents(whole)
        assert {t: set(p) for t, p in found.items()} == {t: set(p) for t, p in expected.items()}
        for side in (0, 1):
            pairs = [
                (w[side], found[t][doc_id][side])
                for t, posting in expected.items()
                for doc_id, w in posting.items()
            ]
            step = max((w for w, _ in pairs), default=0) / 255
            for weight, stored in pairs:
                assert (stored > 0) == (weight > 0)
                if bits is None:
                    assert stored * step == pytest.approx(weight, rel=1e-6)
                elif stored > 1 or weight == 0:
                    assert abs(stored * step - weight) <= step * 0.5001
                else:
                    assert weight <= step * 1.5001
        check_partitions(whole)


def topical(seed, count=70):
    """Documents of four topics in no order, with weights on a few terms of both sides."""
    rng = np.random.default_rng(seed)
    documents = {}
    for i in range(count):
        first = 6 * int(rng.integers(4))
        terms = [f"t{first + j}" for j in rng.choice(6, 4, replace=False)] + ["common"]
        documents[f"doc{i}"] = (
            {term: int(rng.integers(1, 4)) for term in terms[1:]},
            {term: float(np.float32(rng.random() * 3)) for term in terms[:-1]},
        )
    return documents


def asked(documents, lexicon, seed):
    """Queries of some documents' terms: by_query's."""
    rng = np.random.default_rng(seed)
    texts = [Text(*documents[f"doc{i}"]) for i in rng.choice(len(documents), 8, replace=False)]
    return queries.by_query(queries.table({str(i): t for i, t in enumerate(texts)}, 1.0), lexicon)


def by_doc_id(opened, query, setting, k):
    docs, scores, _ = search(opened, query, setting, k)
    return {opened.doc_ids[d]: s for d, s in zip(docs.tolist(), scores.tolist(), strict=True)}


@pytest.mark.parametrize("beta", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_reordered_documents_score_the_same(tmp_path, seed, beta):
    documents = topical(seed)
    plain = built(tmp_path / "plain", cut(documents, 20))
    ordered = built(tmp_path / "ordered", cut(documents, 20), reordered=True)
    assert list(ordered.doc_ids) != list(plain.doc_ids)
    assert contents(ordered) == contents(plain)
    check_partitions(ordered)
    assert ordered.lexicon == plain.lexicon
    every = [{**s, "alpha": beta, "beta": beta} for s in EVERY]
    for query in asked(documents, plain.lexicon, seed).values():
        expected = by_doc_id(plain, query, {"algorithm": "daat", "beta": beta}, len(documents))
        assert len(expected) > 10
        for setting in every:
            assert by_doc_id(plain, query, setting, len(documents)) == expected
            assert by_doc_id(ordered, query, setting, len(documents)) == expected
            # Ties at the cut may go to other documents, with the same scores.
            best = sorted(expected.values(), reverse=True)[:7]
            cut_off = by_doc_id(ordered, query, setting, 7)
            assert list(cut_off.values()) == best
            assert cut_off.items() <= expected.items()


@pytest.mark.parametrize("beta", [0.0, 0.2, 1.0])
def test_float_weights_score_as_the_exact_weights_do(tmp_path, beta):
    documents = topical(3)
    opened = built(tmp_path / "i", cut(documents, 30), bits=None, reordered=True)
    assert opened.postings.learned.dtype == opened.postings.bm25.dtype == np.float32
    weights = exact(documents)
    units = [max(w[s] for p in weights.values() for w in p.values()) / 255 for s in (0, 1)]
    names = list(opened.lexicon)
    for query in asked(documents, opened.lexicon, 3).values():
        terms = {}
        for t, wb, wl in zip(*(column.tolist() for column in query), strict=True):
            for doc_id, (b, w) in weights[names[t]].items():
                part = beta * wb * b / units[0] + (1 - beta) * wl * w / units[1]
                terms.setdefault(doc_id, []).append(part)
        expected = {i: math.fsum(parts) for i, parts in terms.items() if math.fsum(parts) > 0}
        for setting in EVERY:
            safe = {**setting, "alpha": beta, "beta": beta}
            found = by_doc_id(opened, query, safe, len(documents))
            assert found == pytest.approx(expected, rel=1e-5)


def test_equal_weights_are_all_at_the_top(tmp_path):
    documents = {str(i): ({"a": 1}, {"a": 3.0}) for i in range(5)}
    for bits in (8, None):
        found = built(tmp_path / str(bits), cut(documents), bits=bits)
        assert contents(found) == {"a": {str(i): (255, 255) for i in range(5)}}
        query = Query(*(np.array([v]) for v in (0, 1, 2)))
        for setting in EVERY:
            docs, scores, _ = search(found, query, {**setting, "beta": 0, "alpha": 0}, 3)
            assert (docs.tolist(), scores.tolist()) == ([0, 1, 2], [510.0] * 3)


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize(
    ("parts", "documents"),
    [([], 0), (cut({}), 0), (cut({}, 0, 0), 0), (cut({"a": ({}, {}), "b": ({}, {})}, 1), 2)],
)
def test_nothing_to_index_is_an_index_that_finds_nothing(tmp_path, parts, documents, reordered):
    for support in index.SUPPORTS:
        found = built(tmp_path / support, parts, support=support, reordered=reordered)
        assert len(found.doc_ids) == found.meta["documents"] == documents
        assert found.lexicon == contents(found) == {}
        check_partitions(found)
        for side in ("bm25", "learned"):
            assert exchange.as_ciff(found, side).doc_lengths.tolist() == [0] * documents
        encoded = queries.table({"q": Text({"a": 1}, {"b": 1.0})}, 1.0)
        query = queries.by_query(encoded, found.lexicon)["q"]
        for setting in EVERY:
            docs, scores, counters = search(found, query, {**setting, "beta": 0.5}, 10)
            assert len(docs) == len(scores) == sum(counters) == 0


def test_more_are_asked_for_than_there_are(tmp_path):
    found = built(tmp_path / "i", cut(DOCUMENTS, 1, 3))
    query = Query(np.array([0, 2]), np.array([0, 0]), np.array([64, 64]))
    for setting in EVERY:
        ranking = by_doc_id(found, query, {**setting, "alpha": 0, "beta": 0}, 10**6)
        # d has dog at 255, b has red at 64.
        assert list(ranking.items()) == [("d", 255 * 64), ("b", 64 * 64)]


def refused(pattern, call, *arguments, **options):
    """The call ends in an EspalierError of one line that begins so."""
    with pytest.raises(EspalierError, match=f"^{pattern}") as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_bad_documents_are_one_clear_error(tmp_path):
    first, second = cut(DOCUMENTS, 2)
    twice = r"index: document 'a' occurs twice in the collection; keep one of them"
    refused(twice, build, tmp_path / "i", [first, second, first])
    within = first._replace(doc_ids=Names.of(["a", "a"]))
    refused(twice, build, tmp_path / "i", [within])
    for bad in (-1.0, float("nan"), float("inf")):
        broken = second._replace(learned=np.array([2.0, bad], np.float32))
        pattern = rf"learned weights: 1 weights .*\(first: {bad}\); weights must be finite and not"
        refused(pattern, inverted.invert, broken)
    assert not (tmp_path / "i").exists()
    refused(r"'\\ud800' is no Unicode text", shards.build, ["a"], [Text({"\ud800": 1}, {})])


def test_document_numbers_and_the_sentinel_fit_32_bits(tmp_path, monkeypatch):
    most = 2**32 - 2
    assert index.checked_size(most) == most == np.uint32(most)
    too_many = r"index: {} documents, but an index holds at most {}; split the collection"
    refused(too_many.format(most + 1, most), index.checked_size, most + 1)
    monkeypatch.setattr(index, "MOST_DOCUMENTS", 3)
    refused(too_many.format(4, 3), build, tmp_path / "i", cut(DOCUMENTS))


def test_an_index_is_the_same_whenever_it_is_built_and_read(tmp_path):
    documents = topical(4)
    for options in ({"reordered": True}, {"bits": None}):
        folders = [tmp_path / f"{n}{len(options)}{options}" for n in (1, 2)]
        one, other = (built(folder, cut(documents, 9), **options) for folder in folders)
        assert files(folders[0]) == files(folders[1])
        assert contents(one) == contents(other)
        assert one.meta == other.meta
        assert one.meta.keys() >= {"version", "largest", "scale", "sha256", "block_size"}
        assert set(one.meta["sha256"]) == {path.name for path in folders[0].iterdir()} - {
            "meta.json"
        }


def test_any_damaged_file_is_named(tmp_path):
    folder = tmp_path / "i"
    built(folder, cut(DOCUMENTS, 2))
    remedy = "delete the folder and run the chain again"
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".npy")
    assert len(names) == len(Postings._fields) + 2 * len(Partition._fields) + 4
    for name in names:
        path, damaged = folder / name, rf"{folder / name}: missing, truncated or altered; {remedy}"
        content = path.read_bytes()
        altered = bytearray(content)
        altered[-1] ^= 1
        for bad in (content[:-1], bytes(altered), content + b"\0", b""):
            path.write_bytes(bad)
            refused(damaged, index.read, folder)
        path.unlink()
        refused(damaged, index.read, folder)
        path.write_bytes(content)
    index.read(folder)

    meta = folder / "meta.json"
    whole = json.loads(meta.read_text())
    without = {key: value for key, value in whole.items() if key != "sha256"}
    for bad in ("{", "[]", "", json.dumps(without)):
        meta.write_text(bad)
        refused(rf"{meta}: missing or damaged; {remedy}", index.read, folder)
    meta.unlink()
    refused(rf"{meta}: missing or damaged; {remedy}", index.read, folder)
    meta.write_text(json.dumps({**whole, "version": 99}))
    other = rf"{folder}: index of version 99, this is {index.VERSION}; {remedy}"
    refused(other, index.read, folder)


def test_postings_beyond_the_first_four_thousand_millions_are_found(tmp_path):
    # Files that are sparse on the disk: 2^32 postings of a term that no query has, then the lists
    # of a small index, whose rankings must not change by that.
    near = make_index(
        [{doc: (1, 1 + doc % 5) for doc in range(0, 200, 2)}, {100: (3, 90), 151: (3, 200)}], 8, 200
    )
    far, size = 2**32, len(near.postings.docs)
    docs = open_memmap(tmp_path / "docs.npy", "w+", np.uint32, (far + size,))
    bm25 = open_memmap(tmp_path / "bm25.npy", "w+", np.uint8, (far + size,))
    learned = open_memmap(tmp_path / "learned.npy", "w+", np.uint8, (far + size,))
    docs[far - 1] = 200
    docs[far:], bm25[far:], learned[far:] = near.postings[:3]
    opened = near._replace(
        postings=Postings(
            *(np.asarray(array) for array in (docs, bm25, learned)),
            np.append(0, near.postings.term_begin + far),
            *(np.append(array[:1], array) for array in near.postings[4:]),
        ),
        partitions={
            name: Partition(
                np.append(0, blocks.term_block + 1),
                np.append(0, blocks.block_begin + far),
                np.append(np.uint32(200), blocks.block_last),
                *(np.append(array[:1], array) for array in blocks[3:]),
            )
            for name, blocks in near.partitions.items()
        },
    )
    assert opened.postings.term_begin[1] == far and opened.postings.docs.dtype == np.uint32
    weights = np.array([2, 3]), np.array([2, 3])
    for setting in EVERY:
        expected = search(near, Query(np.array([0, 1]), *weights), {**setting, "beta": 0.5}, 2)
        found = search(opened, Query(np.array([1, 2]), *weights), {**setting, "beta": 0.5}, 2)
        # Document 151 has the second term alone, 100 has both.
        assert found[0].tolist() == [151, 100]
        assert found[1].tolist() == [3 * (3 + 200) / 2, (2 * (1 + 1) + 3 * (3 + 90)) / 2]
        assert found[2] == expected[2]


weight = st.sampled_from([0, 1, 2, 255])
lists = st.lists(
    st.dictionaries(st.integers(0, 5), st.tuples(weight, weight), max_size=6),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(lists, st.sampled_from(["bm25", "learned"]), st.booleans())
def test_a_side_is_exported_and_read_back(posting_lists, side, zipped):
    place = ["bm25", "learned"].index(side)
    expected = {
        str(term): {doc: pair[place] for doc, pair in sorted(posting.items()) if pair[place] > 0}
        for term, posting in enumerate(posting_lists)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("side.ciff.gz" if zipped else "side.ciff")
        made = exchange.as_ciff(make_index(posting_lists, 2, 6), side)
        ciff.write(path, made)
        back = ciff.read(path)
    for found, held in ((made, expected), (back, {t: p for t, p in expected.items() if p})):
        spans = [slice(*found.term_begin[i : i + 2]) for i in range(len(found.terms))]
        columns = (found.docs, found.weights)
        assert {
            term: dict(zip(*(column[span].tolist() for column in columns), strict=True))
            for term, span in zip(found.terms, spans, strict=True)
        } == held
        assert found.doc_ids == [str(i) for i in range(6)]
        totals = [sum(p.get(doc, 0) for p in expected.values()) for doc in range(6)]
        assert found.doc_lengths.tolist() == totals
        assert found.description == f"{side} weights of 6 documents, quantised"
        kinds = [a.dtype for a in (found.term_begin, found.docs, found.weights, found.doc_lengths)]
        assert kinds == [np.int64, np.uint32, np.uint32, np.int64]


def test_float_weights_cannot_be_exported(tmp_path):
    found = built(tmp_path / "i", cut(DOCUMENTS), bits=None)
    refused(
        r"index of float32 weights: CIFF holds integers; export one of 8 bits",
        exchange.as_ciff, found, "learned",
    )  # fmt: skip
