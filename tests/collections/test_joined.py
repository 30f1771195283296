from collections import Counter

import ir_datasets
import numpy as np
import pytest

from espalier.collections import access, pydocs
from espalier.collections.access import Doc
from espalier.collections.bm25 import Bm25
from espalier.collections.pydocs import joined as joining
from espalier.collections.pydocs.build import Collection, Question, split_of
from espalier.collections.pydocs.docstrings import words
from espalier.collections.splits import SPLITS

TRAIN_PAGES = [f"page{i}" for i in range(99) if split_of(f"page{i}") == "train"]


def section(name, *subjects):
    """A text of 40 words about some subjects."""
    return Doc(name, name, " ".join([*subjects, *(f"{name}w{i}" for i in range(40))]))


def question(passage, text):
    return Question(f"q-{passage}", text, "train", passage, "", 0, 0)


def test_three_answers_of_different_pages_follow_the_lead_nearest_their_queries():
    one, two, three, other = TRAIN_PAGES[:4]
    answers = {"a": one, "b": two, "c": three}
    leads = {"far": other, "near": other, "same": one}
    collection = Collection(
        [
            *(section(name, name) for name in answers),
            section("far", "nothing"),
            section("near", "sheep", "wolves"),
            section("same", "sheep", "wolves", "sheep", "wolves"),
        ],
        [],
        [
            question("a", "sheep over the fence"),
            question("b", "wolves"),
            question("c", "sheep"),
        ],
        answers | leads,
    )
    found = joining.join(collection)
    (document,) = found.documents
    assert document.text.startswith("near\nsheep wolves nearw0")
    assert {q.text for q in found.questions} == {"sheep over the fence", "wolves", "sheep"}
    texts = {p.doc_id: p.text for p in collection.passages}
    for asked in found.questions:
        assert asked.page == document.doc_id == "train-00001"
        assert document.text[asked.start : asked.end] == texts[asked.passage]


def test_sections_of_one_page_are_never_joined():
    page_of = {"a1": "A", "a2": "A", "b": "B", "c": "C", "d": "D", "e": "E"}
    sections = [section(name) for name in page_of]
    names = [[s.doc_id for s in group] for group in joining.grouped(sections, page_of)]
    assert names == [["a1", "b", "c"], ["a2", "d", "e"]]
    assert not list(joining.grouped(sections[:3], page_of))


def test_without_leads_nothing_is_joined():
    groups = [[section("a")]]
    assert not list(joining.with_leads(groups, [], {"a": question("a", "what")}, {"a": "A"}))


@pytest.mark.parametrize(
    ("count", "expected"), [(29, False), (30, True), (200, True), (201, False)]
)
def test_lengths_of_sections(count, expected):
    assert joining.is_section(Doc("a", "a", "word " * count)) is expected


def test_targets_stand_away_from_the_start(pydocs_mini):
    documents = {doc.doc_id: doc for doc in access.docs(f"{pydocs_mini}/joined")}
    passages = {doc.doc_id: doc.text for doc in access.docs(f"{pydocs_mini}/passages")}
    for split in SPLITS:
        judgments = access.qrels(f"{pydocs_mini}/passages/{split}")
        answers = {j.query_id: passages[j.doc_id] for j in judgments}
        queries = {q.query_id: q.text for q in access.queries(f"{pydocs_mini}/passages/{split}")}
        for judgment in access.qrels(f"{pydocs_mini}/joined/{split}"):
            text = documents[judgment.doc_id].text
            ((start, end),) = judgment.spans
            assert text[start:end] == answers[judgment.query_id]
            assert len(words(text[:start])) > joining.SHORTEST_SECTION
            assert " ".join(words(queries[judgment.query_id])) not in " ".join(words(text))
            assert judgment.doc_id.startswith(f"{split}-")
        asked = {q.query_id: q.text for q in access.queries(f"{pydocs_mini}/joined/{split}")}
        assert asked.items() <= queries.items()
    assert {doc.title.rstrip("0123456789") for doc in documents.values()} == {"Collected notes "}


def test_every_passage_stands_in_one_document_at_most(pydocs_mini):
    documents = [doc.text for doc in access.docs(f"{pydocs_mini}/joined")]
    headings = Counter(part.split("\n")[0] for text in documents for part in text.split("\n\n"))
    names = [doc.doc_id for doc in access.docs(f"{pydocs_mini}/passages")]
    used = [headings[name] for name in names if headings[name]]
    assert set(used) == {1}
    assert len(used) == len(documents) * (1 + joining.ANSWERS)


def test_the_whole_collection(collections_home):
    """Counts and content of the installed versions, and what beginnings alone tell."""
    name = "espalier/pydocs/joined"
    manifest = pydocs.manifest_of(f"{name}/train")
    if manifest["versions"] != VERSIONS:
        pytest.skip(f"pinned for {VERSIONS}, installed are {manifest['versions']}")
    assert manifest["counts"] == {
        "joined": 1529,
        "queries": {"dev": 375, "test": 903, "train": 3309},
    }
    assert manifest["sha256"] == "3c9a5128051c9f0ae2975af12586a172a9b0cff5fca16efa978b8f2626b5a074"
    assert ir_datasets.load(f"{name}/dev").queries_count() == 375
    docs = list(access.docs(name))
    lengths = [len(doc.text.split()) for doc in docs]
    assert 300 < np.median(lengths) < 400
    assert accuracy_of_beginnings(name, docs) == pytest.approx(0.53, abs=0.02)


VERSIONS = {
    "matplotlib": "3.11.2",
    "networkx": "3.6.1",
    "numpy": "2.4.6",
    "pandas": "3.1.1",
    "scipy": "1.17.1",
    "sklearn": "1.9.1",
    "sympy": "1.14.0",
    "torch": "2.13.0",
}


def accuracy_of_beginnings(name, docs):
    """How often BM25 on first sections prefers a training query's document to hard negatives."""
    targets = {j.query_id: j for split in SPLITS for j in access.qrels(f"{name}/{split}")}
    first = {}
    for judgment in targets.values():
        ((start, _),) = judgment.spans
        first[judgment.doc_id] = min(first.get(judgment.doc_id, start), start)
    leads = Bm25(Doc(d.doc_id, "", d.text[: first[d.doc_id]].rpartition("\n\n")[0]) for d in docs)
    places = {doc.doc_id: i for i, doc in enumerate(docs)}
    queries = {q.query_id: q.text for q in access.queries(f"{name}/train")}
    run = Bm25(docs).retrieve(queries, 20)
    shares = []
    for query_id, found in run.groupby("query_id", sort=False)["doc_id"]:
        scores = leads.scores(queries[query_id])
        relevant = scores[places[targets[query_id].doc_id]]
        others = [places[d] for d in found if d != targets[query_id].doc_id]
        shares.append(np.mean((relevant > scores[others]) + 0.5 * (relevant == scores[others])))
    return np.mean(shares)
