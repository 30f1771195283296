"""The ranker of every arm: a BERT cross-encoder, [CLS] through a linear layer.

Nogueira and Cho (arXiv 1901.04085), Dai and Callan (SIGIR 2019, section 3); any BERT-like
checkpoint of the transformers library can be the trunk.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModel

from espalier.best.inputs import MARKED, Batch
from espalier.models.locate import WEIGHTS

MARKING = "exact_match_marking"
"""The key of a saved ranker's config that says whether it was trained with marked matches."""


class Ranker(nn.Module):
    """f_θ(q, d_i): a score for each pair of query and segment."""

    def __init__(self, trunk: Any) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(trunk.config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=trunk.config.initializer_range)
        nn.init.zeros_(self.head.bias)

    @property
    def marks(self) -> bool:
        """Whether shared word pieces have a token type of their own."""
        return bool(getattr(self.trunk.config, MARKING))

    def forward(self, batch: Batch) -> torch.Tensor:
        """float32[pairs]: [CLS] of the last layer through the linear layer."""
        types = batch.types.clamp(max=self.trunk.config.type_vocab_size - 1)
        hidden = self.trunk.embeddings(input_ids=batch.ids, token_type_ids=types)
        attended = batch.mask[:, None, None, :]
        *layers, last = self.trunk.encoder.layer
        for layer in layers:
            hidden = layer(hidden, attended)
        scores: torch.Tensor = self.head(first_row(last, hidden, attended)).squeeze(-1)
        return scores


def first_row(layer: Any, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    """The first row of a BERT layer's output: float32[pairs, n, width] to float32[pairs, width].

    Only that row of the last layer is read, so only it is computed: its keys and values need
    every token, all the rest of the layer a single one.
    """
    attention = layer.attention.self
    shape = (len(hidden), -1, attention.num_attention_heads, attention.attention_head_size)
    cls = hidden[:, :1]
    query, key, value = (
        project(rows).view(shape).transpose(1, 2)
        for project, rows in (
            (attention.query, cls), (attention.key, hidden), (attention.value, hidden)
        )
    )  # fmt: skip
    context = nn.functional.scaled_dot_product_attention(
        query, key, value, attended, dropout_p=attention.dropout.p if layer.training else 0.0
    )
    context = context.transpose(1, 2).reshape(len(hidden), 1, -1)
    rows: torch.Tensor = layer.feed_forward_chunk(layer.attention.output(context, cls))
    return rows[:, 0]


def new(folder: Path, *, mark: bool) -> Ranker:
    """A ranker on the checkpoint in `folder`, with a fresh linear layer (torch's generator)."""
    trunk = AutoModel.from_pretrained(folder, use_safetensors=True, add_pooling_layer=False)
    setattr(trunk.config, MARKING, mark)
    ranker = Ranker(trunk)
    if mark:  # after the linear layer, which then starts alike with and without marks
        widen_types(trunk)
    return ranker


def widen_types(trunk: Any) -> None:
    """Give the trunk a token type for marked word pieces, which starts as the segment's."""
    types = trunk.embeddings.token_type_embeddings
    wide = nn.Embedding(MARKED + 1, types.embedding_dim)
    with torch.no_grad():
        wide.weight[:] = types.weight[-1]
        wide.weight[: len(types.weight)] = types.weight[: MARKED + 1]
    trunk.embeddings.token_type_embeddings = wide
    trunk.config.type_vocab_size = MARKED + 1


def save(folder: Path, ranker: Ranker) -> None:
    """Write config.json and model.safetensors."""
    ranker.trunk.config.save_pretrained(folder)
    save_file({k: v.contiguous() for k, v in ranker.state_dict().items()}, folder / WEIGHTS)


def load(folder: Path) -> Ranker:
    """Read what `save` wrote."""
    trunk = AutoModel.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
    ranker = Ranker(trunk)
    ranker.load_state_dict(load_file(folder / WEIGHTS))
    return ranker
