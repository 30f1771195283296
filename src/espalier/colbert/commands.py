"""`espalier colbert …`: a late-interaction encoder, its index, retrieval with pruned queries."""

from collections.abc import Mapping
from typing import Any

from espalier.stage import Job, Room

room = Room("colbert")

TRAIN_SPLIT = "train"
SPLIT = "test"


@room.stage(inputs=("view", "candidates"), outputs=("model",))
def train(job: Job) -> dict[str, Any]:
    """Train the encoder on the judged queries of a view and on BM25's mistakes."""
    from espalier.colbert import encoder, training
    from espalier.collections.view import View
    from espalier.evaluation import runs
    from espalier.models import devices
    from espalier.models.locate import locate

    devices.seeded(job.seed, job.threads)
    settings = dict(job.settings["colbert"]["training"])
    view = View(job.path("view"))
    qrels = view.qrels(TRAIN_SPLIT)
    run = runs.read(job.path("candidates") / TRAIN_SPLIT / f"bm25{runs.SUFFIX}")
    model = encoder.new(
        locate(job.settings["models"]["encoder"]), **job.settings["colbert"]["encoder"]
    )
    data = training.triples(
        qrels,
        run,
        count=settings.pop("triples"),
        negatives=settings.pop("negatives"),
        seed=job.seed,
    )
    wanted = {doc_id for triple in data for doc_id in (triple.positive, triple.negative)}
    docs = {doc.doc_id: text_of(doc) for doc in view.docs() if doc.doc_id in wanted}
    metrics = training.train(model, data, view.queries(TRAIN_SPLIT), docs, qrels, **settings)
    encoder.save(job.out("model"), model)
    return metrics


@room.stage(inputs=("view", "model"), outputs=("shard",))
def encode(job: Job) -> dict[str, Any]:
    """Embed one slice of the collection."""
    from espalier.colbert import encoder, store
    from espalier.collections.view import View
    from espalier.models import devices

    devices.seeded(job.seed, job.threads)
    settings = job.settings["colbert"]
    view = View(job.path("view"))
    number, of = job.settings["shard"], settings["shards"]["count"]
    start, stop = (view.docs_count * i // of for i in (number, number + 1))
    model = encoder.load(job.path("model"))
    docs = list(view.docs(start, stop))
    tokens = model.layout.docs([text_of(doc) for doc in docs])
    drop = settings["shards"]["drop_punctuation"]
    kept = [ids[model.layout.kept(ids, drop)] for ids in tokens]
    embeddings = model.encode_docs(tokens, drop_punctuation=drop)
    store.write(job.out("shard"), [doc.doc_id for doc in docs], kept, embeddings, model.dimensions)
    return {"documents": len(docs), "embeddings": sum(map(len, kept))}


@room.stage(inputs=("shards+",), outputs=("index",))
def index(job: Job) -> dict[str, Any]:
    """Build the approximate index of all shards' embeddings."""
    from espalier.colbert import index as ann
    from espalier.colbert.store import Store

    settings = job.settings["colbert"]["index"]
    store = Store(job.paths("shards"))
    built = ann.build(store, **settings, seed=job.seed, threads=job.threads)
    ann.write(job.out("index"), built)
    return {
        "documents": len(store.doc_ids),
        "embeddings": store.embeddings_count,
        "embeddings_per_document": store.embeddings_count / max(1, len(store.doc_ids)),
        "partitions": getattr(built, "nlist", 0),
    }


@room.stage(inputs=("view", "model", "shards+", "index"), outputs=("runs", "counts"))
def sweep(job: Job) -> dict[str, Any]:
    """Retrieve with the first p query embeddings of each order, for every p."""
    import pandas as pd

    from espalier.colbert import sweep as pruned
    from espalier.evaluation import runs

    settings = job.settings["colbert"]["retrieval"]
    queries, model, engine, order = opened(job)
    token_ids = model.layout.queries(list(queries.values()))
    results = pruned.sweep(
        engine,
        model.encode(token_ids),
        {name: [order(name, ids) for ids in token_ids] for name in settings["orders"]},
        settings["depth"],
    )
    counts = []
    for system, result in results.items():
        found = [len(docs) for docs in result.docs]
        run = pd.DataFrame(
            {
                "query_id": [q for q, n in zip(queries, found, strict=True) for _ in range(n)],
                "doc_id": [d for docs in result.docs for d in engine.store.doc_ids[docs]],
                "score": [s for scores in result.scores for s in scores],
            }
        )
        name, p = pruned.parsed(system)
        method = {"name": "ColBERT", "order": name, "p": p, **settings}
        metadata = {"method": {"automatic": True, "retrieval": [method]}}
        runs.write(job.out("runs") / f"{system}{runs.SUFFIX}", run, metadata)
        columns = {"query_id": list(queries), "documents_retrieved": result.documents_retrieved}
        counts.append(pd.DataFrame({"system": system, **columns}))
    table = pd.concat(counts, ignore_index=True)
    table.to_parquet(job.out("counts"), index=False)
    means = table.groupby("system")["documents_retrieved"].mean()
    return {
        "queries": len(queries),
        "masks_per_query": float((token_ids == model.layout.mask).sum(axis=1).mean()),
        "word_pieces_per_query": float(model.layout.word_pieces_per_query(token_ids).mean()),
        **{f"documents_retrieved {system}": float(mean) for system, mean in means.items()},
    }


@room.stage(inputs=("view", "model", "shards+", "index"), outputs=("latency",))
def latency(job: Job) -> dict[str, Any]:
    """Time the pipeline of some systems, query by query, interleaved."""
    from itertools import islice

    from espalier.colbert import latency as timing

    settings = job.settings["colbert"]
    queries, model, engine, order = opened(job)
    some = dict(islice(queries.items(), settings["latency"]["queries"]))
    table = timing.measure(
        model, engine, order, some, settings["latency"]["systems"], settings["retrieval"]["depth"]
    )
    table.to_parquet(job.out("latency"), index=False)
    return {"queries": len(some)}


def opened(job: Job) -> tuple[Mapping[str, str], Any, Any, Any]:
    """Queries, encoder, engine and the function of orders, as both kinds of retrieval need them."""
    from functools import partial

    from espalier.colbert import encoder, pruning
    from espalier.colbert import index as ann
    from espalier.colbert.retrieval import Engine
    from espalier.colbert.store import Store
    from espalier.collections.view import View
    from espalier.models import devices

    devices.seeded(job.seed, job.threads)
    settings = job.settings["colbert"]["retrieval"]
    model = encoder.load(job.path("model"))
    store = Store(job.paths("shards"))
    searched = ann.read(job.path("index"), nprobe=settings["nprobe"], threads=job.threads)
    frequency = pruning.collection_frequency(
        (shard.token_ids for shard in store.shards), len(model.layout.tokenizer)
    )
    order = partial(pruning.order, frequency=frequency, layout=model.layout)
    queries = View(job.path("view")).queries(SPLIT)
    return queries, model, Engine(searched, store, settings["k_prime"]), order


def text_of(doc: Any) -> str:
    """What the encoder reads of a document."""
    return f"{doc.title} {doc.text}".strip()
