import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM, BertModel

from espalier.best import ranker
from espalier.errors import EspalierError
from espalier.models import pretrained

KEPT = "bert.encoder.layer.0.output.dense.weight"


@pytest.fixture
def folder(tmp_path):
    """A masked language model of one layer."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(tmp_path)
    return tmp_path


def changed(folder, **tensors):
    """The folder with other tensors, or without those that are None."""
    path = folder / "model.safetensors"
    kept = {**load_file(path), **tensors}
    save_file({name: t for name, t in kept.items() if t is not None}, path, {"format": "pt"})


def test_another_tasks_head_is_left_alone_and_nothing_is_printed(folder, capfd):
    model = pretrained.load(BertModel, folder, add_pooling_layer=False)
    expected = load_file(folder / "model.safetensors")[KEPT]
    torch.testing.assert_close(model.encoder.layer[0].output.dense.weight.detach(), expected)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: pretrained.load(AutoModelForMaskedLM, folder),
        lambda folder: ranker.new(folder, mark=False),
    ],
    ids=["splade", "ranker"],
)
def test_a_missing_tensor_is_refused_not_drawn_at_random(folder, load):
    load(folder)
    changed(folder, **{KEPT: None})
    tensor = re.escape(KEPT.removeprefix("bert."))
    with pytest.raises(EspalierError, match=rf"safetensors: tensor '(bert\.)?{tensor}' is missing"):
        load(folder)


def test_a_tensor_of_another_shape_is_refused(folder):
    changed(folder, **{KEPT: torch.zeros(8, 17)})
    with pytest.raises(EspalierError, match=r"is \(8, 17\), by config\.json it is \(8, 16\); take"):
        pretrained.load(BertModel, folder, add_pooling_layer=False)
