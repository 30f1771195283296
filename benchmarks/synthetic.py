"""A made-up dual-weight collection with the statistics of uniCOIL's MS MARCO passages.

Documents are drawn in chunks of their own seeds: any block size gives the same documents, and a
smaller collection is the beginning of a larger one. A document has about 66 distinct terms of a
Zipf-like vocabulary (term 0 is the most frequent), part of them from one of 500 topics, so that
its number can be chosen by what it is about. Learned weights lean to the high side and agree in
part with tf · idf (Spearman about 0.5); stop words weigh little.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

VOCABULARY = 30_000
CHUNK = 10_000
"""Documents that share a seed."""

TOPICS = 500
TOPIC_TERMS = 300
TOPICAL = 0.4
"""Share of a document's draws from its topic."""

STOP_WORDS = 100
"""The most frequent terms, in no topic."""

DRAWS = 70
"""Median of draws in a document, repeated terms counted."""

TOP = 3.0
"""Upper bound of learned weights, of documents and of queries."""

QUERIES = 50
"""Queries from the documents of one chunk."""


class Block(NamedTuple):
    """D documents with P postings, document-major."""

    lengths: npt.NDArray[np.int64]
    """[D]: term occurrences."""
    doc_begin: npt.NDArray[np.int64]
    """[D+1]: where a document's postings begin."""
    terms: npt.NDArray[np.int32]
    """[P]: distinct and ascending within a document."""
    frequency: npt.NDArray[np.int32]
    """[P]: positive."""
    learned: npt.NDArray[np.float32]
    """[P]: positive."""


class Query(NamedTuple):
    """One query of n distinct terms."""

    terms: npt.NDArray[np.int32]
    """[n]: ascending."""
    frequency: npt.NDArray[np.int32]
    """[n]: 1."""
    learned: npt.NDArray[np.float32]
    """[n]: from 0.3 to 3."""


def collection(documents: int, seed: int, block: int = 10 * CHUNK) -> Iterator[Block]:
    """The documents in blocks of `block`, the last one smaller."""
    for first in range(0, documents, block):
        last = min(first + block, documents)
        yield joined(
            [
                part(chunk(seed, c), max(first - c * CHUNK, 0), min(last - c * CHUNK, CHUNK))
                for c in range(first // CHUNK, -(-last // CHUNK))
            ]
        )


def queries(count: int, documents: int, seed: int) -> list[Query]:
    """Queries of 5 to 15 terms of some document of `collection(documents, seed)`.

    A document's terms are drawn by learned weight · √idf: frequent words are among them, as they
    are among uniCOIL's.
    """
    result: list[Query] = []
    for group in range(-(-count // QUERIES)):
        rng = generator(seed, 2, group)
        c = int(rng.integers(-(-documents // CHUNK)))
        source = part(chunk(seed, c), 0, min(documents - c * CHUNK, CHUNK))
        for _ in range(min(QUERIES, count - len(result))):
            doc = int(rng.integers(len(source.lengths)))
            span = slice(source.doc_begin[doc], source.doc_begin[doc + 1])
            terms = source.terms[span]
            chance = source.learned[span] * np.sqrt(idf(terms) + 0.1)
            size = min(int(rng.integers(5, 16)), len(terms))
            drawn = np.sort(rng.choice(terms, size, replace=False, p=chance / chance.sum()))
            weight = np.clip(0.2 * idf(drawn) * rng.lognormal(0, 0.5, size), 0.3, TOP)
            result.append(Query(drawn, np.ones(size, np.int32), weight.astype(np.float32)))
    return result


@lru_cache(maxsize=1)
def chunk(seed: int, number: int) -> Block:
    """The `CHUNK` documents from `number` · `CHUNK` on."""
    rng = generator(seed, 1, number)
    draws = np.rint(DRAWS * rng.lognormal(0, 0.26, CHUNK)).clip(10, 250).astype(np.int64)
    docs = np.repeat(np.arange(CHUNK), draws)
    drawn = zipf(rng, len(docs), VOCABULARY, 3)
    topical = np.flatnonzero(rng.random(len(docs)) < TOPICAL)
    topic = rng.integers(TOPICS, size=CHUNK)[docs[topical]]
    drawn[topical] = topics(seed)[topic, zipf(rng, len(topical), TOPIC_TERMS, 10)]

    # Sorted by hand: ten times as fast as np.unique, which hashes.
    key = np.sort(docs * VOCABULARY + drawn)
    key = key[np.diff(key, prepend=-1) > 0]
    docs, terms = key // VOCABULARY, (key % VOCABULARY).astype(np.int32)
    frequency = rng.geometric(0.75, len(terms)).astype(np.int32)
    return Block(
        np.bincount(docs, frequency, CHUNK).astype(np.int64),
        np.searchsorted(docs, np.arange(CHUNK + 1)).astype(np.int64),
        terms,
        frequency,
        learned_weights(rng, terms, frequency),
    )


def learned_weights(
    rng: np.random.Generator, terms: npt.NDArray[np.int32], frequency: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """float32[P]: a logistic function of tf · idf and noise, centred above the middle."""
    lexical = idf(terms) * frequency / (frequency + 1.0)
    latent = 0.32 * lexical + rng.normal(0.5, 1.0, len(terms)) - 1.2 * (terms < STOP_WORDS)
    return (TOP / (1 + np.exp(-latent))).astype(np.float32)


def idf(terms: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """−ln of about the share of documents with the term, from its rank alone: about 0 to 7."""
    return np.log1p(terms / 8.0)


@lru_cache(maxsize=1)
def topics(seed: int) -> npt.NDArray[np.int64]:
    """int64[TOPICS, TOPIC_TERMS]: terms that are no stop words, frequent ones in more topics."""
    drawn = zipf(
        generator(seed, 0, 0), TOPICS * TOPIC_TERMS, VOCABULARY - STOP_WORDS, 10 * STOP_WORDS
    )
    return STOP_WORDS + drawn.reshape(TOPICS, TOPIC_TERMS)


def zipf(rng: np.random.Generator, count: int, ranks: int, offset: int) -> npt.NDArray[np.int64]:
    """int64[count] from 0 … ranks − 1, rank r about as likely as 1 / (r + offset)."""
    drawn = offset * (1 + ranks / offset) ** rng.random(count) - offset
    return drawn.astype(np.int64).clip(0, ranks - 1)


def generator(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Numbers that depend on all three arguments and on nothing drawn before."""
    return np.random.default_rng([seed, purpose, number])


def part(block: Block, first: int, last: int) -> Block:
    """Documents [first, last) of a block."""
    begin = block.doc_begin[first : last + 1]
    span = slice(begin[0], begin[-1])
    return Block(
        block.lengths[first:last], begin - begin[0], block.terms[span], block.frequency[span],
        block.learned[span],
    )  # fmt: skip


def joined(blocks: list[Block]) -> Block:
    """The documents of all blocks."""
    counts = np.concatenate([np.diff(block.doc_begin) for block in blocks])
    return Block(
        np.concatenate([block.lengths for block in blocks]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([block.terms for block in blocks]),
        np.concatenate([block.frequency for block in blocks]),
        np.concatenate([block.learned for block in blocks]),
    )
