"""Published checkpoints give the embeddings that PyLate gives, and faulty ones are named."""

import json
import logging
import shutil
import string
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize
from transformers import BertModel

from espalier import config as configuration
from espalier.colbert import checkpoints, encoder
from espalier.errors import EspalierError
from espalier.models.locate import locate
from tests.colbert import published
from tests.colbert.published import CHECKPOINTS, DIMENSIONS, DOCS, HIDDEN, QUERIES, TOKENS

PEER = np.load(Path(__file__).parent / "data" / "peer.npz")
CONFIG = {"layers": 2, "dimensions": DIMENSIONS, "query_length": 20, "doc_maxlen": 30}


def opened(folder, **changes):
    settings = {**CONFIG, "drop_punctuation": True, **changes}
    return encoder.from_folder(locate(f"folder:{folder}", nested=True), trained=False, **settings)


@pytest.fixture(params=CHECKPOINTS)
def each(request, tmp_path):
    """Every kind of checkpoint: its name and folder."""
    return request.param, CHECKPOINTS[request.param](tmp_path / "model")


def assert_as_the_peer(name, model):
    with torch.inference_mode():
        queries = model.encode(model.layout.queries(QUERIES))
        tokens = model.layout.docs(DOCS)
        docs = model.of_docs(tokens).numpy()
    for i, query in enumerate(queries):
        expected = PEER[f"{name}/query/{i}"]
        assert query.shape == expected.shape
        np.testing.assert_allclose(query, expected, atol=1e-5)
    for i, ids in enumerate(tokens):
        expected = PEER[f"{name}/doc/{i}"]
        kept = docs[i, : len(ids)][model.layout.kept(ids)]
        assert kept.shape == expected.shape
        np.testing.assert_allclose(kept, expected, atol=1e-5)


def test_embeddings_are_the_peer_s(each):
    name, folder = each
    assert_as_the_peer(name, opened(folder))


def test_converted_embeddings_are_the_peer_s(each, tmp_path):
    name, folder = each
    encoder.save(tmp_path / "converted", opened(folder))
    assert_as_the_peer(name, encoder.load(tmp_path / "converted"))


def test_the_peer_s_numbers_tell_the_cases_apart():
    """Attention to masks and markers matter thousands of times the tolerance."""
    for one, other in (("colbert", "colbert-attended"), ("pylate", "pylate-attended")):
        assert np.abs(PEER[f"{one}/query/0"] - PEER[f"{other}/query/0"]).max() > 0.05
    assert np.abs(PEER["colbert/query/0"][:9] - PEER["pylate/query/0"]).max() > 0.05


@pytest.mark.parametrize("attended", [False, True])
def test_attention_to_masks_is_plain_bert_s(attended, tmp_path):
    """By hand, from the tensors: the query's word pieces with or without its masks behind them."""
    model = opened(published.colbert(tmp_path, attend_to_mask_tokens=attended))
    words = ["[CLS]", "[unused0]", "sparse", "graph", "[SEP]", *["[MASK]"] * 5]
    ids = torch.tensor([[TOKENS.index(word) for word in words]])
    trunk = BertModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    weight = load_file(tmp_path / "model.safetensors")["linear.weight"]
    with torch.no_grad():
        hidden = trunk(ids if attended else ids[:, :5]).last_hidden_state[0]
    expected = normalize(hidden @ weight.T, dim=-1)[:5]
    (query,) = model.encode(model.layout.queries(["sparse graph"]))
    np.testing.assert_allclose(query[:5], expected.numpy(), atol=1e-5)


def test_half_precision_weights_are_widened(tmp_path):
    whole, half = (published.pylate(tmp_path / name) for name in ("whole", "half"))
    for file in ("model.safetensors", "1_Dense/model.safetensors"):
        tensors = {name: tensor.half() for name, tensor in load_file(whole / file).items()}
        save_file(tensors, half / file, metadata={"format": "pt"})
        save_file({n: t.float() for n, t in tensors.items()}, whole / file, {"format": "pt"})
    models = [opened(folder) for folder in (whole, half)]
    assert {p.dtype for p in models[1].parameters()} == {torch.float32}
    one, other = (model.encode(model.layout.queries(QUERIES)) for model in models)
    np.testing.assert_array_equal(one, other)


