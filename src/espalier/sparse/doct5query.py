"""docT5query: questions that a document may answer, sampled from T5, to be appended to it.

Sampling from the 10 likeliest tokens (Nogueira and Lin, From doc2query to docTTTTTquery, 2019).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, T5ForConditionalGeneration

from espalier.errors import EspalierError
from espalier.models import pretrained
from espalier.models.devices import device
from espalier.sparse.unicoil import safe

TOP_K = 10

INPUT_TOKENS = 512
"""A document's tokens with </s>; longer ones lose their end."""


class DocT5Query:
    """A docT5query model, its tokenizer, and how to sample from it."""

    def __init__(self, folder: Path, samples: int, max_new_tokens: int, seed: int) -> None:
        safe(folder)
        config = AutoConfig.from_pretrained(folder)
        if config.model_type != "t5":
            raise EspalierError(
                f"{folder / 'config.json'}: model_type is {config.model_type}; name a T5 model"
            )
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model = pretrained.load(T5ForConditionalGeneration, folder)
        self.model: Any = model.to(device()).eval()
        # In place of what the folder may say: it would fill in whatever is not said here.
        self.model.generation_config = GenerationConfig(
            do_sample=True,
            top_k=TOP_K,
            num_return_sequences=samples,
            max_new_tokens=max_new_tokens,
            decoder_start_token_id=config.decoder_start_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
        )
        self.seed = seed

    @torch.inference_mode()
    def expansions(self, texts: Sequence[str], first: int, progress: str) -> list[list[str]]:
        """`samples` questions for each document.

        `texts[i]` is document number `first + i` of the collection. Its questions depend on
        nothing but the text, that number and the seed, so any cut into shards gives the same:
        each document has a generator of its own, and the batch is its samples, since padding or
        company would change the last bits of its probabilities. torch's generators are left as
        they were.
        """
        results = []
        forked = [device()] if device().type == "cuda" else []
        with torch.random.fork_rng(devices=forked):
            for i, text in enumerate(
                tqdm(texts, desc=progress, unit="document", mininterval=2), start=first
            ):
                # Hashed, so that seed 1 for one document is not seed 0 for the next.
                state = np.random.SeedSequence([self.seed, i]).generate_state(1, np.uint64)
                torch.manual_seed(int(state[0]))
                encoded = self.tokenizer(
                    text, truncation=True, max_length=INPUT_TOKENS, return_tensors="pt"
                ).to(device())
                ids = self.model.generate(
                    input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]
                )
                questions = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
                results.append([question.strip() for question in questions])
        return results
