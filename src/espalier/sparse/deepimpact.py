"""DeepImpact: one impact for each distinct word of an expanded document.

A word's impact is that of the first word piece of its first occurrence: two layers, each with
ReLU, over BERT's vector there (Mallia, Khattab, Suel, Tonellotto: Learning Passage Impacts for
Inverted Indexes, SIGIR 2021, arXiv 2104.12016). A query is the set of its words: a document's
score is the sum of their impacts.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from espalier.sparse.unicoil import Trunk, checkpoint, linear
from espalier.sparse.words import words


class DeepImpact:
    """A DeepImpact model and its tokenizer.

    The layers stand in a sequence of linear, ReLU, dropout, linear, ReLU, so the linear ones have
    the numbers 0 and 3 in the published checkpoint.
    """

    def __init__(self, folder: Path, max_length: int) -> None:
        tensors = checkpoint(folder)
        self.trunk = Trunk(folder, tensors, max_length)
        hidden = self.trunk.hidden
        self.layers = torch.nn.Sequential(
            linear(folder, tensors, "impact_score_encoder.0", hidden, hidden),
            torch.nn.ReLU(),
            linear(folder, tensors, "impact_score_encoder.3", hidden, 1),
            torch.nn.ReLU(),
        )

    @torch.inference_mode()
    def weights(self, texts: Sequence[str], progress: str) -> list[dict[str, float]]:
        """Positive impacts of each document's words, in the order in which they first occur.

        BERT reads the words alone, without the punctuation between them, cut at `max_length`
        word pieces with special tokens; words beyond have no impact.
        """
        found = [self.pieces(words(text)) for text in texts]
        results: dict[int, dict[str, float]] = {}
        for batch, vectors in self.trunk.batches([ids for ids, _ in found], progress):
            impacts = self.layers(vectors).squeeze(-1).tolist()
            for i, row in zip(batch, impacts, strict=True):
                results[i] = {word: row[at] for word, at in found[i][1].items() if row[at] > 0}
        return [results[i] for i in range(len(texts))]

    def pieces(self, text: Sequence[str]) -> tuple[list[int], dict[str, int]]:
        """Token ids of a document's words, and the position at which each word first begins."""
        encoded = self.trunk.tokenizer(
            list(text), is_split_into_words=True, truncation=True, max_length=self.trunk.max_length
        )
        first: dict[str, int] = {}
        for position, word in enumerate(encoded.word_ids()):
            if word is not None:
                first.setdefault(text[word], position)
        return encoded["input_ids"], first


def query(text: str) -> dict[str, float]:
    """A query's words with weight 1, repeated ones merged."""
    return dict.fromkeys(words(text), 1.0)
