"""`espalier sparse …`: weights, the dual-weight index, retrieval with skipping, CIFF files."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from espalier.stage import Job, Room

log = logging.getLogger("espalier")

room = Room("sparse")

SPLIT = "test"


@room.stage(inputs=("view",), outputs=("questions",))
def expand(job: Job) -> dict[str, Any]:
    """Questions that docT5query predicts for one slice of the collection, as JSON lines."""
    import json

    from espalier.models import devices
    from espalier.models.locate import locate
    from espalier.sparse.doct5query import DocT5Query

    devices.seeded(job.seed, job.threads)
    spec = job.settings["weighting"]["expansion"]
    first, doc_ids, texts = slice_of(job)
    model = DocT5Query(locate(spec["model"]), spec["samples"], spec["max_new_tokens"], job.seed)
    asked = model.expansions(texts, first, "predicted queries")
    with job.out("questions").open("w") as stream:
        for doc_id, questions in zip(doc_ids, asked, strict=True):
            stream.write(json.dumps({"id": doc_id, "predicted_queries": questions}) + "\n")
    return {"documents": len(doc_ids), "questions": sum(map(len, asked))}


@room.stage(inputs=("view", "expansions?"), outputs=("shard",))
def encode(job: Job) -> dict[str, Any]:
    """Term frequencies and learned weights of one slice of the collection."""
    from espalier.models import devices
    from espalier.sparse import segments, shards, weightings

    devices.seeded(job.seed, job.threads)
    _, doc_ids, texts = slice_of(job)
    found: dict[str, Any] = {"documents": len(doc_ids)}
    spec = job.settings["weighting"]
    if "segments" in spec:
        path, delimiter = Path(spec["segments"]["texts"]), spec["segments"]["delimiter"]
        doc_ids, texts, counts = segments.texts_of(path, delimiter, doc_ids)
        found |= {"segments": len(doc_ids), "documents_without_segments": counts.count(0)}
    if job.paths("expansions"):
        texts = weightings.expanded(doc_ids, texts, job.paths("expansions"))
    encoded = weightings.encoder(spec).documents(doc_ids, texts)
    shard = shards.build(doc_ids, encoded)
    shards.write(job.out("shard"), shard)
    return {
        **found,
        "without_learned_weights": sum(not text.learned for text in encoded),
        "postings": len(shard.terms),
        "learned_terms_per_document": int((shard.learned > 0).sum()) / max(len(doc_ids), 1),
    }


def slice_of(job: Job) -> tuple[int, list[str], list[str]]:
    """The number of a shard's first document, its doc_ids, and their titles with their texts."""
    from espalier.collections.view import View
    from espalier.text.batching import shard

    view = View(job.path("view"))
    start, stop = shard(view.docs_count, job.settings["shard"], job.settings["shards"])
    docs = list(view.docs(start, stop))
    return start, [d.doc_id for d in docs], [f"{d.title} {d.text}".strip() for d in docs]


@room.stage(inputs=("shard",), outputs=("inverted",))
def invert(job: Job) -> dict[str, Any]:
    """One shard's postings, term by term."""
    from espalier.sparse import inverted, shards

    found = inverted.invert(shards.read(job.path("shard")))
    inverted.write(job.out("inverted"), found)
    return {"documents": len(found.doc_ids), "postings": len(found.docs)}


@room.stage(inputs=("inverted+",), outputs=("indexes", "weights"))
def index(job: Job) -> dict[str, Any]:
    """Dual-weight and single-weight indexes of all shards, and how the weights are distributed."""
    from espalier.sparse import index as dual
    from espalier.sparse import inverted, weights

    settings = job.settings
    parts = [inverted.read(path) for path in job.paths("inverted")]
    found: dict[str, Any] = {}
    for support in dual.SUPPORTS:
        folder = job.out("indexes") / support
        meta = dual.build(
            folder,
            parts,
            block_size=settings["block_size"],
            k1=settings["k1"],
            b=settings["b"],
            bits=settings["bits"],
            support=support,
            partition_by=settings["partition_by"],
            own_terms=settings["own_terms"],
            reordered=settings["reordered"],
            delimiter=settings["delimiter"],
        )
        dual.seal(folder, meta)
        size = sum(path.stat().st_size for path in folder.iterdir())
        found |= {f"{key} {support}": meta[key] for key in ("documents", "postings", "terms")}
        found[f"bytes_per_posting {support}"] = size / max(meta["postings"], 1)
    postings = dual.read(job.out("indexes") / "union").postings
    weights.distribution(postings).to_parquet(job.out("weights"), index=False)
    return found


