"""A random two-layer BERT with a vocabulary of a few words, as a folder on disk."""

import json
from pathlib import Path

import pytest
import torch

WORDS = [
    "sparse", "dense", "graph", "tree", "prune", "##d", "##s", "matrix", "norm", "vector",
    "edge", "node", "of", "the", "a", "and", "x", ".", ",", "(", ")", "[", "]", "mask", "-",
]  # fmt: skip
SPECIALS = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIALS, *WORDS]
ID = {token: i for i, token in enumerate(VOCABULARY)}


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model: config, vocabulary, safetensors."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    return folder
