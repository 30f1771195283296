"""Where the two weights of a text's terms come from: a model, or files that others made.

A weighting of the config says its `kind`:

- `splade`, `unicoil`, `deepimpact`: a model's checkpoint weighs documents and queries;
- `vectors`: Anserini's JSON vectors, or `ciff`: a CIFF file of impacts (`documents`), with a file
  of encoded `queries`;
- `own-terms`: those of another weighting (`of`), of a text's own terms only: what uniCOIL is to a
  model that expands.

BM25 counts the tokens that the learned weights are for: a model's word pieces, DeepImpact's words;
for files, `tokens` names a model with such word pieces, or `words`. Documents may be expanded
first (`expansion`): by questions that a docT5query checkpoint asks, or from a file of such.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from espalier.errors import EspalierError
from espalier.models.locate import locate
from espalier.sparse import ciff, vectors
from espalier.sparse.shards import Text, of_model
from espalier.sparse.words import words

MODELS = ("splade", "unicoil", "deepimpact")
FILES = ("vectors", "ciff")

WORDS = "words"
"""The tokens that are words, not a model's word pieces."""

Spec = Mapping[str, Any]
"""One weighting of the config."""


class Encoder(Protocol):
    """Frequencies and learned weights of texts."""

    def documents(self, doc_ids: Sequence[str], texts: Sequence[str]) -> list[Text]:
        """Of documents, in their order."""

    def queries(self, texts: Mapping[str, str]) -> dict[str, Text]:
        """Of queries by query_id, in their order."""


def encoder(spec: Spec) -> Encoder:
    """The encoder that a weighting describes."""
    if spec["kind"] in ("splade", "unicoil"):
        return WordPieces(spec)
    if spec["kind"] == "deepimpact":
        return Words(spec)
    return Precomputed(spec)


class WordPieces:
    """A model that weighs word pieces."""

    def __init__(self, spec: Spec) -> None:
        from espalier.sparse.splade import Splade
        from espalier.sparse.unicoil import UniCoil

        kind: Any = {"splade": Splade, "unicoil": UniCoil}[spec["kind"]]
        self.model = kind(locate(spec["model"]), spec["max_length"])

    def documents(self, doc_ids: Sequence[str], texts: Sequence[str]) -> list[Text]:
        """Of documents, in their order."""
        return self.encoded(texts, "document weights")

    def queries(self, texts: Mapping[str, str]) -> dict[str, Text]:
        """Of queries by query_id, in their order."""
        return dict(zip(texts, self.encoded(list(texts.values()), "query weights"), strict=True))

    def encoded(self, texts: Sequence[str], progress: str) -> list[Text]:
        """Of texts, in their order."""
        if not texts:  # which tokenizers refuse
            return []
        pieces = self.model.word_pieces(texts)
        learned = self.model.weights(pieces, progress)
        lexicon = self.model.lexicon
        return [of_model(*both, lexicon) for both in zip(pieces, learned, strict=True)]


class Words:
    """DeepImpact: a model that weighs words of documents; a query's words weigh 1."""

    def __init__(self, spec: Spec) -> None:
        from espalier.sparse import deepimpact

        self.model = deepimpact.DeepImpact(locate(spec["model"]), spec["max_length"])
        self.query = deepimpact.query

    def documents(self, doc_ids: Sequence[str], texts: Sequence[str]) -> list[Text]:
        """Of documents, in their order."""
        weights = self.model.weights(texts, "document weights")
        return [Text(Counter(words(t)), w) for t, w in zip(texts, weights, strict=True)]

    def queries(self, texts: Mapping[str, str]) -> dict[str, Text]:
        """Of queries by query_id, in their order."""
        return {i: Text(Counter(words(text)), self.query(text)) for i, text in texts.items()}


