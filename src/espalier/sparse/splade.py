"""SPLADE weights: a masked-language-model head over a text, pooled by max, saturated by log.

w_t = max over positions i of log(1 + ReLU(logit_{i,t})) (Formal et al., SPLADE v2,
arXiv 2109.10086, equation 6).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm
from transformers import AutoModelForMaskedLM, AutoTokenizer

from espalier.models import pretrained
from espalier.models.devices import device
from espalier.sparse.shards import Sparse
from espalier.text.batching import in_blocks

BATCH_TOKENS = 4096
"""Padded tokens in one batch of the trunk."""

SLICE = 2048
"""Terms of the vocabulary that are scored at once: the slice's logits stay in the cache, which
makes pooling twice as fast as over whole rows of logits."""


class Splade:
    """A SPLADE model and its tokenizer."""

    def __init__(self, folder: Path, max_length: int) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model = pretrained.load(AutoModelForMaskedLM, folder)
        self.model: Any = model.to(device()).eval()
        head = self.model.get_output_embeddings()
        self.terms: torch.Tensor = head.weight.detach()
        self.bias: torch.Tensor = head.bias.detach()
        # The model then gives the vectors that the vocabulary is scored with.
        unscored = torch.nn.Identity()
        unscored.bias = None  # type: ignore[assignment]  # BERT's head shares its bias
        self.model.set_output_embeddings(unscored)
        self.max_length = max_length

    @property
    def lexicon(self) -> list[str]:
        """Word piece of each vocabulary id."""
        pieces: list[str] = self.tokenizer.convert_ids_to_tokens(list(range(len(self.terms))))
        return pieces

    def word_pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of whole texts, special tokens left out."""
        encoded = self.tokenizer(
            list(texts), add_special_tokens=False, truncation=False, verbose=False
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def weights(self, pieces: Sequence[Sequence[int]], progress: str) -> list[Sparse]:
        """Weights of texts given as word pieces, cut at `max_length` with special tokens."""
        room = self.max_length - 2
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        inputs = [[start, *text[:room], end] for text in pieces]
        results: list[Sparse | None] = [None] * len(inputs)
        with tqdm(total=len(inputs), desc=progress, unit="text", mininterval=2) as bar:
            for batch in in_blocks([len(text) for text in inputs], BATCH_TOKENS):
                pooled = self.pool([inputs[i] for i in batch])
                for i, row in zip(batch, pooled, strict=True):
                    terms = np.flatnonzero(row > 0).astype(np.int32)
                    results[i] = (terms, row[terms])
                bar.update(len(batch))
        return [result for result in results if result is not None]

    @torch.inference_mode()
    def pool(self, inputs: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """float32[texts, vocabulary] of a batch of token id lists."""
        longest = max(map(len, inputs))
        ids = torch.full((len(inputs), longest), self.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(inputs):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        ids, mask = ids.to(device()), mask.to(device())
        vectors = self.model(input_ids=ids, attention_mask=mask).logits
        pooled = torch.empty(len(inputs), len(self.terms), device=vectors.device)
        for row, text in enumerate(inputs):
            columns = vectors[row, : len(text)].T.contiguous()
            for first in range(0, len(self.terms), SLICE):
                part = slice(first, first + SLICE)
                torch.amax(self.terms[part] @ columns, dim=1, out=pooled[row, part])
        # ReLU and log grow with the logit, so they may follow the maximum: once per term.
        weights: npt.NDArray[np.float32] = (pooled + self.bias).relu().log1p().cpu().numpy()
        return weights
