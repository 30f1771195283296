import itertools
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from espalier import cli, files
from espalier.collections import access
from espalier.collections.folders.names import files_of
from espalier.collections.splits import SPLITS, divided
from espalier.collections.view import View
from espalier.errors import EspalierError
from espalier.evaluation import runs

FILES = {
    "docs.tsv": "d1\tGreat Tits\tThey sing in spring.\nd2\t\tOwls hunt by night, not by day.\n",
    "queries.tsv": "q1\twho sings in spring\nq2\twhen do owls hunt\nq3\twhat else\n",
    "qrels.txt": "q1 0 d1 2\nq2 0 d2 1\nq2 0 d1 0\n",
    "spans.json": json.dumps(
        [{"query_id": "q2", "doc_id": "d2", "char_spans": [[10, 18], [24, 30]], "other": 1}]
    ),
}


@pytest.fixture
def folder(tmp_path):
    """A small collection's id, with other content in some files or None for a missing one."""
    numbers = itertools.count()

    def written(**changed):
        place = tmp_path / f"collection{next(numbers)}"
        place.mkdir()
        for name, content in {**FILES, **changed}.items():
            if content is not None:
                (place / name).write_text(content)
        return f"folder:{place}"

    return written


def test_a_folder_is_a_collection(folder):
    name = folder()
    assert list(access.docs(name)) == [
        ("d1", "Great Tits", "They sing in spring."),
        ("d2", "", "Owls hunt by night, not by day."),
    ]
    assert list(access.docs(name, 1)) == list(access.docs(name))[1:]
    assert [q.query_id for q in access.queries(name)] == ["q1", "q2", "q3"]
    first, second, third = access.qrels(name)
    assert first == ("q1", "d1", 2, ())
    assert second == ("q2", "d2", 1, ((10, 18), (24, 30)))
    assert third == ("q2", "d1", 0, ())
    assert access.load(name) is access.load(name)
    access.check(name)


def test_titles_splits_and_spans_may_be_left_out(folder):
    name = folder(
        **{
            "docs.tsv": "d1\tone\nd2\ttwo\n",
            "queries.tsv": "q1\tfirst\ttrain\nq2\tsecond\ttest\n",
            "spans.json": None,
        }
    )
    assert [tuple(doc) for doc in access.docs(name)] == [("d1", "", "one"), ("d2", "", "two")]
    assert [q.text for q in access.queries(f"{name}:test")] == ["second"]
    assert [(q.query_id, q.doc_id) for q in access.qrels(f"{name}:test")] == [
        ("q2", "d2"),
        ("q2", "d1"),
    ]
    assert not access.load(name).has("scoreddocs")
    message = "no query is in that split; there are test \\(1\\), train \\(1\\)"
    with pytest.raises(EspalierError, match=message):
        access.load(f"{name}:dev")


def test_the_split_of_a_query_may_stand_with_its_spans(folder):
    entries = [
        {"query_id": f"q{i}", "doc_id": f"d{i}", "split": split, "char_spans": []}
        for i, split in ((1, "val"), (2, "test"))
    ]
    name = folder(
        **{"spans.json": json.dumps(entries), "queries.tsv": "q1\tfirst one\nq2\tsecond\n"}
    )
    assert [q.query_id for q in access.queries(f"{name}:val")] == ["q1"]
    assert all(not judgment.spans for judgment in access.qrels(name))
    entries.pop()
    incomplete = folder(**{"spans.json": json.dumps(entries)})
    with pytest.raises(EspalierError, match="query 'q2' is in no split, others are"):
        access.load(f"{incomplete}:val")


