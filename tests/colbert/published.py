"""Small random checkpoints in the layouts that late-interaction models are published in.

Weights come from numpy's generator, so every version of torch and transformers makes the same.
"""

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, BertTokenizer

from tests.colbert.conftest import VOCABULARY

TOKENS = [*VOCABULARY, *(mark for mark in string.punctuation if mark not in VOCABULARY)]
"""Punctuation is complete, as in BERT's own vocabulary."""

HIDDEN, DIMENSIONS, LAYERS = 24, 16, 2
METADATA = {
    "query_maxlen": 10,
    "doc_maxlen": 12,
    "dim": DIMENSIONS,
    "query_token_id": "[unused0]",
    "doc_token_id": "[unused1]",
    "mask_punctuation": True,
    "attend_to_mask_tokens": False,
}
SETTINGS = {
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": 9,
    "document_length": 11,
    "attend_to_expansion_tokens": False,
    "skiplist_words": list(string.punctuation),
    "do_query_expansion": True,
    "prompts": {},
    "default_prompt_name": None,
}
QUERIES = ["pruned graph", "sparse matrix norm of the tree and the edge, and the node", "", "x?"]
DOCS = [
    "graph, tree (edge).",
    "the dense vector of the sparse matrix - a norm of edges and nodes, and of trees.",
    "node",
    "unseen: the mask of a tree!",
]


def trunk(folder: Path, added: tuple[str, ...] = ()) -> dict[str, torch.Tensor]:
    """Write config and tokenizer, with `added` tokens at the vocabulary's end; BERT's tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    tokenizer = BertTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(list(added))
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(TOKENS) + len(added),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=32,
    )
    config.save_pretrained(folder)
    model = BertModel(config, add_pooling_layer=False)
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    return {
        name: drawn(seed, shape) + name.endswith("LayerNorm.weight")  # those are about 1
        for seed, (name, shape) in enumerate(sorted(shapes.items()))
    }


def drawn(seed: int, shape: Any) -> torch.Tensor:
    """float32 of that shape, large enough that every token's context shows."""
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.4, shape).astype(np.float32))


def projection() -> torch.Tensor:
    return drawn(1000, (DIMENSIONS, HIDDEN))


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def colbert(folder: Path, **changes: Any) -> Path:
    """ColBERT's layout; `changes` are made to artifact.metadata."""
    tensors = {f"bert.{name}": tensor for name, tensor in trunk(folder).items()}
    save_file(
        {**tensors, "linear.weight": projection()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "architectures": ["HF_ColBERT"]})
    write_json(folder / "artifact.metadata", {**METADATA, **changes})
    return folder


def pylate(folder: Path, subfolder: str = "", **changes: Any) -> Path:
    """PyLate's layout, the transformer in `subfolder`; `changes` are made to the settings."""
    tensors = trunk(folder / subfolder, ("[Q] ", "[D] "))
    save_file(tensors, folder / subfolder / "model.safetensors", metadata={"format": "pt"})
    write_json(
        folder / subfolder / "sentence_bert_config.json",
        {"max_seq_length": 32, "do_lower_case": False},
    )
    dense = folder / "1_Dense"
    dense.mkdir()
    save_file({"linear.weight": projection()}, dense / "model.safetensors")
    shape = {"in_features": HIDDEN, "out_features": DIMENSIONS, "bias": False}
    activation = "torch.nn.modules.linear.Identity"
    write_json(
        dense / "config.json", {**shape, "activation_function": activation, "use_residual": False}
    )
    kinds = {subfolder: "sentence_transformers.models.Transformer"}
    kinds["1_Dense"] = "pylate.models.Dense.Dense"
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": kind}
            for i, (path, kind) in enumerate(kinds.items())
        ],
    )
    write_json(folder / "config_sentence_transformers.json", {**SETTINGS, **changes})
    return folder


CHECKPOINTS = {
    "colbert": colbert,
    "colbert-attended": lambda folder: colbert(folder, attend_to_mask_tokens=True),
    "pylate": pylate,
    "pylate-attended": lambda folder: pylate(
        folder,
        "0_Transformer",
        attend_to_expansion_tokens=True,
        skiplist_words=["the", "of", ".", ","],
    ),
}
"""By the name under which the peer's numbers are kept."""
