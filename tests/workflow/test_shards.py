"""However the collection is cut into shards, merged indexes and runs have the same bytes.

A shard's jobs run while there is no other shard to look at.
"""

import json
import random
from contextlib import contextmanager

import ir_datasets
import numpy as np
import pytest
import torch
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import (
    BaseDocs,
    BaseQrels,
    BaseQueries,
    GenericDoc,
    GenericQuery,
    TrecQrel,
)
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from espalier import files
from espalier.cli import main
from espalier.colbert import store
from espalier.collections.snapshot import take
from espalier.sparse import shards
from espalier.text import batching

CUTS = (1, 2, 7)
SPECIALS = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BLOCK, PASSAGES = 64, 600
"""Few passages to a block here, so that each of seven shards has some."""

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in "aeiou"]

ENCODER = {"layers": 2, "dimensions": 32, "query_length": 8, "doc_maxlen": 24}
RETRIEVAL = {
    "int8_queries": False,
    "k_prime": 50,
    "nprobe": 4,
    "orders": ["icf"],
    "selective": [],
    "depth": 20,
    "score_masks": True,
}
SETTINGS = [
    {"name": "original", "algorithm": "vbmw", "beta": 0.0},
    {"name": "bm25", "algorithm": "vbmw", "beta": 1.0},
]


@pytest.fixture(scope="module", autouse=True)
def blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "BLOCK", BLOCK)
        yield


