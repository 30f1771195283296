import re
from collections import defaultdict
from pathlib import Path

import ir_datasets
import pytest

from espalier.collections import pydocs
from espalier.collections.pydocs import store
from espalier.collections.pydocs.docstrings import words

ROOT = Path(__file__).parents[2]


def locked_versions():
    text = (ROOT / "requirements.lock").read_text() + (ROOT / "Makefile").read_text()
    found = defaultdict(set)
    for name, version in re.findall(r"\b([a-z][\w-]*)==(\d[\w.]*)", text):
        found[name].add(version)
    return found


def load(dataset_id):
    pydocs.register()
    return ir_datasets.load(dataset_id)


def test_register_twice():
    pydocs.register()
    pydocs.register()
    ids = [name for name in ir_datasets.registry if name.startswith("espalier/pydocs-mini")]
    assert len(ids) == 1 + 3 + 3 * 3


@pytest.mark.parametrize("view", ["passages", "documents", "joined"])
def test_a_view_through_ir_datasets(pydocs_mini, view):
    dataset = load(f"{pydocs_mini}/{view}/test")
    docs = list(dataset.docs_iter())
    assert len(docs) == dataset.docs_count() == len({doc.doc_id for doc in docs})
    assert list(dataset.docs_iter()[10:13]) == docs[10:13]
    assert dataset.docs_store().get(docs[7].doc_id) == docs[7]
    assert dataset.docs_lang() == dataset.queries_lang() == "en"
    queries = list(dataset.queries_iter())
    qrels = list(dataset.qrels_iter())
    assert len(queries) == dataset.queries_count() == len(qrels)
    assert [q.query_id for q in queries] == [q.query_id for q in qrels]
    assert {q.doc_id for q in qrels} <= {doc.doc_id for doc in docs}


def test_gold_spans_hold_the_passages_and_pages_do_not_hold_the_queries(pydocs_mini):
    for split in ("train", "dev", "test"):
        passages = load(f"{pydocs_mini}/passages/{split}")
        documents = load(f"{pydocs_mini}/documents/{split}")
        texts = {doc.doc_id: doc.text for doc in passages.docs_iter()}
        pages = {doc.doc_id: doc.text for doc in documents.docs_iter()}
        answers = {qrel.query_id: texts[qrel.doc_id] for qrel in passages.qrels_iter()}
        queries = {query.query_id: query.text for query in documents.queries_iter()}
        for qrel in documents.qrels_iter():
            page = pages[qrel.doc_id]
            ((start, end),) = qrel.spans
            assert page[start:end] == answers[qrel.query_id]
            assert queries[qrel.query_id] not in page
            assert " ".join(words(queries[qrel.query_id])) not in " ".join(words(page))


def test_queries_are_unique_and_splits_share_no_page(pydocs_mini):
    texts, page_of_split = [], {}
    for split in ("train", "dev", "test"):
        dataset = load(f"{pydocs_mini}/documents/{split}")
        texts += [" ".join(words(query.text)) for query in dataset.queries_iter()]
        page_of_split[split] = {qrel.doc_id for qrel in dataset.qrels_iter()}
    assert len(texts) == len(set(texts))
    assert all(len(text.split()) >= 5 for text in texts)
    train, dev, test = page_of_split.values()
    assert len(train | dev | test) == len(train) + len(dev) + len(test)


def test_scoreddocs_are_bm25_and_made_once(pydocs_mini):
    dataset = load(f"{pydocs_mini}/passages/dev")
    scored = list(dataset.scoreddocs_iter())
    by_query = defaultdict(list)
    for row in scored:
        by_query[row.query_id].append(row.score)
    assert all(len(s) <= 100 and s == sorted(s, reverse=True) for s in by_query.values())
    relevant = {(q.query_id, q.doc_id) for q in dataset.qrels_iter()}
    found = relevant & {(row.query_id, row.doc_id) for row in scored}
    assert len(found) > 0.7 * len(relevant)
    before = dataset.scoreddocs_path().stat().st_mtime_ns
    list(load(f"{pydocs_mini}/passages/dev").scoreddocs_iter())
    assert dataset.scoreddocs_path().stat().st_mtime_ns == before


def test_manifest_of_ids(pydocs_mini):
    manifest = pydocs.manifest_of(f"{pydocs_mini}/documents/test")
    assert manifest["name"] == pydocs_mini
    assert set(manifest["versions"]) == {"networkx", "sklearn"}
    assert pydocs.manifest_of("vaswani") is None


def test_pinned_counts_and_content_of_the_locked_versions(collections_home):
    locked = locked_versions()
    for package, version in store.PYDOCS.versions.items():
        distribution = store.PYDOCS.packages[package]
        if version not in locked[distribution]:
            pytest.skip(f"{distribution} is {version}, locked is {sorted(locked[distribution])}")
    manifest = store.manifest(store.PYDOCS, "documents")
    assert manifest["counts"] == {
        "documents": 4148,
        "passages": 10411,
        "queries": {"dev": 641, "test": 1501, "train": 5536},
    }
    # Sets are hashed otherwise in every process, so this holds the making to be deterministic too.
    assert manifest["sha256"] == "1b4fa89f0ab78ae8c730b628d651226109683298afa8e07ad8b03f8ca170d010"
    folder = store.folder_of(store.PYDOCS, "documents")
    pages = [doc["text"] for doc in store.read(folder / "documents.jsonl")]
    assert sum(len(text.split()) > 1000 for text in pages) > 500
