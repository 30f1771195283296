"""The verbs one after another on a small collection, twice: the same bytes."""

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from espalier import files
from espalier.cli import main
from espalier.colbert import encoder, store
from espalier.collections.candidates import write_runs
from espalier.collections.snapshot import take
from espalier.collections.view import View
from espalier.evaluation import runs
from tests.colbert import published

SWEEP = [f"{order}-p{p:02d}" for order in ("first", "icf") for p in range(1, 9)]
FIT = {
    "learning_rate": 1e-3, "warmup": 0.1, "accumulate": 1, "processes": 1, "bf16": False,
    "gradient_checkpointing": False, "checkpoint_seconds": 300,
}  # fmt: skip
SYSTEMS = sorted([*SWEEP, "icf-s0.5", "icf-s0.9", "icf-p03-d0.5"])


@pytest.fixture(scope="module")
def material(pydocs_mini, tmp_path_factory):
    """A view with a few test and training queries, and BM25's runs for it."""
    folder = tmp_path_factory.mktemp("material")
    splits = {split: f"{pydocs_mini}/passages/{split}" for split in ("train", "test")}
    view = {"docs": f"{pydocs_mini}/passages", "splits": splits}
    take(folder / "view", {**view, "max_queries": {"train": 12, "test": 6}}, 1)
    write_runs(folder / "bm25", View(folder / "view"), k1=0.9, b=0.4, depth=10)
    return folder


@pytest.fixture(scope="module")
def settings(bert):
    encoder = {"layers": 1, "dimensions": 16, "query_length": 8, "doc_maxlen": 10}
    training = {"triples": 12, "negatives": 5, "doc_maxlen": 8, "batch_size": 4}
    return {
        "seed": 7,
        "models": {"encoder": f"folder:{bert}"},
        "evaluation": {"relevance_levels": {}},
        "colbert": {
            "encoder": {**encoder, "drop_punctuation": True},
            "training": {**training, **FIT},
            "shards": 2,
            "store": {"bits": 4, "sample": 0.3},
            "index": {"subquantizers": 4, "bits": 8, "metric": "l2", "sample": 0.05},
            "retrieval": {
                "k_prime": 300,
                "nprobe": 4,
                "orders": ["first", "icf"],
                "selective": [0.5, 0.9],
                "depth": 10,
                "score_masks": True,
                "int8_queries": True,
            },
            "static": {"systems": ["icf-p03"]},
            "latency": {"queries": 2, "systems": ["first-p08", "icf-p03-d0.5"]},
        },
    }


def verb(settings: dict, out: Path, name: str, **paths: list[Path] | Path) -> int | None:
    options = []
    for option, value in paths.items():
        options += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    record = ["--record", str(out / f"{name}-{len(list(out.glob('*.json')))}.json")]
    return main(["colbert", name, *options, *record, "--settings", json.dumps(settings)])


def chain(material: Path, settings: dict, out: Path) -> Path:
    def done(name: str, extra: dict | None = None, **paths: list[Path] | Path) -> None:
        assert verb({**settings, **(extra or {})}, out, name, **paths) in (None, 0)

    view, model = material / "view", out / "model"
    shards = [out / "shards" / str(number) for number in range(2)]
    indexes = [out / "indexes" / kept for kept in ("1", "0.5")]
    done("train", view=view, candidates=material / "bm25", model=model)
    codec = []
    if settings["colbert"]["store"]["bits"] < 16:
        codec = [out / "codec"]
        done("codec", view=view, model=model, codec=codec)
    for number, shard in enumerate(shards):
        done("encode", {"shard": number}, view=view, model=model, codec=codec, shard=shard)
    for index in indexes:
        trained = out / "quantizers" / index.name
        done("quantizer", {"kept": index.name}, model=model, shards=shards, quantizer=trained)
        lists = [out / "inverted" / index.name / str(number) for number in range(2)]
        for number, (shard, own) in enumerate(zip(shards, lists, strict=True)):
            done("invert", {"shard": number}, quantizer=trained, shard=shard, lists=own)
        done("index", quantizer=trained, lists=lists, index=index)
    searched = {"view": view, "model": model, "shards": shards, "indexes": indexes}
    done("sweep", **searched, runs=out / "runs", counts=out / "counts.parquet")
    done("latency", **searched, latency=out / "latency.parquet")
    return out


@pytest.fixture(scope="module")
def once(material, settings, tmp_path_factory):
    """What the chain of verbs makes."""
    return chain(material, settings, tmp_path_factory.mktemp("once"))


