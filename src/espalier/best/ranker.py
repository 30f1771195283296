"""The ranker of every arm: a BERT cross-encoder, [CLS] through a linear layer.

Nogueira and Cho (arXiv 1901.04085), Dai and Callan (SIGIR 2019, section 3). The trunk is a
checkpoint of the transformers library whose type is among `TRUNKS`. Longformer (Beltagy et al.,
arXiv 2004.05150) takes a whole document as one segment.
"""

from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModel

from espalier.best.inputs import MARKED, Batch, first_position, longest_input
from espalier.errors import EspalierError
from espalier.models import pretrained
from espalier.models.locate import WEIGHTS

TRUNKS: dict[str, dict[str, Any]] = {
    "bert": {"add_pooling_layer": False},
    "roberta": {"add_pooling_layer": False},
    "electra": {},
    "longformer": {"add_pooling_layer": False},
    "distilbert": {},
}
"""Types of models that can be a trunk, with what leaves their pooling layer out."""

LAYERED = ("bert", "roberta", "electra")
"""Those made of BERT's layers, which are run here without padding; the others run whole."""

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
        """float32[pairs]: [CLS] of the last layer through the linear layer.

        EspalierError when a pair is longer than the trunk takes.
        """
        longest, limit = max(batch.lengths), longest_input(self.trunk.config)
        if longest > limit:
            raise EspalierError(
                f"a pair has {longest} word pieces, the model takes {limit}: lower config key "
                "'best.segments.max_length'"
            )
        layered = self.trunk.config.model_type in LAYERED
        # In training no two pairs may be of one length: too many small kernels for a GPU.
        whole = not layered or (self.training and batch.ids.is_cuda)
        cls = whole_cls(self.trunk, batch) if whole else layered_cls(self.trunk, batch)
        scores: torch.Tensor = self.head(cls).squeeze(-1)
        return scores


def whole_cls(trunk: Any, batch: Batch) -> torch.Tensor:
    """float32[pairs, width]: the first row of the model's own output.

    Longformer attends globally from and to [CLS] and the query, as its authors let questions.
    """
    ids, types, mask = (
        pad_sequence(list(torch.split(rows, batch.lengths)), batch_first=True, padding_value=fill)
        for rows, fill in (
            (batch.ids, batch.pad), (batch.types, 1), (torch.ones_like(batch.ids), 0)
        )
    )  # fmt: skip
    config, options = trunk.config, {}
    if config.model_type in LAYERED:
        options["token_type_ids"] = types.clamp(max=config.type_vocab_size - 1)
    if config.model_type == "longformer":
        everywhere = (types == 0) & (ids != config.sep_token_id)
        options["global_attention_mask"] = everywhere.long()
    rows: torch.Tensor = trunk(input_ids=ids, attention_mask=mask, **options).last_hidden_state
    return rows[:, 0]


def layered_cls(trunk: Any, batch: Batch) -> torch.Tensor:
    """float32[pairs, width]: the first row of the last of BERT's layers.

    All tokens of the batch stand in one row, so that no padding is computed. Of the last layer
    only the first token of each pair is read, so only that is computed: its keys and values need
    every token, all the rest of the layer that one.
    """
    config, lengths = trunk.config, batch.lengths
    hidden = trunk.embeddings(
        input_ids=batch.ids[None],
        token_type_ids=batch.types[None].clamp(max=config.type_vocab_size - 1),
        position_ids=batch.positions[None] + first_position(config),
    )[0]
    if hasattr(trunk, "embeddings_project"):
        hidden = trunk.embeddings_project(hidden)
    *layers, last = trunk.encoder.layer
    for layer in layers:
        if layer.gradient_checkpointing and layer.training:
            hidden = checkpoint(layer_rows, layer, hidden, hidden, lengths, use_reentrant=False)
        else:
            hidden = layer_rows(layer, hidden, hidden, lengths)
    return layer_rows(last, hidden[batch.positions == 0], hidden, lengths)


def layer_rows(
    layer: Any, asking: torch.Tensor, hidden: torch.Tensor, lengths: list[int]
) -> torch.Tensor:
    """Rows of a BERT layer's output, as many as are `asking`: all of `hidden`, or one a pair.

    `asking` float32[rows, width], `hidden` float32[tokens, width], pairs one after the other.
    """
    attention = layer.attention.self
    dropout = attention.dropout.p if layer.training else 0.0
    key, value = attention.key(hidden), attention.value(hidden)
    query = attention.query(asking)
    each = len(asking) == len(lengths)

    # Pairs of equal length, which batches by length have in a row, attend at once.
    runs = [(length, len(list(run))) for length, run in groupby(lengths)]
    asked = [pairs if each else length * pairs for length, pairs in runs]
    tokens = [length * pairs for length, pairs in runs]
    heads = (attention.num_attention_heads, attention.attention_head_size)
    parts = zip(query.split(asked), key.split(tokens), value.split(tokens), strict=True)
    contexts = [
        attend(*(rows.view(pairs, -1, *heads) for rows in part), dropout=dropout)
        for (_, pairs), part in zip(runs, parts, strict=True)
    ]
    context = layer.attention.output(torch.cat(contexts).view(query.shape), asking)
    rows: torch.Tensor = layer.feed_forward_chunk(context)
    return rows


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, dropout: float
) -> torch.Tensor:
    """Attention of [pairs, tokens, heads, width] each; float32[pairs · tokens, heads, width]."""
    query, key, value = (rows.transpose(1, 2) for rows in (query, key, value))
    context = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
    return context.transpose(1, 2).flatten(0, 1)


def new(folder: Path, *, mark: bool) -> Ranker:
    """A ranker on the checkpoint in `folder`, with a fresh linear layer (torch's generator).

    EspalierError when the checkpoint's type is not among `TRUNKS`, a tensor is missing, or `mark`
    is asked of one without token types.
    """
    config = AutoConfig.from_pretrained(folder)
    if config.model_type not in TRUNKS:
        raise EspalierError(
            f"{folder}/config.json: model_type '{config.model_type}' cannot be a ranker; "
            f"set config key 'models.ranker' to one of {', '.join(TRUNKS)}"
        )
    if mark and (config.model_type not in LAYERED or config.type_vocab_size < MARKED):
        raise EspalierError(
            f"{folder}/config.json: {config.model_type} has no token types to mark exact matches "
            "with; set config key 'best.ranker.exact_match_marking' to false"
        )
    trunk = pretrained.load(AutoModel, folder, **TRUNKS[config.model_type])
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
    config = AutoConfig.from_pretrained(folder)
    ranker = Ranker(AutoModel.from_config(config, **TRUNKS[config.model_type]))
    ranker.load_state_dict(load_file(folder / WEIGHTS))
    return ranker
