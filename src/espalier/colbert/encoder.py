"""A late-interaction encoder: a BERT trunk, a projection without bias, unit vectors.

One embedding per token, for queries and documents alike (ColBERT: Khattab and Zaharia, SIGIR
2020, section 3.2). A query's masks receive embeddings, but nothing attends to them, as in the
first version of ColBERT, unless a checkpoint says that it was trained otherwise.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize
from tqdm import tqdm
from transformers import AutoConfig, AutoTokenizer, BertModel

from espalier.colbert import checkpoints
from espalier.colbert.tokens import Layout
from espalier.errors import EspalierError
from espalier.models import pretrained
from espalier.models.devices import device
from espalier.text.batching import in_blocks

log = logging.getLogger("espalier")

BATCH_TOKENS = 1024
"""Padded tokens in one batch of documents: larger ones fall out of a core's cache."""

PROJECTION = "projection.safetensors"
DESCRIPTION = "encoder.json"


class Encoder(torch.nn.Module):
    """Token ids to unit vectors."""

    def __init__(self, trunk: BertModel, dimensions: int, layout: Layout) -> None:
        super().__init__()
        self.trunk: Any = trunk
        self.layout = layout
        self.queries_at_once = 32
        self.projection = torch.nn.Linear(trunk.config.hidden_size, dimensions, bias=False)
        torch.nn.init.orthogonal_(self.projection.weight)

    @property
    def dimensions(self) -> int:
        """Length of an embedding."""
        return self.projection.out_features

    def forward(self, ids: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Unit vectors float32[n, length, dimensions] of int64[n, length]; bool `attended`."""
        hidden = self.trunk(input_ids=ids, attention_mask=attended.long()).last_hidden_state
        embeddings: torch.Tensor = normalize(self.projection(hidden), dim=-1)
        return embeddings

    def of_queries(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """float32[queries, query_length, dimensions] of `Layout.queries`."""
        tokens = torch.from_numpy(ids).to(device())
        attended = torch.ones_like(tokens, dtype=torch.bool)
        if not self.layout.attend_to_masks:
            attended = tokens != self.layout.mask
        return self.forward(tokens, attended)

    def of_docs(self, docs: Sequence[NDArray[np.int64]]) -> torch.Tensor:
        """float32[docs, longest, dimensions] of `Layout.docs`; what follows a document is void."""
        tokens = torch.from_numpy(self.layout.padded(docs)).to(device())
        return self.forward(tokens, tokens != self.layout.pad)

    @torch.inference_mode()
    def encode(self, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        """`of_queries` for search: an array, without gradients."""
        size = self.queries_at_once
        return np.concatenate(
            [
                np.empty((0, queries.shape[1], self.dimensions), dtype=np.float32),
                *(
                    self.of_queries(queries[i : i + size]).cpu().numpy()
                    for i in range(0, len(queries), size)
                ),
            ]
        )

    @torch.inference_mode()
    def encode_docs(
        self, docs: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """The index of each document that has tokens, and float16[kept tokens, dimensions].

        Documents come by length, not in the order given: sorting spares most of the padding.
        """
        with tqdm(total=len(docs), desc="encode", unit="doc", mininterval=2) as bar:
            for batch in in_blocks([len(ids) for ids in docs], BATCH_TOKENS):
                embeddings = self.of_docs([docs[i] for i in batch]).half().cpu().numpy()
                for i, row in zip(batch, embeddings, strict=True):
                    yield i, row[: len(docs[i])][self.layout.kept(docs[i])]
                bar.update(len(batch))


def from_folder(
    folder: Path, *, trained: bool, layers: int, dimensions: int, **layout: Any
) -> Encoder:
    """The encoder to start from, by what `folder` holds: `new`, or a published checkpoint.

    A checkpoint is taken whole, so `layers` and `dimensions` must suit it, and what it says of
    its input format (see `checkpoints`) replaces that of `layout`, the arguments of `Layout`: it
    was trained so. `trained` says whether training follows; EspalierError where it must.
    """
    found = checkpoints.read(folder)
    checkpoints.check(found, trained=trained, layers=layers, dimensions=dimensions)
    if found.projection is None:
        return new(found.trunk, layers=layers, dimensions=dimensions, **layout)
    for key, value in found.layout.items():
        if layout.get(key, value) != value:
            log.warning(
                "colbert.encoder.%s: %s in the config, but %s in the checkpoint %s, which is used",
                *(key, layout[key], value, folder),
            )
    encoder = assembled(
        found.trunk, layers=layers, dimensions=dimensions, **{**layout, **found.layout}
    )
    weight = load_file(found.projection)[checkpoints.WEIGHT]
    encoder.projection.load_state_dict({"weight": weight})
    return encoder


def new(folder: Path, *, layers: int, dimensions: int, **layout: Any) -> Encoder:
    """An untrained encoder: the first `layers` layers of the BERT model in `folder`.

    The projection starts orthogonal, so that it keeps what angles it can; torch's seed decides.
    [MASK] starts as [CLS], whose embedding is much the same in every text: masks then neither
    help nor harm, until training teaches them. As BERT has them they outvote the word pieces.
    `layout` holds the arguments of `Layout`.
    """
    encoder = assembled(folder, layers=layers, dimensions=dimensions, **layout)
    words = encoder.trunk.get_input_embeddings().weight.data
    words[encoder.layout.mask] = words[encoder.layout.cls]
    return encoder


def assembled(folder: Path, *, layers: int, dimensions: int, **layout: Any) -> Encoder:
    """Trunk and tokenizer of `folder` under a random projection, on the device.

    EspalierError when the folder lacks one of the trunk's tensors or has another shape.
    """
    config = AutoConfig.from_pretrained(folder)
    if config.model_type != "bert":
        raise EspalierError(f"models.encoder: {folder} is a {config.model_type}; name a BERT model")
    config.num_hidden_layers = min(layers, config.num_hidden_layers)
    trunk = pretrained.load(
        BertModel,
        folder,
        config=config,
        add_pooling_layer=False,
        dtype=torch.float32,  # whatever the weights were kept as
    )
    tokens = Layout(AutoTokenizer.from_pretrained(folder), **layout)
    longest = max(tokens.query_length, tokens.doc_maxlen)
    if longest > config.max_position_embeddings:
        raise EspalierError(
            f"models.encoder: {folder} takes {config.max_position_embeddings} tokens, not "
            f"{longest}; lower colbert.encoder.query_length or doc_maxlen, or the checkpoint's own"
        )
    return Encoder(trunk, dimensions, tokens).to(device()).eval()


def with_int8(encoder: Encoder) -> Encoder:
    """A copy for search that is faster on a CPU: feed-forward layers multiply 8-bit integers.

    Weights are rounded row by row, what they are multiplied with as it comes. Attention stays in
    single precision: rounded, too, it is faster still, but quality is no longer surely the same.
    EspalierError on a GPU, for which there are no such kernels; ValueError as `as_trained` says.
    """
    as_trained(encoder)
    if device().type != "cpu":
        raise EspalierError(
            "config key 'colbert.retrieval.int8_queries': true, but models run on a GPU; "
            "set it to false"
        )
    copied = deepcopy(encoder)
    kinds = {torch.nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice to move to a package of its own
        for layer in copied.trunk.encoder.layer:
            for part in (layer.intermediate, layer.output):
                torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
                    part, kinds, inplace=True
                )
    copied.queries_at_once = 1  # the range that is rounded is that of all of them
    return copied


def save(folder: Path, encoder: Encoder) -> None:
    """Write trunk and tokenizer as transformers does, the projection and the layout beside.

    ValueError as `as_trained` says.
    """
    as_trained(encoder)
    encoder.trunk.save_pretrained(folder)
    layout = encoder.layout
    layout.tokenizer.save_pretrained(folder)
    weight = encoder.projection.weight.detach().cpu().contiguous()
    save_file({"weight": weight}, folder / PROJECTION)
    described = {
        "layers": encoder.trunk.config.num_hidden_layers,
        "dimensions": encoder.dimensions,
        **layout.described(),
    }
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")


def load(folder: Path, *, int8: bool = False) -> Encoder:
    """The encoder that `save` wrote, on the device; `int8`: see `with_int8`.

    For inference alone: on a CPU its layers are `Reordered`, so that it can be neither saved nor
    rounded any more.
    """
    encoder = assembled(folder, **json.loads((folder / DESCRIPTION).read_text()))
    encoder.projection.load_state_dict(load_file(folder / PROJECTION))
    if int8:
        encoder = with_int8(encoder)
    if device().type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        reorder(encoder)
    return encoder


def as_trained(encoder: Encoder) -> None:
    """ValueError for an encoder whose layers `load` has reordered: their weights cannot be read."""
    if any(isinstance(part, Reordered) for part in encoder.modules()):
        raise ValueError("the encoder was loaded for inference: its weights cannot be read")


class Reordered(torch.nn.Module):
    """A linear layer on a CPU for inference, its weight laid out beforehand as oneDNN wants it.

    Torch has MKL multiply single precision, which leaves half the speed of some processors unused.
    The results differ in rounding alone.
    """

    def __init__(self, linear: torch.nn.Linear, rows: int) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), rows)
        self.bias = linear.bias.detach()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """As of the linear layer."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self.weight, self.bias, "none", [], ""
        )
        return product


def reorder(encoder: Encoder) -> None:
    """Replace the linear layers of the trunk's layers."""
    for layer in encoder.trunk.encoder.layer:
        for part in list(layer.modules()):
            for name, child in part.named_children():
                if isinstance(child, torch.nn.Linear):
                    setattr(part, name, Reordered(child, encoder.layout.query_length))
