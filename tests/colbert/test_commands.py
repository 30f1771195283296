"""The verbs one after another on a small collection, twice: the same bytes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from espalier import files
from espalier.cli import main
from espalier.collections.candidates import write_runs
from espalier.collections.snapshot import take
from espalier.collections.view import View
from espalier.evaluation import runs

SYSTEMS = [f"{order}-p{p:02d}" for order in ("first", "icf") for p in range(1, 9)]


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
        "colbert": {
            "encoder": {**encoder, "drop_punctuation": True},
            "training": {**training, "learning_rate": 1e-3, "warmup": 0.1},
            "shards": 2,
            "index": {"subquantizers": 4, "bits": 8, "sample": 0.05},
            "retrieval": {"k_prime": 20, "nprobe": 4, "orders": ["first", "icf"], "depth": 10},
            "latency": {"queries": 2, "systems": ["first-p08", "icf-p03"]},
        },
    }


def chain(material: Path, settings: dict, out: Path) -> Path:
    def verb(name: str, extra: dict | None = None, **paths: list[Path] | Path) -> None:
        options = []
        for option, value in paths.items():
            options += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
        record = ["--record", str(out / f"{name}-{len(list(out.glob('*.json')))}.json")]
        given = ["--settings", json.dumps({**settings, **(extra or {})})]
        assert main(["colbert", name, *options, *record, *given]) in (None, 0)

    view, model, index = material / "view", out / "model", out / "index"
    shards = [out / "shards" / str(number) for number in range(2)]
    verb("train", view=view, candidates=material / "bm25", model=model)
    for number, shard in enumerate(shards):
        verb("encode", {"shard": number}, view=view, model=model, shard=shard)
    verb("index", model=model, shards=shards, index=index)
    searched = {"view": view, "model": model, "shards": shards, "index": index}
    verb("sweep", **searched, runs=out / "runs", counts=out / "counts.parquet")
    verb("latency", **searched, latency=out / "latency.parquet")
    return out


def test_the_chain_of_verbs(material, settings, tmp_path):
    once, twice = (chain(material, settings, tmp_path / name) for name in ("a", "b"))

    view = View(material / "view")
    queries = view.queries("test")
    assert list(runs.in_folder(once / "runs")) == SYSTEMS
    run = runs.read(once / "runs" / "icf-p03.run.gz")
    assert set(run["query_id"]) <= set(queries)
    assert run.groupby("query_id").size().max() == 10
    counts = pd.read_parquet(once / "counts.parquet")
    assert sorted(set(counts["system"])) == SYSTEMS
    assert counts.dtypes["documents_retrieved"] == np.int64
    assert len(counts) == len(SYSTEMS) * len(queries)
    assert set(pd.read_parquet(once / "latency.parquet")["system"]) == {"first-p08", "icf-p03"}
    shards = [(once / "shards" / s / "doc_ids.txt").read_text().split() for s in "01"]
    assert shards[0] + shards[1] == [doc.doc_id for doc in view.docs()]

    for name in ("model", "shards", "index", "runs", "counts.parquet"):
        assert files.sha256_of(once / name) == files.sha256_of(twice / name), name
