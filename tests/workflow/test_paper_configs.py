"""The papers' own configs, on small collections that stand where the real ones belong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from espalier import config as configuration
from espalier.best import parts
from espalier.best.store import Store
from espalier.collections.candidates import read
from espalier.collections.view import View
from espalier.evaluation import runs
from tests.best.conftest import checkpoint
from tests.colbert import published
from tests.workflow import standins

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ("msmarco-document", "msmarco-document-sparse", "msmarco-passage", "robust04")

bert = checkpoint
"""A folder with a small random BERT, in place of what the configs name on the hub."""


@pytest.fixture
def chain(tmp_path):
    """Run a paper's config with some changes up to the files named; its results folder."""

    def run(paper, home, changes, *targets, options=()):
        overlay = tmp_path / "overlay.yaml"
        overlay.write_text(yaml.safe_dump({"results": str(tmp_path / "results"), **changes}))
        results = tmp_path / "results" / changes.get("experiment", paper)
        command = [sys.executable, "-m", "espalier.cli", "run", "--cores", "2"]
        command += ["--config", f"config/{paper}.yaml", "--config", str(overlay), "--"]
        done = subprocess.run(
            [*command, *options, *(str(results / target) for target in targets)],
            env={**os.environ, "IR_DATASETS_HOME": str(home), "HF_HUB_OFFLINE": "1"},
            cwd=ROOT, check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return results, done.stdout + done.stderr

    return run


@pytest.fixture
def every_stage(tmp_path):
    """Run all stages of a paper's config with some changes, as a dry run names them."""

    def run(paper, home, changes):
        overlay = tmp_path / "overlay.yaml"
        overlay.write_text(yaml.safe_dump({"results": str(tmp_path / "results"), **changes}))
        environment = {**os.environ, "IR_DATASETS_HOME": str(home), "HF_HUB_OFFLINE": "1"}

        def python(module, *options, given=""):
            done = subprocess.run(
                [sys.executable, "-m", module, *options], env=environment, cwd=ROOT, check=False,
                input=given, capture_output=True, text=True, timeout=1200,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
            return done.stdout + done.stderr

        configs = ["--configfile", f"config/{paper}.yaml", str(overlay)]
        plan = python("snakemake", "--dry-run", "--printshellcmds", "--cores", "1", *configs)
        commands = re.findall("^Shell command: (espalier .*)$", plan, re.MULTILINE)
        python("tests.workflow.one_process", given="\n".join(commands))
        return tmp_path / "results" / changes.get("experiment", paper)

    return run


def planned(output):
    """The rules that a dry run would run."""
    table = output.partition("Job stats:")[2]
    return set(re.findall(r"^(\w+) +\d+$", table, re.MULTILINE)) - {"total"}


@pytest.mark.parametrize("paper", PAPERS)
def test_models_are_pinned_to_a_commit(paper):
    text = (ROOT / "config" / f"{paper}.yaml").read_text()
    named = re.findall(r"hub:([^\s,}]+)", text)
    assert named
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name) for name in named), named


@pytest.mark.parametrize("paper", PAPERS)
def test_nothing_of_the_demo_s_collections_is_left(paper):
    config = configuration.load(ROOT, [ROOT / "config" / f"{paper}.yaml"])
    for name in configuration.views_of(config):
        view = configuration.view_of(config, name)
        assert not view.get("max_queries")
        assert not any("pydocs" in dataset_id for dataset_id in view["splits"].values())


@pytest.mark.parametrize("paper", ["msmarco-document-sparse", "msmarco-passage"])
def test_what_sparse_systems_are_compared_to_runs(paper):
    config = configuration.load(ROOT, [ROOT / "config" / f"{paper}.yaml"])
    configuration.check_sparse_settings(config)
    measures = set(config["evaluation"]["measures"])
    for family in config["evaluation"]["families"]["sparse"]:
        assert measures >= set(family["measures"])


@pytest.mark.parametrize("paper", ["msmarco-document", "robust04"])
def test_longformer_takes_the_place_of_a_paper_s_ranker(paper):
    overlays = [ROOT / "config" / f"{name}.yaml" for name in (paper, "longformer")]
    config = configuration.load(ROOT, overlays)
    assert parts.ranked(config) == ["maxp"]
    assert config["best"]["segments"]["max_length"] == 4096
    assert config["models"]["ranker"] == "folder:models/longformer"


