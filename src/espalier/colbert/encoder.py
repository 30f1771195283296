"""A late-interaction encoder: a BERT trunk, a projection without bias, unit vectors.

One embedding per token, for queries and documents alike (ColBERT: Khattab and Zaharia, SIGIR
2020, section 3.2). A query's masks receive embeddings, but nothing attends to them, as in the
first version of ColBERT.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize
from tqdm import tqdm
from transformers import AutoConfig, AutoTokenizer, BertModel

from espalier.colbert.tokens import Layout
from espalier.errors import EspalierError
from espalier.models.devices import device
from espalier.text.batching import by_length

BATCH_TOKENS = 1024
"""Padded tokens in one batch of documents: larger ones fall out of a core's cache."""

BATCH_QUERIES = 32

PROJECTION = "projection.safetensors"
DESCRIPTION = "encoder.json"


class Encoder(torch.nn.Module):
    """Token ids to unit vectors."""

    def __init__(self, trunk: BertModel, dimensions: int, layout: Layout) -> None:
        super().__init__()
        self.trunk: Any = trunk
        self.layout = layout
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
        return self.forward(tokens, tokens != self.layout.mask)

    def of_docs(self, docs: Sequence[NDArray[np.int64]]) -> torch.Tensor:
        """float32[docs, longest, dimensions] of `Layout.docs`; what follows a document is void."""
        tokens = torch.from_numpy(self.layout.padded(docs)).to(device())
        return self.forward(tokens, tokens != self.layout.pad)

    @torch.inference_mode()
    def encode(self, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        """`of_queries` for search: an array, without gradients."""
        blocks = range(0, len(queries), BATCH_QUERIES)
        return np.concatenate(
            [
                np.empty((0, queries.shape[1], self.dimensions), dtype=np.float32),
                *(self.of_queries(queries[i : i + BATCH_QUERIES]).cpu().numpy() for i in blocks),
            ]
        )

    @torch.inference_mode()
    def encode_docs(
        self, docs: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """The index of each document that has tokens, and float16[kept tokens, dimensions].

        Documents come by length, not in the order given: sorting spares most of the padding.
        """
        some = [i for i, ids in enumerate(docs) if len(ids)]
        with tqdm(total=len(some), desc="encode", unit="doc", mininterval=2) as bar:
            for batch in by_length([len(docs[i]) for i in some], BATCH_TOKENS):
                numbers = [some[i] for i in batch]
                embeddings = self.of_docs([docs[i] for i in numbers]).half().cpu().numpy()
                for i, row in zip(numbers, embeddings, strict=True):
                    yield i, row[: len(docs[i])][self.layout.kept(docs[i])]
                bar.update(len(batch))


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
    """Trunk and tokenizer of `folder` under a random projection, on the device."""
    config = AutoConfig.from_pretrained(folder)
    if config.model_type != "bert":
        raise EspalierError(f"models.encoder: {folder} is a {config.model_type}; name a BERT model")
    config.num_hidden_layers = min(layers, config.num_hidden_layers)
    trunk = BertModel.from_pretrained(
        folder, config=config, add_pooling_layer=False, use_safetensors=True
    )
    tokens = Layout(AutoTokenizer.from_pretrained(folder), **layout)
    return Encoder(trunk, dimensions, tokens).to(device()).eval()


def save(folder: Path, encoder: Encoder) -> None:
    """Write trunk and tokenizer as transformers does, the projection and the layout beside."""
    encoder.trunk.save_pretrained(folder)
    layout = encoder.layout
    layout.tokenizer.save_pretrained(folder)
    weight = encoder.projection.weight.detach().cpu().contiguous()
    save_file({"weight": weight}, folder / PROJECTION)
    described = {
        "layers": encoder.trunk.config.num_hidden_layers,
        "dimensions": encoder.dimensions,
        "query_length": layout.query_length,
        "doc_maxlen": layout.doc_maxlen,
        "drop_punctuation": layout.drop_punctuation,
    }
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")


def load(folder: Path) -> Encoder:
    """The encoder that `save` wrote, on the device, for inference."""
    encoder = assembled(folder, **json.loads((folder / DESCRIPTION).read_text()))
    encoder.projection.load_state_dict(load_file(folder / PROJECTION))
    return encoder
