"""`espalier sparse …`: weights, the dual-weight index, retrieval with skipping."""

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
    from transformers import AutoConfig

    from espalier.models.locate import locate
    from espalier.sparse import index as dual
    from espalier.sparse import shards, weights

    settings = job.settings
    vocabulary = AutoConfig.from_pretrained(locate(settings["models"]["splade"])).vocab_size
    built = dual.build(
        [shards.read(path) for path in job.paths("shards")],
        vocabulary,
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
    import pandas as pd

    from espalier.collections.view import View
    from espalier.models import devices
    from espalier.models.locate import locate
    from espalier.sparse import quantize, shards
    from espalier.sparse.retrieval import QUERY_COLUMNS
    from espalier.sparse.splade import Splade

    devices.seeded(job.seed, job.threads)
    queries = View(job.path("view")).queries(SPLIT)
    model = Splade(locate(job.settings["models"]["splade"]), job.settings["sparse"]["max_length"])
    pieces = model.word_pieces(list(queries.values()))
    learned = model.weights(pieces, "query weights")
    parts = []
    for query_id, text, weight in zip(queries, pieces, learned, strict=True):
        terms, frequency, weights = shards.aligned(text, weight)
        columns = (query_id, terms, quantize.query(frequency), quantize.query(weights))
        parts.append(pd.DataFrame(dict(zip(QUERY_COLUMNS, columns, strict=True))))
    table = pd.concat(parts, ignore_index=True)
    table = table[(table["bm25"] > 0) | (table["learned"] > 0)]
    table.to_parquet(job.out("queries"), index=False)
    return {
        "queries": len(queries),
        "word_pieces_per_query": float((table["bm25"] > 0).sum() / max(len(queries), 1)),
        "learned_terms_per_query": float((table["learned"] > 0).sum() / max(len(queries), 1)),
    }


@room.stage(inputs=("index", "queries"), outputs=("runs", "counts"))
def retrieve(job: Job) -> dict[str, Any]:
    """All queries under every setting of the config: runs and counters."""
    import pandas as pd

    from espalier.evaluation import runs
    from espalier.sparse import index as dual
    from espalier.sparse import retrieval

    settings = job.settings["sparse"]
    opened = dual.read(job.path("index"))
    queries = retrieval.by_query(pd.read_parquet(job.path("queries")))
    counts = []
    for setting in settings["settings"]:
        run, counted = retrieval.retrieve(opened, queries, setting, settings["depth"])
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
    from espalier.sparse import retrieval

    settings = job.settings["sparse"]
    opened = dual.read(job.path("index"))
    queries = retrieval.by_query(pd.read_parquet(job.path("queries")))
    timed = dict(list(queries.items())[: settings["latency_queries"]])
    table = retrieval.latencies(
        opened, timed, settings["settings"], settings["depth"], settings["latency_repeats"]
    )
    table.to_parquet(job.out("latency"), index=False)
    return {"queries": len(timed)}