def test_drawn_splits_keep_a_document_s_queries_together(folder):
    documents = [f"d{i}" for i in range(200)]
    asked = {f"q{i}": documents[i % 200] for i in range(1000)}
    name = folder(
        **{
            "docs.tsv": "".join(f"{d}\ttext\n" for d in documents),
            "queries.tsv": "".join(f"{q}\twhat\n" for q in [*asked, "unanswered"]),
            "qrels.txt": "".join(f"{q} 0 {d} 1\n" for q, d in asked.items()),
            "spans.json": None,
        }
    )
    split_of = {}
    for split in SPLITS:
        queries = [q.query_id for q in access.queries(f"{name}:{split}")]
        assert len(queries) == 1000 * SPLITS[split]
        for query_id in queries:
            assert split_of.setdefault(asked[query_id], split) == split
    assert len(split_of) == 200


def test_divided_cuts_by_size():
    sizes = {f"k{i}": i % 7 for i in range(5000)}
    splits = divided(sizes)
    held = Counter()
    for key, split in splits.items():
        held[split] += sizes[key]
    assert {s: held[s] / held.total() for s in SPLITS} == pytest.approx(SPLITS, abs=0.002)


def span(start, end, doc_id="d1"):
    return json.dumps([{"query_id": "q1", "doc_id": doc_id, "char_spans": [[start, end]]}])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("docs.tsv", "d1\ta\tb\nd2\tb\n", r"docs.tsv:2: 2 columns in place of the 3 that other"),
        ("docs.tsv", "d1\n", r"docs.tsv:1: 1 columns in place of 2 or 3 \(doc_id, title, text\)"),
        ("docs.tsv", "d1\ta\n\nd1\tb\n", r"docs.tsv:3: doc_id 'd1' twice"),
        ("docs.tsv", "d1\ta\nd3\tb\n", r"spans.json: query 'q2', document 'd2': doc_id 'd2'"),
        ("queries.tsv", "q1\tone\nq1\ttwo\n", r"queries.tsv:2: query_id 'q1' twice"),
        ("queries.tsv", "q2 what\n", r"queries.tsv:1: 1 columns in place of 2 or 3"),
        ("qrels.txt", "q1 0 d1 1\nq9 0 d1 1\n", r"qrels.txt:2: query_id 'q9' is not in"),
        ("qrels.txt", "q2 0 d2 1\nq1 0 d9 1\n", r"qrels.txt:2: doc_id 'd9' is not in docs.tsv"),
        ("qrels.txt", "q1 d1 1\n", r"qrels.txt:1: 3 columns in place of 4"),
        ("qrels.txt", "q1 0 d1 yes\n", r"qrels.txt:1: relevance 'yes' is no whole number"),
        ("qrels.txt", "q1 0 d1 1\nq1 0 d1 2\n", r"qrels.txt:2: document 'd1' is judged twice"),
        ("qrels.txt", "q1 0 d1 1\n", r"spans.json: query 'q2', document 'd2': qrels.txt does not"),
        ("spans.json", span(5, 21), r"characters 5 to 21 are not inside the text, which has 20"),
        ("spans.json", span(5, 5), r"characters 5 to 5 are not inside"),
        ("spans.json", span(-1, 5), r"characters -1 to 5 are not inside"),
        ("spans.json", span(0, 5, "d7"), r"spans.json: query 'q1', document 'd7': doc_id 'd7'"),
        ("spans.json", "[\n{]", r"spans.json:2: not valid JSON"),
        ("spans.json", "{}", r"spans.json: not a list"),
        ("spans.json", '[{"query_id": "q1"}]', r"spans.json: entry 1 is not \{"),
        ("spans.json", span(0.5, 5), r"spans.json: entry 1 is not \{"),
        ("spans.json", span(0, 5)[:-1] + ", " + span(0, 5)[1:], r"has an entry already; keep one"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(folder, name, content, message):
    collection = folder(**{name: content})
    with pytest.raises(EspalierError, match=message) as caught:
        [*access.docs(collection), *access.qrels(collection)]
    assert "\n" not in str(caught.value)


def test_missing_files_folders_and_variables(folder, monkeypatch):
    name = folder(**{"qrels.txt": None})
    path = name.removeprefix("folder:")
    with pytest.raises(EspalierError, match=f"{path}/qrels.txt is missing; put it there"):
        access.check(name)
    with pytest.raises(EspalierError, match="no such folder; correct the path"):
        access.check(f"{name}/none")
    with pytest.raises(EspalierError, match="name it folder:path or folder:path:split"):
        access.check(f"{name}:")
    monkeypatch.delenv("CORPORA", raising=False)
    with pytest.raises(EspalierError, match="environment variable CORPORA is not set"):
        access.check("folder:${CORPORA}/mine")
    monkeypatch.setenv("CORPORA", str(Path(path).parent))
    assert list(access.docs(f"folder:$CORPORA/{Path(folder().removeprefix('folder:')).name}"))


def test_not_utf8_names_the_line(folder):
    name = folder()
    Path(name.removeprefix("folder:"), "docs.tsv").write_bytes(b"d1\tone\nd2\tt\xe9o\n")
    with pytest.raises(EspalierError, match=r"docs.tsv:\d: not UTF-8; convert the file"):
        list(access.docs(name))


def test_files_of_a_view(folder):
    name = folder()
    path = name.removeprefix("folder:")
    view = {"docs": name, "splits": {"test": f"{name}:test", "other": "vaswani"}}
    assert files_of(view) == [f"{path}/{file}" for file in FILES]
    other = {"docs": "vaswani", "splits": {"test": "vaswani"}}
    assert files_of(other) == []
    assert files_of({**other, "passages": view}) == files_of(view)


def test_the_verbs_on_a_folder(folder, tmp_path):
    """Snapshot and candidates of a folder, as of any collection; the digest is over the docs."""
    name = folder()
    view, candidates = tmp_path / "view", tmp_path / "bm25"
    common = ["--record", str(tmp_path / "record.json"), "--settings"]
    settings = {"seed": 1, "view": {"docs": name, "splits": {"test": name}}}
    assert not cli.main(
        ["collections", "snapshot", "--view", str(view), *common, json.dumps(settings)]
    )
    bm25 = {"k1": 0.9, "b": 0.4, "depth": 5}
    settings = {"seed": 1, "bm25": bm25, "candidates": "bm25"}
    arguments = ["--view", str(view), "--runs", str(candidates), *common, json.dumps(settings)]
    assert not cli.main(["collections", "bm25", *arguments])
    assert View(view).spans("test").to_numpy().tolist() == [
        ["q2", "d2", 10, 18],
        ["q2", "d2", 24, 30],
    ]
    assert View(view).docs_count == 2
    run = runs.read(candidates / "test" / "bm25.run.gz")
    assert run.groupby("query_id")["doc_id"].first().to_dict() == {"q1": "d1", "q2": "d2"}
    assert files.size_of(view) > 0


@pytest.mark.parametrize(
    ("name", "splits", "documents", "span_count"),
    [
        ("covidqa", {"train": 997, "dev": 128, "test": 255}, 98, 1380),
        ("qmsum", {"train": 1095, "val": 237, "test": 244}, 232, 1740),
    ],
)
def test_a_real_folder(name, splits, documents, span_count):
    home = os.environ.get("ESPALIER_CORPORA")
    if not home or not Path(home, name).is_dir():
        pytest.skip(f"$ESPALIER_CORPORA/{name} is absent; set ESPALIER_CORPORA to have it")
    collection = f"folder:$ESPALIER_CORPORA/{name}"
    access.check(collection)
    texts = {doc.doc_id: doc.text for doc in access.docs(collection)}
    assert len(texts) == documents
    assert {s: len(list(access.queries(f"{collection}:{s}"))) for s in splits} == splits
    judgments = list(access.qrels(collection))
    assert sum(len(judgment.spans) for judgment in judgments) == span_count
    if name == "covidqa":
        answers = json.loads(Path(home, name, "spans.json").read_text())
        for judgment, entry in zip(judgments, answers, strict=True):
            found = [texts[judgment.doc_id][start:end].split() for start, end in judgment.spans]
            assert found == [answer.split() for answer in entry["answers"]]