class Passages(BaseDocs, BaseQueries, BaseQrels):
    """Passages of one to 24 words, some of none, and queries that are parts of passages."""

    def __init__(self):
        draw = random.Random(3)
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 24))) for _ in range(PASSAGES)]
        texts[70] = texts[71] = ""
        self.rows = [GenericDoc(f"d{i}", text) for i, text in enumerate(texts)]
        self.asked = [GenericQuery(f"q{i}", texts[i * 29][:12]) for i in range(20)]

    def docs_iter(self):
        return iter(self.rows)

    def queries_iter(self):
        return iter(self.asked)

    def qrels_iter(self):
        return (TrecQrel(query.query_id, "d0", 1, "0") for query in self.asked)


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    """The passages as espalier sees them."""
    folder = tmp_path_factory.mktemp("view") / "view"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ir_datasets.registry._registered, "cut", Dataset(Passages()))
        take(folder, {"docs": "cut", "splits": {"test": "cut"}}, 1)
        yield folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A random BERT that knows the passages' words, wide enough for products to round."""
    folder = tmp_path_factory.mktemp("bert")
    vocabulary = [*SPECIALS, *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=64, initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def call(room, verb, out, settings, **paths):
    """Run a verb that writes the outputs `out`."""
    options = []
    for option, value in {**paths, **out}.items():
        options += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    first = next(iter(out.values()))
    options += ["--record", str(first.with_name(f"{first.name}.{verb}.json"))]
    assert main([room, verb, *options, "--settings", json.dumps({"seed": 7, **settings})]) == 0


@contextmanager
def alone(part):
    """While this lasts, a shard's folder has none beside it."""
    others = [path for path in part.parent.iterdir() if path.is_dir() and path != part]
    away = part.parent.with_name(f"{part.parent.name}-away")
    away.mkdir()
    for path in others:
        path.rename(away / path.name)
    yield
    for path in others:
        (away / path.name).rename(path)
    away.rmdir()


def sparse(folder, view, bert, cut):
    """The sparse room's part: its shards; indexes and runs below `folder`."""
    weighting = {"kind": "splade", "model": f"folder:{bert}", "max_length": 24}
    parts = [folder / "shards" / str(number) for number in range(cut)]
    for number, part in enumerate(parts):
        slice_ = {"weighting": weighting, "shard": number, "shards": cut}
        call("sparse", "encode", {"shard": part}, slice_, view=view)
    inverted = [folder / "inverted" / part.name for part in parts]
    for part, own in zip(parts, inverted, strict=True):
        with alone(part):
            call("sparse", "invert", {"inverted": own}, {}, shard=part)
    built = {"block_size": 8, "partition_by": "learned", "bits": 8, "k1": 0.9, "b": 0.4}
    built |= {"own_terms": False, "delimiter": None}
    indexes = [folder / "merged" / name for name in ("reordered", "splade")]
    for index in indexes:
        out = {"indexes": index, "weights": index.with_suffix(".parquet")}
        reordered = index.name == "reordered"
        call("sparse", "index", out, {**built, "reordered": reordered}, inverted=inverted)
    asked = {"weighting": weighting, "bm25_scale": 1.0, "own_terms": False}
    queries = folder / "queries.parquet"
    call("sparse", "encode-queries", {"queries": queries}, asked, view=view)
    searched = {"indexes": indexes, "queries": [queries, queries]}
    out = {"runs": folder / "merged" / "runs", "counts": folder / "merged" / "counts.parquet"}
    call(
        "sparse",
        "retrieve",
        out,
        {"settings": SETTINGS, "depth": 20, "segment_hits": 1},
        **searched,
    )
    return parts


def colbert(folder, view, bert, cut):
    """The late-interaction room's part, as `sparse`."""
    model = folder / "model"
    settings = {
        "colbert": {
            "shards": cut,
            "index": {"subquantizers": 8, "bits": 6, "sample": 0.6, "metric": "l2"},
            "retrieval": RETRIEVAL,
            "static": {"systems": []},
        },
        "evaluation": {"relevance_levels": {}},
    }
    encoder_of(bert, model)
    parts = [folder / "shards" / str(number) for number in range(cut)]
    for number, part in enumerate(parts):
        slice_ = {**settings, "shard": number}
        call("colbert", "encode", {"shard": part}, slice_, view=view, model=model)
    indexes = [folder / "merged" / kept for kept in ("1", "0.5")]
    for index in indexes:
        kept = index.name
        coder = folder / "quantizers" / kept
        given = {"model": model, "shards": parts}
        call("colbert", "quantizer", {"quantizer": coder}, {**settings, "kept": kept}, **given)
        lists = [folder / "inverted" / kept / part.name for part in parts]
        for number, (part, own) in enumerate(zip(parts, lists, strict=True)):
            with alone(part):
                given = {"quantizer": coder, "shard": part}
                call("colbert", "invert", {"lists": own}, {"shard": number}, **given)
        call("colbert", "index", {"index": index}, {}, quantizer=coder, lists=lists)
    out = {"runs": folder / "merged" / "runs", "counts": folder / "merged" / "counts.parquet"}
    searched = {"view": view, "model": model, "shards": parts, "indexes": indexes}
    call("colbert", "sweep", out, settings, **searched)
    return parts


def encoder_of(bert, folder):
    """The untrained encoder on that BERT."""
    from espalier.colbert import encoder

    torch.manual_seed(0)
    settings = {**ENCODER, "drop_punctuation": True}
    encoder.save(folder, encoder.from_folder(bert, trained=True, **settings))


def test_sparse_indexes_and_runs_do_not_depend_on_the_cut(tmp_path, view, bert):
    found, sizes = {}, {}
    for cut in CUTS:
        parts = sparse(tmp_path / str(cut), view, bert, cut)
        sizes[cut] = [len(shards.read(part).doc_ids) for part in parts]
        found[cut] = digests(tmp_path / str(cut) / "merged")
    assert [len(sizes[cut]) for cut in CUTS] == list(CUTS)
    assert all(min(own) > 0 and sum(own) == PASSAGES for own in sizes.values())
    assert any(name.endswith("learned.npy") for name in found[1])
    assert found[1] == found[2] == found[7]


def test_late_interaction_indexes_and_runs_do_not_depend_on_the_cut(tmp_path, view, bert):
    found, rows = {}, {}
    for cut in CUTS:
        parts = colbert(tmp_path / str(cut), view, bert, cut)
        opened = store.open_store(parts).shards
        assert all(len(shard.doc_ids) for shard in opened)
        rows[cut] = np.concatenate([shard.embeddings for shard in opened])
        found[cut] = digests(tmp_path / str(cut) / "merged")
    for cut in CUTS[1:]:
        np.testing.assert_array_equal(rows[1].view(np.uint16), rows[cut].view(np.uint16))
    assert {"1/index.faiss", "0.5/index.faiss"} <= set(found[1])
    assert found[1] == found[2] == found[7]


def digests(folder):
    """SHA-256 of every file but records and descriptions, by its place below the folder."""
    return {
        path.relative_to(folder).as_posix(): files.sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if (path.is_file() and path.suffix != ".json" and not path.name.endswith(files.SIDECAR))
        or path.name in ("meta.json", "index.json")
    }