def test_the_checkpoint_s_format_wins_and_the_log_says_so(tmp_path, caplog):
    changes = {"query_maxlen": 12, "mask_punctuation": False, "attend_to_mask_tokens": True}
    folder = published.colbert(tmp_path, **changes)
    with caplog.at_level(logging.WARNING, "espalier"):
        layout = opened(folder, doc_maxlen=12).layout
    assert (layout.query_length, layout.doc_maxlen, layout.drop_punctuation) == (12, 12, False)
    assert layout.attend_to_masks
    assert layout.kept(np.arange(7, len(TOKENS))).all()
    warned = [r.getMessage() for r in caplog.records if r.name == "espalier"]
    assert len(warned) == 2  # doc_maxlen is the same in both
    assert warned[0].startswith("colbert.encoder.query_length: 20 in the config, but 12 in")
    assert warned[1].startswith("colbert.encoder.drop_punctuation: True in the config, but False")


def test_what_a_checkpoint_does_not_say_is_the_config_s(tmp_path):
    folder = published.colbert(tmp_path)
    (folder / "artifact.metadata").unlink()
    layout = opened(folder, drop_punctuation=False).layout
    assert (layout.query_length, layout.doc_maxlen, layout.drop_punctuation) == (20, 30, False)
    assert not layout.attend_to_masks
    assert TOKENS[layout.query] == "[unused0]"
    assert TOKENS[layout.doc] == "[unused1]"


def test_an_empty_skiplist_keeps_punctuation(tmp_path):
    layout = opened(published.pylate(tmp_path, skiplist_words=[])).layout
    assert layout.kept(np.array([TOKENS.index(mark) for mark in string.punctuation])).all()


def plain(folder, pooled=False):
    save_file(published.trunk(folder), folder / "model.safetensors", metadata={"format": "pt"})
    if pooled:
        kinds = ("Transformer", "Pooling", "Dense")
        prefix = "sentence_transformers.models."
        published.write_json(
            folder / "modules.json", [{"type": prefix + kind, "path": ""} for kind in kinds]
        )
    return folder


@pytest.mark.parametrize("pooled", [False, True])
def test_a_plain_bert_gets_a_new_projection(tmp_path, pooled):
    """So does one whose projection stands behind pooling: that is of whole texts."""
    folder = plain(tmp_path, pooled)
    models = []
    for make in (encoder.from_folder, encoder.new):
        torch.manual_seed(5)
        trained = {"trained": True} if make is encoder.from_folder else {}
        models.append(make(folder, **CONFIG, drop_punctuation=True, **trained).state_dict())
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())
    with pytest.raises(EspalierError, match=r"colbert\.training': null.*linear\.weight"):
        opened(folder)


def without(folder, file, tensor):
    tensors = load_file(folder / file)
    del tensors[tensor]
    save_file(tensors, folder / file, metadata={"format": "pt"})


def reshaped(folder, file, tensor):
    tensors = load_file(folder / file)
    tensors[tensor] = tensors[tensor][..., :-1].contiguous()
    save_file(tensors, folder / file, metadata={"format": "pt"})


def rewritten(path, **changes):
    published.write_json(path, {**json.loads(path.read_text()), **changes})