class Precomputed:
    """Weights from files."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.tokens = tokens_of(spec["tokens"])

    def documents(self, doc_ids: Sequence[str], texts: Sequence[str]) -> list[Text]:
        """Of documents, in their order. EspalierError when the file knows none of them."""
        path = Path(self.spec["documents"])
        found = (from_vectors if self.spec["kind"] == "vectors" else from_ciff)(path, set(doc_ids))
        if doc_ids and not found:
            raise EspalierError(
                f"{path}: has none of this slice's documents (such as '{doc_ids[0]}'); "
                "name the vectors of this collection in 'documents'"
            )
        counted = self.tokens(texts)
        return [Text(c, found.get(i, {})) for i, c in zip(doc_ids, counted, strict=True)]

    def queries(self, texts: Mapping[str, str]) -> dict[str, Text]:
        """Of queries by query_id, in their order. EspalierError when the file lacks one."""
        path = Path(self.spec["queries"])
        weights = vectors.read_queries(path)
        lacking = [query_id for query_id in texts if query_id not in weights]
        if lacking:
            raise EspalierError(
                f"{path}: lacks query '{lacking[0]}' and {len(lacking) - 1} others of the "
                "collection's; name a file with all of them in 'queries'"
            )
        counted = self.tokens(list(texts.values()))
        return {i: Text(c, weights[i]) for i, c in zip(texts, counted, strict=True)}


def tokens_of(name: str) -> Any:
    """A function from texts to the counts of their tokens: `words`, or a model's word pieces."""
    if name == WORDS:
        return lambda texts: [Counter(map(sys.intern, words(text))) for text in texts]
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(locate(name))
    return lambda texts: [Counter(map(sys.intern, tokenizer.tokenize(text))) for text in texts]


def from_vectors(path: Path, wanted: set[str]) -> dict[str, dict[str, float]]:
    """Weights of the wanted documents. EspalierError for one that occurs twice."""
    found: dict[str, dict[str, float]] = {}
    for vector in vectors.read(path):
        if vector.doc_id not in wanted:
            continue
        if vector.doc_id in found:
            raise EspalierError(f"{path}: document '{vector.doc_id}' occurs twice; keep one")
        # Interned, a term is kept once, not once for each document that it stands in.
        terms = map(sys.intern, vector.terms)
        found[vector.doc_id] = dict(zip(terms, vector.weights.tolist(), strict=True))
    return found


def from_ciff(path: Path, wanted: set[str]) -> dict[str, dict[str, float]]:
    """Impacts of the wanted documents."""
    lists = ciff.read(path)
    of_term = np.repeat(np.arange(len(lists.terms)), np.diff(lists.term_begin))
    known = np.array([doc_id in wanted for doc_id in lists.doc_ids], dtype=bool)
    kept = np.flatnonzero(known[lists.docs] & (lists.weights > 0))
    found: dict[str, dict[str, float]] = {
        lists.doc_ids[i]: {} for i in np.flatnonzero(known).tolist()
    }
    for doc, term, weight in zip(
        lists.docs[kept].tolist(), of_term[kept].tolist(), lists.weights[kept].tolist(), strict=True
    ):
        found[lists.doc_ids[doc]][lists.terms[term]] = float(weight)
    return found


def own_terms(text: Text) -> Text:
    """A text without the learned weights of terms that do not stand in it."""
    return Text(text.frequency, {t: w for t, w in text.learned.items() if t in text.frequency})


def expanded(doc_ids: Sequence[str], texts: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Each text with the questions that the files predict for it.

    EspalierError when they predict none for any.
    """
    wanted = set(doc_ids)
    questions: dict[str, str] = {}
    for path in paths:
        for doc_id, asked in vectors.read_expansions(path):
            if doc_id in wanted:
                questions[doc_id] = f"{questions.get(doc_id, '')} {asked}".strip()
    if doc_ids and not questions:
        raise EspalierError(
            f"{', '.join(map(str, paths))}: expands none of this slice's documents (such as "
            f"'{doc_ids[0]}'); name this collection's predicted queries in 'expansion'"
        )
    pairs = zip(doc_ids, texts, strict=True)
    return [f"{text} {questions.get(doc_id, '')}".strip() for doc_id, text in pairs]
