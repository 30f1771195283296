"""However the collection is cut into shards, merged indexes and runs have the same bytes."""

import json
import re
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from espalier import files
from espalier.cli import main
from espalier.colbert import store
from espalier.collections.snapshot import take
from espalier.collections.view import View
from espalier.sparse import shards
from espalier.text import batching

CUTS = (1, 2, 7)
SPECIALS = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BLOCK = 128
"""Passages in a block here, so that each of seven shards has some of the 1773."""

ENCODER = {"layers": 2, "dimensions": 32, "query_length": 8, "doc_maxlen": 24}
RETRIEVAL = {"k_prime": 50, "nprobe": 4, "orders": ["icf"], "selective": [], "depth": 20}
SETTINGS = [
    {"name": "original", "algorithm": "vbmw", "beta": 0.0},
    {"name": "bm25", "algorithm": "vbmw", "beta": 1.0},
]


@pytest.fixture(scope="module", autouse=True)
def blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "BLOCK", BLOCK)
        yield


@pytest.fixture(scope="module")
def view(pydocs_mini, tmp_path_factory):
    """The smoke chain's passages with a few of their queries."""
    folder = tmp_path_factory.mktemp("view") / "view"
    docs = f"{pydocs_mini}/passages"
    take(folder, {"docs": docs, "splits": {"test": f"{docs}/test"}, "max_queries": {"test": 20}}, 1)
    return folder


@pytest.fixture(scope="module")
def bert(view, tmp_path_factory):
    """A random BERT that knows the passages' letters and commonest words, wide enough to round."""
    folder = tmp_path_factory.mktemp("bert")
    words = Counter(w for doc in View(view).docs() for w in re.findall("[a-z]+", doc.text.lower()))
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = [*SPECIALS, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary += [word for word, _ in words.most_common(800) if len(word) > 1]
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


def sparse(folder, view, bert, cut, reordered):
    """The sparse room's part: its shards; indexes and runs below `folder`."""
    weighting = {"kind": "splade", "model": f"folder:{bert}", "max_length": 24}
    parts = [folder / "shards" / str(number) for number in range(cut)]
    for number, part in enumerate(parts):
        slice_ = {"weighting": weighting, "shard": number, "shards": cut}
        call("sparse", "encode", {"shard": part}, slice_, view=view)
    built = {"block_size": 8, "bits": 8, "k1": 0.9, "b": 0.4, "own_terms": False}
    out = {"indexes": folder / "merged" / "splade", "weights": folder / "merged" / "weights.parquet"}
    call("sparse", "index", out, {**built, "reordered": reordered}, shards=parts)
    asked = {"weighting": weighting, "bm25_scale": 1.0, "own_terms": False}
    queries = folder / "queries.parquet"
    call("sparse", "encode-queries", {"queries": queries}, asked, view=view)
    searched = {"indexes": [out["indexes"]], "queries": [queries]}
    out = {"runs": folder / "merged" / "runs", "counts": folder / "merged" / "counts.parquet"}
    call("sparse", "retrieve", out, {"settings": SETTINGS, "depth": 20}, **searched)
    return parts


def colbert(folder, view, bert, cut):
    """The late-interaction room's part, as `sparse`."""
    model = folder / "model"
    settings = {
        "models": {"encoder": f"folder:{bert}"},
        "colbert": {
            "encoder": {**ENCODER, "drop_punctuation": True},
            "training": {
                "triples": 4, "negatives": 5, "doc_maxlen": 8, "batch_size": 4,
                "learning_rate": 1e-4, "warmup": 0.1,
            },
            "shards": cut,
            "index": {"subquantizers": 8, "bits": 8, "sample": 0.2},
            "retrieval": RETRIEVAL,
            "static": {"systems": []},
        },
    }  # fmt: skip
    encoder_of(bert, model)
    parts = [folder / "shards" / str(number) for number in range(cut)]
    for number, part in enumerate(parts):
        slice_ = {**settings, "shard": number}
        call("colbert", "encode", {"shard": part}, slice_, view=view, model=model)
    indexes = [folder / "merged" / kept for kept in ("1", "0.5")]
    for index in indexes:
        chosen = {**settings, "kept": index.name}
        call("colbert", "index", {"index": index}, chosen, model=model, shards=parts)
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


@pytest.mark.parametrize("reordered", [False, True])
def test_sparse_indexes_and_runs_do_not_depend_on_the_cut(tmp_path, view, bert, reordered):
    found, sizes = {}, {}
    for cut in CUTS:
        parts = sparse(tmp_path / str(cut), view, bert, cut, reordered)
        sizes[cut] = [len(shards.read(part).doc_ids) for part in parts]
        found[cut] = digests(tmp_path / str(cut) / "merged")
    assert [len(sizes[cut]) for cut in CUTS] == list(CUTS)
    assert all(min(own) > 0 and sum(own) == View(view).docs_count for own in sizes.values())
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
    """SHA-256 of every file but the records, by its place below the folder."""
    return {
        path.relative_to(folder).as_posix(): files.sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".json" or path.name in ("meta.json", "index.json")
    }