WEIGHTS = "model.safetensors"
KEY = "encoder.layer.1.output.dense.weight"
DENSE = f"1_Dense/{WEIGHTS}"
FAULTS = {
    "no-projection": (
        "colbert",
        lambda f: without(f, WEIGHTS, "linear.weight"),
        r"model\.safetensors: tensor 'linear\.weight' is missing; name a",
    ),
    "narrow-projection": (
        "colbert",
        lambda f: reshaped(f, WEIGHTS, "linear.weight"),
        rf"'linear\.weight' is \({DIMENSIONS}, {HIDDEN - 1}\).*hidden_size {HIDDEN}; take both",
    ),
    "no-dense-tensor": (
        "pylate",
        lambda f: without(f, DENSE, "linear.weight"),
        r"1_Dense/model\.safetensors: tensor 'linear\.weight' is missing; name",
    ),
    "pickled-dense": (
        "pylate",
        lambda f: (f / DENSE).rename(f / "1_Dense" / "pytorch_model.bin"),
        r"1_Dense/model\.safetensors is missing; only safetensors are read: save the model again",
    ),
    "pickled-trunk": (
        "pylate-attended",
        lambda f: (f / "0_Transformer" / WEIGHTS).unlink(),
        r"0_Transformer/model\.safetensors is missing",
    ),
    "not-safetensors": (
        "pylate",
        lambda f: (f / DENSE).write_bytes(b"\x80\x04nothing"),
        r"1_Dense/model\.safetensors: not safetensors",
    ),
    "missing-of-bert": (
        "colbert",
        lambda f: without(f, WEIGHTS, f"bert.{KEY}"),
        rf"model\.safetensors: tensor '{KEY}' is missing; name",
    ),
    "misshapen-of-bert": (
        "pylate",
        lambda f: reshaped(f, WEIGHTS, KEY),
        rf"tensor '{KEY}' is \(24, 39\), by config\.json it is \(24, 40\); take",
    ),
    "other-dimension-stated": (
        "colbert",
        lambda f: rewritten(f / "artifact.metadata", dim=8),
        r"artifact\.metadata: dim is not that of 'linear\.weight' \(16, 24\) in .*; take",
    ),
    "wrong-type": (
        "colbert",
        lambda f: rewritten(f / "artifact.metadata", query_maxlen="32"),
        r"artifact\.metadata: query_maxlen is '32'; make it of type int",
    ),
    "too-many-query-tokens": (
        "colbert",
        lambda f: rewritten(f / "artifact.metadata", query_maxlen=100),
        r"artifact\.metadata: query_maxlen is 100; only 4 to 99 can be used",
    ),
    "too-long": (
        "pylate",
        lambda f: rewritten(f / "config_sentence_transformers.json", document_length=180),
        r"takes 32 tokens, not 180; lower",
    ),
    "no-expansion": (
        "pylate",
        lambda f: rewritten(f / "config_sentence_transformers.json", do_query_expansion=False),
        r"do_query_expansion is false.*name a checkpoint",
    ),
    "no-marker": (
        "pylate",
        lambda f: rewritten(f / "config_sentence_transformers.json", query_prefix=""),
        r"query_prefix and document_prefix are \('', '\[D\] '\)",
    ),
    "unknown-marker": (
        "colbert",
        lambda f: rewritten(f / "artifact.metadata", doc_token_id="[unused9]"),
        r"vocabulary lacks \[unused9\]",
    ),
    "prompt": (
        "pylate",
        lambda f: rewritten(f / "config_sentence_transformers.json", default_prompt_name="q"),
        r"default_prompt_name is set",
    ),
    "bias": (
        "pylate",
        lambda f: rewritten(f / "1_Dense" / "config.json", bias=True),
        r"1_Dense/config\.json: bias, use_residual",
    ),
    "two-dense": (
        "pylate",
        lambda f: published.write_json(
            f / "modules.json",
            [
                {"type": f"x.{kind}", "path": path}
                for kind, path in (("Transformer", ""), ("Dense", "1_Dense"), ("Dense", "1_Dense"))
            ],
        ),
        r"modules\.json: Transformer, Dense, Dense; only one",
    ),
    "no-modules": (
        "pylate",
        lambda f: (f / "modules.json").write_text("{"),
        r"modules\.json: not a list of modules",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_checkpoint_is_one_clear_line(fault, tmp_path):
    name, break_it, message = FAULTS[fault]
    folder = CHECKPOINTS[name](tmp_path / "model")
    opened(folder)
    break_it(folder)
    with pytest.raises(EspalierError, match=message) as caught:
        opened(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimensions": 8}, r"colbert\.encoder\.dimensions': 8, .*linear\.weight.* has 16; set it"),
        ({"layers": 1}, r"colbert\.encoder\.layers': 1, .*trained with 2; set it to 2"),
    ],
)
def test_a_shape_that_contradicts_the_config_stops_before_any_work(changes, message, tmp_path):
    folder = published.colbert(tmp_path / "model")
    with pytest.raises(EspalierError, match=message):
        opened(folder, **changes)
    config = {
        "papers": ["colbert"],
        "models": {"encoder": f"folder:{folder}"},
        "colbert": {"encoder": CONFIG, "training": None},
    }
    configuration.check_models(config)
    with pytest.raises(EspalierError, match=message):
        configuration.check_models(
            {**config, "colbert": {"encoder": {**CONFIG, **changes}, "training": None}}
        )


def test_what_a_folder_holds_is_told_without_reading_tensors(tmp_path):
    nested = published.pylate(tmp_path / "a", "0_Transformer")
    found = checkpoints.read(nested)
    assert found.trunk == nested / "0_Transformer"
    assert found.projection == nested / "1_Dense" / "model.safetensors"
    assert (found.layers, found.dimensions) == (2, DIMENSIONS)
    bare = tmp_path / "b"
    shutil.copytree(published.colbert(tmp_path / "c"), bare)
    rewritten(bare / "config.json", architectures=["BertModel"])
    (bare / "artifact.metadata").unlink()  # the tensor alone tells
    assert checkpoints.read(bare).projection == bare / "model.safetensors"