@pytest.mark.parametrize("paper", ["msmarco-document", "robust04"])
def test_roberta_takes_the_place_of_a_paper_s_ranker(paper):
    overlays = [ROOT / "config" / f"{name}.yaml" for name in (paper, "roberta")]
    config = configuration.load(ROOT, overlays)
    configuration.check_schema(config, ROOT)
    configuration.check_best(config)
    assert parts.ranked(config) == ["maxp"]
    assert re.fullmatch(r"hub:FacebookAI/roberta-base@[0-9a-f]{40}", config["models"]["ranker"])


def test_documents(bert, chain, tmp_path):
    """MS MARCO's documents: official candidates, and passages found in documents."""
    home = tmp_path / "home"
    standins.msmarco(home)
    changes = {"models": {"ranker": f"folder:{bert}"}}
    results, output = chain("msmarco-document", home, changes, "bm25/documents")
    view = View(results / "collection/documents")
    assert view.docs_count == standins.DOCUMENTS
    for split, ids in {"train": range(24), "dev": range(24, 32), "test": range(32, 40)}.items():
        assert list(view.queries(split)) == [str(1000 + i) for i in ids]
        run = read(results / "bm25/documents", split)
        expected = [f"D{d}" for i in ids for d in standins.official(i)]
        assert run["doc_id"].tolist() == expected
        # What is said of every fourth document only in its passage is not found.
        spans = view.spans(split)
        assert spans["doc_id"].tolist() == [f"D{i}" for i in ids if i % 4]
        found = [standins.body(int(s.doc_id[1:]))[s.start : s.end] for s in spans.itertuples()]
        assert found == [standins.sentence(i, 7) for i in ids if i % 4]
    assert "train: 18 of 24 relevant passages stand in a relevant document (75.0%)" in output
    _, output = chain("msmarco-document", home, changes, options=["--dry-run"])
    assert {"best_segment", "evaluate", "claims"} <= planned(output)


def tiny(bert, training, **best):
    """A paper's settings in sizes that the small BERT takes in a minute; one seed of its own."""
    return {
        "models": {"ranker": f"folder:{bert}"},
        "evaluation": {"bootstrap_samples": 200},
        "best": {
            "iterations": 2, "shards": 2, "batch_tokens": 8192,
            # A letter is a word piece: two of a document's twelve sentences in a segment.
            "segments": {"max_length": 128, "query_length": 24, "title_length": 6, "training": 4},
            "training": {"learning_rate": 0.003, "warmup": 2, "epochs": 2, **training},
            **best,
        },
    }  # fmt: skip


def letters(document):
    """Word pieces of a document: its letters, figures and marks."""
    return len(f"Title {document}{standins.body(document)}".replace(" ", "").replace("\n", ""))


def test_documents_to_the_end(bert, every_stage, tmp_path):
    """MS MARCO's documents, every arm."""
    home = tmp_path / "home"
    standins.msmarco(home)
    results = every_stage("msmarco-document", home, tiny(bert, {}))
    summary = json.loads((results / "evaluation/best.summary.json").read_text())
    arms = ["random", "goldp", "theta0", "theta1", "theta2", "best"]
    aggregated = {f"{arm}{way}" for arm in arms for way in ("", "-first", "-mean")}
    assert set(summary["systems"]) == {"scoreddocs", "firstp", "maxp", "meanp"} | aggregated
    # The official run has the relevant document third, and nothing else is re-ranked.
    assert summary["systems"]["scoreddocs"]["RR@10"] == pytest.approx(1 / 3)
    for system in summary["systems"]:
        assert summary["systems"][system]["R@10"] == 1
    found = runs.read(results / f"best/s1/runs/best/best{runs.SUFFIX}")
    assert set(map(tuple, found[["query_id", "doc_id"]].to_numpy())) == {
        (str(1000 + i), f"D{d}") for i in range(32, 40) for d in standins.official(i)
    }

    # GoldP learns from the positives whose passage was found; 18 of 24, as three in four are.
    data = pd.read_parquet(results / "best/data.parquet").set_index("quantity")
    sizes = [letters(d) for d in range(standins.DOCUMENTS)]
    assert data.loc["document_pieces", "median"] == np.median(sizes)
    assert data.loc["judged_pairs_train", "count"] == 24
    assert data.loc["relevant_passages_train", "share"] == 0.75
    assert data.loc["positives_aligned", "share"] == 0.75
    trained = json.loads((results / "records/best-train-s1-goldp.json").read_text())
    assert trained["metrics"]["examples"] == 18

    # Sentence 7 answers: one segment of six or more, so a chance of that, and a ceiling of 1.
    selection = pd.read_parquet(results / "best/selection.parquet")
    hits = selection.groupby("system")["hit"].mean()
    assert set(selection["query_id"]) == {str(1000 + i) for i in range(32, 40) if i % 4}
    assert hits["oracle"] == 1 and 1 / 8 < hits["chance"] < 1 / 5
    assert {*arms, "maxp"} <= set(hits.index)
    table = pd.read_parquet(results / "best/iterations.parquet").set_index("system")
    assert table["picked"].sum() == 1
    assert table.loc["best", "dev_rr"] == table[table["picked"]]["dev_rr"].item()

    ledger = {row["id"]: row for row in json.loads((results / "claims.json").read_text())}
    assert ledger["best-gold-usable"]["here"] == 0.75
    # Forty documents are not those that the paper has counted.
    assert ledger["best-pairs-2019"]["verdict"] == "not tested at this scale"
    assert ledger["best-pairs-2019"]["here"] > 0
    assert ledger["best-queries-2019"]["here"] == 8
    assert "relevant passages train" in (results / "report/index.html").read_text()


