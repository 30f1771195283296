"""uniCOIL weights: one number per position of a text, pooled by max over a term's positions.

w_t = max over the positions i of term t of ReLU(w · h_i + b), with BERT's vectors h (Lin and Ma,
A Few Brief Notes on DeepImpact, COIL, and a Conceptual Framework for Information Retrieval
Techniques, arXiv 2106.14807). Only terms of the text have a weight, so what a text should be
found by beyond its words must be appended to it first (doct5query.py).

The trunk and the reading of its checkpoint are here too, for DeepImpact to share.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tqdm import tqdm
from transformers import AutoConfig, AutoTokenizer, BertModel

from espalier.errors import EspalierError
from espalier.models.devices import device
from espalier.models.locate import WEIGHTS
from espalier.sparse.shards import Sparse
from espalier.text.batching import in_blocks

BATCH_TOKENS = 4096
"""Padded tokens in one batch of the trunk."""

PICKLED = "pytorch_model.bin"

CONVERT = (
    'python -c "import torch, safetensors.torch as s; '
    f"t = torch.load('{PICKLED}', weights_only=True); "
    "s.save_file({k: v.clone().contiguous() for k, v in t.items()}, "
    f"'{WEIGHTS}', {{'format': 'pt'}})\""
)
"""Command that converts a checkpoint in its folder; clones, as safetensors refuses shared ones."""

Tensors = Mapping[str, torch.Tensor]


class UniCoil:
    """A uniCOIL model and its tokenizer, such as castorini/unicoil-msmarco-passage."""

    def __init__(self, folder: Path, max_length: int) -> None:
        tensors = checkpoint(folder)
        # Pyserini's class writes all names with this prefix, other trainers without.
        tensors = {name.removeprefix("coil_encoder."): value for name, value in tensors.items()}
        self.trunk = Trunk(folder, tensors, max_length)
        self.projection = linear(folder, tensors, "tok_proj", self.trunk.hidden, 1)

    @property
    def lexicon(self) -> list[str]:
        """Word piece of each vocabulary id."""
        tokenizer = self.trunk.tokenizer
        pieces: list[str] = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        return pieces

    def word_pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of whole texts, special tokens left out."""
        if not texts:
            return []
        encoded = self.trunk.tokenizer(
            list(texts), add_special_tokens=False, truncation=False, verbose=False
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    @torch.inference_mode()
    def weights(self, pieces: Sequence[Sequence[int]], progress: str) -> list[Sparse]:
        """Weights of texts given as word pieces, cut at `max_length` with special tokens.

        [CLS] and [SEP] have none. Pyserini's encoder gives [SEP] one, and in queries adds the
        weights of a repeated word piece up; here queries are pooled as documents are.
        """
        room = self.trunk.max_length - 2
        tokenizer = self.trunk.tokenizer
        special = [tokenizer.cls_token_id, tokenizer.sep_token_id]
        inputs = [[special[0], *text[:room], special[1]] for text in pieces]
        results: dict[int, Sparse] = {}
        for batch, vectors in self.trunk.batches(inputs, progress):
            impacts = self.projection(vectors).squeeze(-1).relu().cpu().numpy()
            for i, row in zip(batch, impacts, strict=True):
                ids = np.array(inputs[i], dtype=np.int32)
                results[i] = pooled(ids, row[: len(ids)], special)
        return [results[i] for i in range(len(inputs))]


def pooled(
    ids: npt.NDArray[np.int32], impacts: npt.NDArray[np.float32], left_out: Sequence[int]
) -> Sparse:
    """Largest impact of each id in a text, positive ones only, without the ids `left_out`.

    `ids` int32[n] and `impacts` float32[n] are those of the text's positions.
    """
    kept = (impacts > 0) & ~np.isin(ids, left_out)
    terms, place = np.unique(ids[kept], return_inverse=True)
    weights = np.zeros(len(terms), dtype=np.float32)
    np.maximum.at(weights, place, impacts[kept])
    return terms, weights


class Trunk:
    """The BERT model whose tensors are named `bert.…` in a checkpoint, and its tokenizer."""

    def __init__(self, folder: Path, tensors: Tensors, max_length: int) -> None:
        config = AutoConfig.from_pretrained(folder)
        if config.model_type != "bert":
            raise EspalierError(
                f"{folder / 'config.json'}: model_type is {config.model_type}; name a BERT model"
            )
        if not 2 < max_length <= config.max_position_embeddings:
            raise EspalierError(
                f"max_length {max_length}: {folder} takes 3 to "
                f"{config.max_position_embeddings} tokens; set max_length in that range"
            )
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.max_length = max_length
        self.hidden: int = config.hidden_size
        model = BertModel(config, add_pooling_layer=False)
        own = {name: present(folder, tensors, f"bert.{name}") for name in model.state_dict()}
        model.load_state_dict(own)
        self.model: Any = model.to(device()).eval()

    @torch.inference_mode()
    def batches(
        self, inputs: Sequence[Sequence[int]], progress: str
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Vectors of token id lists in batches of about one length.

        Yields the inputs' numbers and float32[inputs, longest, hidden]; what follows an input's
        own length is void.
        """
        with tqdm(total=len(inputs), desc=progress, unit="text", mininterval=2) as bar:
            for batch in in_blocks([len(text) for text in inputs], BATCH_TOKENS):
                longest = max(len(inputs[i]) for i in batch)
                ids = torch.full((len(batch), longest), self.tokenizer.pad_token_id)
                mask = torch.zeros_like(ids)
                for row, i in enumerate(batch):
                    ids[row, : len(inputs[i])] = torch.tensor(inputs[i])
                    mask[row, : len(inputs[i])] = 1
                ids, mask = ids.to(device()), mask.to(device())
                yield batch, self.model(input_ids=ids, attention_mask=mask).last_hidden_state
                bar.update(len(batch))


def safe(folder: Path) -> Path:
    """The safetensors file of a model's folder; EspalierError where there is none."""
    path = folder / WEIGHTS
    if not path.is_file():
        if (folder / PICKLED).is_file():
            raise EspalierError(
                f"{folder / PICKLED}: not read, since loading it unpickles; write {WEIGHTS} "
                f"beside it by running in that folder: {CONVERT}"
            )
        raise EspalierError(f"{path}: missing; put the model's safetensors there")
    return path


def checkpoint(folder: Path) -> Tensors:
    """The tensors of a model's folder by name."""
    tensors: Tensors = load_file(safe(folder))
    return tensors


def present(folder: Path, tensors: Tensors, name: str) -> torch.Tensor:
    """A tensor as float32; EspalierError that names folder and tensor where there is none."""
    if name not in tensors:
        raise EspalierError(
            f"{folder / WEIGHTS}: tensor {name} is missing; name a checkpoint of this model"
        )
    return tensors[name].float()


def linear(folder: Path, tensors: Tensors, name: str, inputs: int, outputs: int) -> torch.nn.Linear:
    """The layer `name` of a checkpoint, on the device; EspalierError for any other shape."""
    layer = torch.nn.Linear(inputs, outputs)
    own = {part: present(folder, tensors, f"{name}.{part}") for part in layer.state_dict()}
    for part, expected in layer.state_dict().items():
        if own[part].shape != expected.shape:
            raise EspalierError(
                f"{folder / WEIGHTS}: tensor {name}.{part} is {list(own[part].shape)} and not "
                f"{list(expected.shape)}; name a checkpoint of this model"
            )
    layer.load_state_dict(own)
    return layer.to(device()).eval()
