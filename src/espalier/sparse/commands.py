"""`espalier sparse …`: weights, the dual-weight index, retrieval with skipping."""

import json
from typing import Any

from espalier.stage import Job, Room

room = Room("sparse")

SPLIT = "test"


@room.stage(inputs=("view",), outputs=("shard",))
def encode(job: Job) -> dict[str, Any]:
    """Word-piece frequencies and learned weights of one slice of the collection."""
    from espalier.collections.view import View
    from espalier.models import devices
    from espalier.models.locate import locate
    from espalier.sparse import shards
    from espalier.sparse.splade import Splade

    devices.seeded(job.seed, job.threads)
    view = View(job.path("view"))
    number, of = job.settings["shard"], job.settings["sparse"]["shards"]
    start, stop = (view.docs_count * i // of for i in (number, number + 1))
    model = Splade(locate(job.settings["models"]["splade"]), job.settings["sparse"]["max_length"])
    docs = list(view.docs(start, stop))
    pieces = model.word_pieces([f"{doc.title} {doc.text}".strip() for doc in docs])
    learned = model.weights(pieces, "learned weights")
    shard = shards.build([doc.doc_id for doc in docs], pieces, learned)
    shards.write(job.out("shard"), shard)
    return {
        "documents": len(docs),
        "postings": len(shard.terms),
        "learned_terms_per_document": sum(len(terms) for terms, _ in learned) / max(len(docs), 1),
    }


@room.stage(inputs=("shards+",), outputs=("index", "weights"))
def index(job: Job) -> dict[str, Any]:
    """The dual-weight index of all shards, and the distributions of its weights."""
    from espalier.models.locate import locate
    from espalier.sparse import index as dual
    from espalier.sparse import shards, weights

    settings = job.settings
    model = locate(settings["models"]["splade"])
    built = dual.build(
        [shards.read(path) for path in job.paths("shards")],
        json.loads((model / "config.json").read_text())["vocab_size"],
        settings["sparse"]["block_size"],
        settings["bm25"]["k1"],
        settings["bm25"]["b"],
    )
    dual.write(job.out("index"), built)
    weights.distribution(built.postings).to_parquet(job.out("weights"), index=False)
    return {k: v for k, v in built.meta.items() if isinstance(v, int | float)}


@room.stage(inputs=("view",), outputs=("queries",))
def encode_queries(job: Job) -> dict[str, Any]:
    """Integer query weights: word-piece frequencies for BM25, the model's for the learned side."""
    from espalier.collections.view import View
    from espalier.models import devices
    from espalier.models.locate import locate
    from espalier.sparse import queries
    from espalier.sparse.splade import Splade

    devices.seeded(job.seed, job.threads)
    settings = job.settings["sparse"]
    texts = View(job.path("view")).queries(SPLIT)
    model = Splade(locate(job.settings["models"]["splade"]), settings["max_length"])
    pieces = model.word_pieces(list(texts.values()))
    learned = model.weights(pieces, "query weights")
    encoded = {
        query_id: queries.encoded(words, weights, settings["bm25_scale"])
        for query_id, words, weights in zip(texts, pieces, learned, strict=True)
    }
    table = queries.table(encoded)
    table.to_parquet(job.out("queries"), index=False)
    return {
        "queries": len(texts),
        "word_pieces_per_query": float((table["bm25"] > 0).sum() / max(len(texts), 1)),
        "learned_terms_per_query": float((table["learned"] > 0).sum() / max(len(texts), 1)),
    }


@room.stage(inputs=("index", "queries"), outputs=("runs", "counts"))
def retrieve(job: Job) -> dict[str, Any]:
    """All queries under every setting of the config: runs and counters."""
    import pandas as pd

    from espalier.evaluation import runs
    from espalier.sparse import index as dual
    from espalier.sparse import queries, retrieval

    settings = job.settings["sparse"]
    opened = dual.read(job.path("index"))
    asked = queries.by_query(pd.read_parquet(job.path("queries")))
    counts = []
    for setting in settings["settings"]:
        run, counted = retrieval.retrieve(opened, asked, setting, settings["depth"])
        metadata = {"method": {"automatic": True, "retrieval": [dict(setting)]}}
        runs.write(job.out("runs") / f"{setting['name']}{runs.SUFFIX}", run, metadata)
        counts.append(counted)
    table = pd.concat(counts, ignore_index=True)
    table.to_parquet(job.out("counts"), index=False)
    return {
        "k": settings["depth"],
        "k_over_documents": settings["depth"] / len(opened.doc_ids),
        **{
            f"documents_scored {name}": float(mean)
            for name, mean in table.groupby("system")["documents_scored"].mean().items()
        },
    }


@room.stage(inputs=("index", "queries"), outputs=("latency",))
def latency(job: Job) -> dict[str, Any]:
    """Time of each query under every setting, interleaved, on one thread."""
    import pandas as pd

    from espalier.sparse import index as dual
    from espalier.sparse import queries, retrieval

    settings = job.settings["sparse"]
    opened = dual.read(job.path("index"))
    asked = queries.by_query(pd.read_parquet(job.path("queries")))
    timed = dict(list(asked.items())[: settings["latency_queries"]])
    table = retrieval.latencies(
        opened, timed, settings["settings"], settings["depth"], settings["latency_repeats"]
    )
    table.to_parquet(job.out("latency"), index=False)
    return {"queries": len(timed)}