def test_documents_by_segments(chain, tmp_path):
    """MS MARCO's documents, weighed by segments: a run of documents, from the best segments."""
    home = tmp_path / "home"
    standins.msmarco(home)
    files = {name: tmp_path / f"{name}.jsonl" for name in ("texts", "documents", "queries")}
    words = {
        f"D{d}#{n}": f"method{d}x{n} subject{d}"
        for d in range(standins.DOCUMENTS)
        for n in range(standins.SENTENCES)
    }
    asked = {str(1000 + i): f"method{i}x7 subject{i}" for i in range(24, 32)}
    for name, key in (("texts", words), ("documents", words), ("queries", asked)):
        lines = [
            {"id": i, "contents": text, "vector": dict.fromkeys(text.split(), 1)}
            for i, text in key.items()
        ]
        files[name].write_text("\n".join(map(json.dumps, lines)))
    given = {name: str(files[name]) for name in ("documents", "queries")}
    given |= {"tokens": "words", "segments": {"texts": str(files["texts"])}}
    changes = {"sparse": {"shards": 2, "weightings": {"unicoil": given}}}
    results, _ = chain("msmarco-document-sparse", home, changes, "sparse/runs")
    found = runs.read(results / f"sparse/runs/unicoil-dths{runs.SUFFIX}")
    # Every segment names the subject, and one of them the method, too: 2 · 64, and no sum of 12.
    assert dict(zip(found["query_id"], found["doc_id"], strict=True)) == {
        str(1000 + i): f"D{i}" for i in range(24, 32)
    }
    exact = runs.read(results / f"sparse/runs/unicoil-original{runs.SUFFIX}")
    assert exact["score"].tolist() == [2 * 64 * 255.0] * 8
    _, output = chain("msmarco-document-sparse", home, changes, options=["--dry-run"])
    assert {"sparse_latency", "evaluate", "claims"} <= planned(output)


def test_topics(bert, chain, tmp_path):
    """TREC Robust 2004: five folds, titles or descriptions."""
    home = tmp_path / "home"
    standins.robust04(home)
    changes = {"models": {"ranker": f"folder:{bert}"}}
    results, _ = chain("robust04", home, changes, "bm25/documents")
    view = View(results / "collection/documents")
    assert {split: list(view.queries(split)) for split in standins.TOPICS} == standins.TOPICS
    topics = [topic for fold in standins.TOPICS.values() for topic in fold]
    assert sorted(view.queries("test")) == sorted(topics)
    asked = view.queries("test")
    assert [asked[topic] for topic in topics] == [
        f"course of subject{i}" for i in range(len(topics))
    ]
    first = read(results / "bm25/documents", "test").groupby("query_id")["doc_id"].first()
    assert [first[topic] for topic in topics] == [f"DOC-{i}" for i in range(len(topics))]
    assert pd.concat(view.qrels(fold) for fold in standins.TOPICS).shape == (30, 3)

    _, output = chain("robust04", home, changes, options=["--dry-run"])
    assert {"best_segment", "evaluate", "claims"} <= planned(output)

    text = (ROOT / "config" / "robust04.yaml").read_text()
    described = yaml.safe_load("\n".join(re.findall(r"^#   (.*)$", text, re.MULTILINE)))
    results, _ = chain("robust04", home, changes | described, "collection/documents")
    asked = View(results / "collection/documents").queries("fold2")["301"]
    assert asked == "What is treated with method3x3 in due course?"