def test_the_chain_of_verbs(material, settings, once, tmp_path):
    twice = chain(material, settings, tmp_path)
    view = View(material / "view")
    queries = view.queries("test")
    assert sorted(runs.in_folder(once / "runs")) == SYSTEMS
    run = runs.read(once / "runs" / "icf-p03.run.gz")
    assert set(run["query_id"]) <= set(queries)
    assert run.groupby("query_id").size().max() == 10
    counts = pd.read_parquet(once / "counts.parquet")
    assert sorted(set(counts["system"])) == SYSTEMS
    assert counts.dtypes["documents_retrieved"] == np.int64
    # The run shows no more of the relevant documents than were retrieved.
    judged = view.qrels("test").merge(run, on=["query_id", "doc_id"])
    shown = judged[judged["relevance"] > 0].groupby("query_id").size()
    own = counts[counts["system"] == "icf-p03"].set_index("query_id")["relevant_retrieved"]
    assert (own[shown.index] >= shown).all()
    assert counts["relevant_retrieved"].sum() > 0
    assert len(counts) == len(SYSTEMS) * len(queries)
    by_system = counts.set_index("system")
    assert set(by_system.loc["first-p05", "embeddings"]) == {5}
    assert set(by_system.loc["icf-p03-d0.5", "embeddings"]) == {3}
    assert (by_system.loc["icf-s0.5", "embeddings"] <= 8).all()
    assert (counts["masks"] + counts["tokens_without_masks"] == 8).all()
    for kept, system in (("1", "icf-p03"), ("0.5", "icf-p03-d0.5")):
        size = (once / "indexes" / kept / "index.faiss").stat().st_size
        assert set(by_system.loc[system, "index_bytes"]) == {size}
    embeddings = sum(len(np.load(once / "shards" / s / "tokens.npy")) for s in "01")
    assert set(counts["store_embeddings"]) == {embeddings}
    assert set(counts["store_bytes"]) == {embeddings * (4 + 16 * 4 // 8)}
    assert set(pd.read_parquet(once / "latency.parquet")["system"]) == {
        "first-p08",
        "icf-p03-d0.5",
    }
    shards = [(once / "shards" / s / "doc_ids.txt").read_text().split() for s in "01"]
    assert shards[0] + shards[1] == [doc.doc_id for doc in view.docs()]

    made = ("model", "shards", "quantizers", "inverted", "indexes", "runs", "counts.parquet")
    for name in made:
        assert files.sha256_of(once / name) == files.sha256_of(twice / name), name


def test_a_killed_training_ends_in_the_same_model(material, settings, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    training = {**settings["colbert"]["training"], "triples": 800, "checkpoint_seconds": 0}
    given = {**settings, "colbert": {**settings["colbert"], "training": training}}
    made = {}
    for name in ("whole", "killed"):
        made[name] = [
            *("colbert", "train", "--view", str(material / "view")),
            *("--candidates", str(material / "bm25"), "--model", str(tmp_path / name)),
            *("--record", str(tmp_path / f"{name}.json"), "--settings", json.dumps(given)),
        ]
    assert main(made["whole"]) in (None, 0)

    checkpoint = tmp_path / ".killed.checkpoint"
    process = subprocess.Popen([sys.executable, "-m", "espalier", *made["killed"]])
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    steps = len(torch.load(checkpoint, weights_only=True)["state"]["losses"])
    assert 1 <= steps < 200
    assert not (tmp_path / "killed").exists()

    assert main(made["killed"]) in (None, 0)
    assert f"going on from {checkpoint}" in caplog.text
    assert not checkpoint.exists()
    assert files.sha256_of(tmp_path / "killed") == files.sha256_of(tmp_path / "whole")
    metrics = [json.loads((tmp_path / f"{name}.json").read_text())["metrics"] for name in made]
    assert metrics[0] == metrics[1]


def test_a_checkpoint_that_made_no_shard_is_refused(material, settings, once, tmp_path, caplog):
    """Its digest stands in every shard and index."""
    model = shutil.copytree(once / "model", tmp_path / "model")
    description = model / "encoder.json"
    description.write_text(description.read_text() + "\n")
    shards = [once / "shards" / s for s in "01"]
    searched = {"view": material / "view", "model": model, "shards": shards}
    written = {"runs": tmp_path / "runs", "counts": tmp_path / "counts.parquet"}
    indexes = [once / "indexes" / "1"]
    assert verb(settings, tmp_path, "sweep", **searched, indexes=indexes, **written) == 1
    message = caplog.messages[-1]
    assert re.match(r"espalier: error: .*/shards/0: made by another encoder than .*model", message)
    assert not (tmp_path / "runs").exists()


def test_without_training_a_checkpoint_is_used_as_it_is(material, settings, tmp_path):
    """No view, no candidates: the model stage's embeddings are the checkpoint's own."""
    folder = published.pylate(tmp_path / "checkpoint", "0_Transformer")
    shape = {**settings["colbert"]["encoder"], "layers": 2}
    part = {"encoder": shape, "training": None, "shards": 1}
    given = {"seed": 7, "models": {"encoder": f"folder:{folder}"}, "colbert": part}
    done = verb(given, tmp_path, "train", view=[], candidates=[], model=tmp_path / "model")
    assert done in (None, 0)

    model = encoder.load(tmp_path / "model")
    original = encoder.from_folder(folder, trained=False, **shape)
    ids = original.layout.queries(["sparse graph"])
    np.testing.assert_array_equal(model.layout.queries(["sparse graph"]), ids)
    np.testing.assert_allclose(model.encode(ids), original.encode(ids), atol=2e-6)

    files = {"view": material / "view", "model": tmp_path / "model", "shard": tmp_path / "shard"}
    assert verb({**given, "shard": 0}, tmp_path, "encode", **files) in (None, 0)
    shard = store.read(tmp_path / "shard")
    doc = next(iter(View(material / "view").docs()))
    tokens = original.layout.docs([f"{doc.title} {doc.text}"])
    ((_, expected),) = original.encode_docs(tokens)
    assert shard.doc_ids[0] == doc.doc_id
    kept = shard.embeddings[: shard.offsets[1]]
    np.testing.assert_allclose(kept, expected, atol=2e-3)


def test_without_training_a_plain_bert_is_refused(settings, tmp_path, caplog):
    given = {**settings, "colbert": {**settings["colbert"], "training": None}}
    options = ["--model", str(tmp_path / "model"), "--record", str(tmp_path / "record.json")]
    assert main(["colbert", "train", *options, "--settings", json.dumps(given)]) == 1
    assert "config key 'colbert.training'" in caplog.text