@room.stage(inputs=("view",), outputs=("queries",))
def encode_queries(job: Job) -> dict[str, Any]:
    """Integer query weights: a term's frequency for BM25, the model's weight on the other side."""
    from espalier.collections.view import View
    from espalier.models import devices
    from espalier.sparse import queries, weightings

    devices.seeded(job.seed, job.threads)
    texts = View(job.path("view")).queries(SPLIT)
    encoded = weightings.encoder(job.settings["weighting"]).queries(texts)
    if job.settings["own_terms"]:
        encoded = {query_id: weightings.own_terms(text) for query_id, text in encoded.items()}
    table = queries.table(encoded, job.settings["bm25_scale"])
    table.to_parquet(job.out("queries"), index=False)
    return {
        "queries": len(texts),
        "bm25_terms_per_query": float((table["bm25"] > 0).sum() / max(len(texts), 1)),
        "learned_terms_per_query": float((table["learned"] > 0).sum() / max(len(texts), 1)),
    }


def weightings_of(job: Job) -> Iterator[tuple[str, Path, Any]]:
    """Each weighting's name, the folder of its indexes, its encoded queries."""
    import pandas as pd

    for indexes, queries in zip(job.paths("indexes"), job.paths("queries"), strict=True):
        yield indexes.name, indexes, pd.read_parquet(queries)


@room.stage(inputs=("indexes+", "queries+"), outputs=("runs", "counts"))
def retrieve(job: Job) -> dict[str, Any]:
    """All queries under every setting of the config, for every weighting: runs and counters."""
    import pandas as pd

    from espalier.evaluation import runs
    from espalier.sparse import retrieval

    counts = []
    found: dict[str, Any] = {}
    segment_hits = job.settings["segment_hits"]
    for name, indexes, encoded in weightings_of(job):
        opened = retrieval.Opened(indexes, encoded)
        for setting in job.settings["settings"]:
            system = f"{name}-{setting['name']}"
            k = setting.get("k", job.settings["depth"])
            run, counted, cut_short = retrieval.retrieve(opened, setting, k, system, segment_hits)
            steps = [dict(setting)]
            if opened.of_segments:
                steps.append({"name": "best segment", "segments": k * segment_hits, "depth": k})
                found[f"queries_cut_short {system}"] = cut_short
            if cut_short:
                log.warning(
                    "%s: %d queries have fewer than %d documents in %d segments; raise "
                    "'sparse.segment_hits'", system, cut_short, k, k * segment_hits,
                )  # fmt: skip
            metadata = {"method": {"automatic": True, "retrieval": steps}}
            runs.write(job.out("runs") / f"{system}{runs.SUFFIX}", run, metadata)
            counts.append(counted)
    table = pd.concat(counts, ignore_index=True)
    table.to_parquet(job.out("counts"), index=False)
    return {
        "k": job.settings["depth"],
        "k_over_documents": job.settings["depth"] / max(opened.documents, 1),
        **found,
        **{
            f"documents_scored {name}": float(mean)
            for name, mean in table.groupby("system")["documents_scored"].mean().items()
        },
    }


@room.stage(inputs=("indexes+", "queries+"), outputs=("latency",))
def latency(job: Job) -> dict[str, Any]:
    """Time of each query under every setting, interleaved, on one thread."""
    import pandas as pd

    from espalier.sparse import retrieval

    settings = job.settings
    tables = [
        retrieval.latencies(
            retrieval.Opened(indexes, encoded),
            settings["settings"],
            settings["depth"],
            settings["segment_hits"],
            settings["latency_queries"],
            settings["latency_repeats"],
            name,
        )
        for name, indexes, encoded in weightings_of(job)
    ]
    pd.concat(tables, ignore_index=True).to_parquet(job.out("latency"), index=False)
    return {"queries": tables[0]["query_id"].nunique()}


@room.stage(inputs=("index",), outputs=("ciff",))
def export(job: Job) -> dict[str, Any]:
    """One side of an index as a CIFF file of impacts, for other engines to read."""
    from espalier.sparse import ciff, exchange
    from espalier.sparse import index as dual

    lists = exchange.as_ciff(dual.read(job.path("index")), job.settings["side"])
    ciff.write(job.out("ciff"), lists)
    return {"documents": len(lists.doc_ids), "postings": len(lists.docs)}