@pytest.mark.parametrize(
    ("field", "iterations"),
    # Some 35 seconds of a core, then 45.
    [("title", 1), pytest.param("description", 2, marks=pytest.mark.long)],
)
def test_topics_to_the_end(bert, every_stage, tmp_path, field, iterations):
    """TREC Robust 2004, every arm in five folds."""
    home = tmp_path / "home"
    standins.robust04(home)
    changes = tiny(bert, {"loss": "cross-entropy"}, iterations=iterations)
    changes["collections"] = {"documents": {"query_field": field}}
    results = every_stage("robust04", home, changes)
    topics = {topic for fold in standins.TOPICS.values() for topic in fold}
    thetas = [f"theta{n}" for n in range(iterations + 1)]
    summary = json.loads((results / "evaluation/best.summary.json").read_text())
    assert {"bm25", "firstp", "maxp", "random", "best", *thetas} <= set(summary["systems"])
    assert summary["queries"]["judged"] == len(topics)
    for system in ("firstp", "random", "best", *thetas):
        (path,) = results.glob(f"best/s1/runs/*/{system}{runs.SUFFIX}")
        assert set(runs.read(path)["query_id"]) == topics
    for number, fold in enumerate(standins.TOPICS, start=1):
        store = Store(results / f"best/s1-f{number}/segments")
        instances = store.table("instances")
        dev = list(standins.TOPICS)[number % 5]
        assert set(store.table("test")["query_id"]) == set(standins.TOPICS[fold])
        assert set(store.table("dev")["query_id"]) == set(standins.TOPICS[dev])
        assert set(instances["query_id"]) == topics - {
            *standins.TOPICS[fold],
            *standins.TOPICS[dev],
        }
        assert instances.groupby(["query_id", "positive"]).size().tolist() == [10] * 9
    ledger = {row["id"]: row for row in json.loads((results / "claims.json").read_text())}
    assert ledger["best-topics-robust"]["here"] == len(topics)
    length = np.median([letters(d) for d in range(standins.DOCUMENTS)])
    assert ledger["best-length-robust"]["here"] == pytest.approx(length, rel=0.01)


def test_passages(real_collection_home, chain, tmp_path):
    """MS MARCO's passages, reduced: a checkpoint in ColBERT's layout, given vectors."""
    passages = real_collection_home / "msmarco-passage/collection.tsv"
    if not passages.exists():
        pytest.skip(f"{passages} is absent; set IR_DATASETS_HOME to a reduced MS MARCO")
    if passages.stat().st_size > 100_000_000:
        pytest.skip(f"{passages} is too large for a test; set IR_DATASETS_HOME to a reduced one")
    folder = tmp_path / "colbert"
    folder.mkdir()
    published.colbert(folder)
    given = tmp_path / "given.jsonl"
    given.write_text('{"id": "1", "contents": "", "vector": {"a": 1}}\n')
    vectors = {"documents": str(given), "queries": str(given), "tokens": "words"}
    expanded = {**vectors, "expansion": {"questions": str(given)}}
    changes = {
        "collections": {"passages": {"splits": {"test": "msmarco-passage/trec-dl-2019/judged"}}},
        "models": {"encoder": f"folder:{folder}"},
        "colbert": {
            "encoder": {"layers": published.LAYERS, "dimensions": published.DIMENSIONS},
            "index": {"subquantizers": 1},
        },
        "sparse": {
            "weightings": {"spladev2": vectors, "unicoil": expanded, "deepimpact": expanded}
        },
    }
    results, _ = chain("msmarco-passage", real_collection_home, changes, "colbert/shards/63")
    assert len(View(results / "collection/passages").queries("test")) == 43
    assert (results / "colbert/model").is_dir()
    _, output = chain("msmarco-passage", real_collection_home, changes, options=["--dry-run"])
    assert {"colbert_index", "sparse_retrieve", "evaluate"} <= planned(output)
