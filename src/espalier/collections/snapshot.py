"""Taking a snapshot: which queries an experiment uses, their judgments, and what the docs are."""

import hashlib
import heapq
import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_datasets
import numpy as np
from tqdm import tqdm

from espalier.collections import access, alignment
from espalier.collections.access import Doc, Judgment, Query
from espalier.collections.pydocs import manifest_of
from espalier.errors import EspalierError

log = logging.getLogger("espalier")


def take(folder: Path, view: Mapping[str, Any], seed: int) -> dict[str, int | float]:
    """Write the View folder of one view's config.

    It has `docs`, `splits`, and maybe `max_queries`, `max_docs`, `query_field` and `passages`.
    Returns counts: documents, those that the sample leaves out, and for each split its queries,
    those left out because nothing is judged relevant to them, those that the sample leaves out,
    and its judgments; with `passages`, how many stand in documents. Raises EspalierError for ids
    that occur twice or hold white space, and for empty queries.
    """
    folder.mkdir(parents=True)
    counts: dict[str, int | float] = {}
    chosen: dict[str, list[Query]] = {}
    judged: dict[str, list[Judgment]] = {}
    splits = {}
    for split, dataset_id in view["splits"].items():
        queries = checked(dataset_id, access.queries(dataset_id, view.get("query_field")))
        judgments = list(access.qrels(dataset_id))
        relevant = {judgment.query_id for judgment in judgments if judgment.relevance > 0}
        answerable = [query for query in queries if query.query_id in relevant]
        if not answerable:
            raise EspalierError(
                f"collection '{dataset_id}': no query has a document judged relevant; name another "
                f"subset for split '{split}'"
            )
        size = view.get("max_queries", {}).get(split, len(answerable))
        chosen[split] = sample(answerable, size, seed)
        kept = {query.query_id for query in chosen[split]}
        judged[split] = [judgment for judgment in judgments if judgment.query_id in kept]
        splits[split] = {
            "id": dataset_id,
            "queries": len(kept),
            "unanswerable": len(queries) - len(answerable),
            "not_sampled": len(answerable) - len(kept),
        }
        counts |= {
            f"{split}_queries": len(kept),
            f"{split}_queries_unanswerable": len(queries) - len(answerable),
            f"{split}_queries_not_sampled": len(answerable) - len(kept),
            f"{split}_qrels": len(judged[split]),
        }
    docs_count, docs_sha256 = fingerprint(view["docs"])
    counts["documents_not_sampled"] = 0
    if "max_docs" in view:
        relevant = {j.doc_id for rows in judged.values() for j in rows if j.relevance > 0}
        kept = sample_docs(folder, view["docs"], view["max_docs"], relevant, seed)
        judged = {s: [j for j in rows if j.doc_id in kept] for s, rows in judged.items()}
        counts["documents_not_sampled"] = docs_count - len(kept)
        docs_count = len(kept)
    if "passages" in view:
        for split, found in align(folder, view, judged).items():
            counts |= found.counts(split)
            splits[split]["passages"] = {
                "of_all_queries": found.everywhere,
                "relevant": len(found.passages),
                "aligned": len(found.found),
            }
    for split, judgments in judged.items():
        write_split(folder, split, chosen[split], judgments)
        splits[split]["qrels"] = len(judgments)
    manifest = {
        "docs": view["docs"],
        "docs_count": docs_count,
        "docs_sha256": docs_sha256,
        "splits": splits,
        "seed": seed,
        "max_queries": view.get("max_queries", {}),
        "max_docs": view.get("max_docs"),
        "ir_datasets": ir_datasets.__version__,
        "built_in": manifest_of(view["docs"]),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return {"documents": docs_count, **counts}


def checked(dataset_id: str, queries: Iterable[Query]) -> list[Query]:
    """The queries, each with a text and an id of its own."""
    found: dict[str, Query] = {}
    for query in queries:
        if not query.text:
            raise EspalierError(f"collection '{dataset_id}': query '{query.query_id}' has no text")
        if query.query_id in found:
            raise EspalierError(f"collection '{dataset_id}': query_id '{query.query_id}' twice")
        check_id(dataset_id, "query_id", query.query_id)
        found[query.query_id] = query
    return list(found.values())


def check_id(dataset_id: str, kind: str, name: str) -> None:
    """TREC's formats part fields by white space, so that no id may be empty or hold any."""
    if len(name.split()) != 1 or name != name.strip():
        raise EspalierError(f"collection '{dataset_id}': {kind} '{name}' is empty or holds space")


def sample(queries: Sequence[Query], size: int, seed: int) -> list[Query]:
    """A seeded sample in the collection's order; a larger one contains every smaller one."""
    digests = {
        query.query_id: hashlib.sha256(f"{seed}\t{query.query_id}".encode()).digest()
        for query in queries
    }
    kept = set(sorted(digests, key=digests.__getitem__)[:size])
    return [query for query in queries if query.query_id in kept]


def sample_docs(
    folder: Path, dataset_id: str, size: int, needed: Collection[str], seed: int
) -> set[str]:
    """Write a seeded sample of the documents to `docs.jsonl`, in the collection's order; its ids.

    The documents `needed` are in it, however many; a larger sample contains every smaller one.
    """

    def rank(doc_id: str) -> tuple[bool, bytes]:
        return doc_id not in needed, hashlib.sha256(f"{seed}\t{doc_id}".encode()).digest()

    doc_ids = (doc.doc_id for doc in access.docs(dataset_id))
    chosen = set(heapq.nsmallest(max(size, len(needed)), doc_ids, key=rank))
    with (folder / "docs.jsonl").open("w", encoding="utf-8") as stream:
        for doc in access.docs(dataset_id):
            if doc.doc_id in chosen:
                stream.write(json.dumps(doc) + "\n")
    return chosen


def write_split(
    folder: Path, split: str, queries: Sequence[Query], judgments: Sequence[Judgment]
) -> None:
    """Write one split's queries, judgments and, where the collection has them, gold spans."""
    with (folder / f"{split}.queries.tsv").open("w", encoding="utf-8") as stream:
        stream.writelines(f"{query.query_id}\t{query.text}\n" for query in queries)
    with (folder / f"{split}.qrels").open("w", encoding="utf-8") as stream:
        stream.writelines(f"{j.query_id} 0 {j.doc_id} {j.relevance}\n" for j in judgments)
    write_spans(folder, split, {(j.query_id, j.doc_id): j.spans for j in judgments if j.spans})


def write_spans(
    folder: Path, split: str, spans: Mapping[tuple[str, str], Sequence[tuple[int, int]]]
) -> None:
    """Write gold spans by (query_id, doc_id), where there are any."""
    if spans:
        with (folder / f"{split}.spans.tsv").open("w", encoding="utf-8") as stream:
            for (query_id, doc_id), places in spans.items():
                stream.writelines(f"{query_id}\t{doc_id}\t{s}\t{e}\n" for s, e in places)


def align(
    folder: Path, view: Mapping[str, Any], judged: Mapping[str, Sequence[Judgment]]
) -> dict[str, alignment.Alignment]:
    """Write the gold spans that relevant passages give; returns what was there and found."""
    alignments = {}
    for split, dataset_id in view["passages"]["splits"].items():
        level = view["passages"].get("relevance", {}).get(split, 1)
        alignments[split] = alignment.relevant(access.qrels(dataset_id), judged[split], level)
    passages = tqdm(access.docs(view["passages"]["docs"]), desc="passages", mininterval=2)
    documents = tqdm(access.docs(view["docs"]), desc="their documents", mininterval=2)
    alignment.align(alignments, passages, documents)
    for split, found in alignments.items():
        order = [(j.query_id, j.doc_id) for j in judged[split]]
        write_spans(folder, split, {p: found.places[p] for p in order if p in found.places})
        log.info(
            "%s: %d of %d relevant passages stand in a relevant document (%.1f%%)",
            split, len(found.found), len(found.passages), 100 * found.share,
        )  # fmt: skip
    return alignments


def fingerprint(dataset_id: str) -> tuple[int, str]:
    """Number of documents, and SHA-256 over `doc_id TAB title TAB text NEWLINE` of each."""
    digest = hashlib.sha256()
    hashes = bytearray()
    for doc in tqdm(access.docs(dataset_id), desc=dataset_id, unit="doc", mininterval=2):
        check_id(dataset_id, "doc_id", doc.doc_id)
        digest.update("\t".join(doc).encode(errors="surrogatepass") + b"\n")
        hashes += hashlib.blake2b(doc.doc_id.encode(), digest_size=8).digest()
    values, times = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_counts=True)
    if len(values) < times.sum():
        refuse_repeated(dataset_id, access.docs(dataset_id))
    return int(times.sum()), digest.hexdigest()


def refuse_repeated(dataset_id: str, docs: Iterable[Doc]) -> None:
    """EspalierError for the first doc_id that occurs twice."""
    seen: set[str] = set()
    for doc in docs:
        if doc.doc_id in seen:
            raise EspalierError(
                f"collection '{dataset_id}': doc_id '{doc.doc_id}' twice; judgments and runs "
                "cannot tell the two apart"
            )
        seen.add(doc.doc_id)
