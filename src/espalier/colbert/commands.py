"""`espalier colbert …`: a late-interaction encoder, its index, retrieval with pruned queries."""

from collections.abc import Mapping
from typing import Any

from espalier.stage import Job, Room, limit_threads

room = Room("colbert")

TRAIN_SPLIT = "train"
SPLIT = "test"


@room.stage(inputs=("view?", "candidates?"), outputs=("model",))
def train(job: Job) -> dict[str, Any]:
    """Train the encoder on the judged queries of a view and on BM25's mistakes.

    A run that was killed goes on where it stood. Without settings for training a published
    checkpoint is converted as it is; view and candidates are not read and may be left out.
    """
    from espalier.colbert import encoder, training
    from espalier.collections import candidates
    from espalier.collections.view import View
    from espalier.models import devices, parallel
    from espalier.models.locate import locate

    devices.seeded(job.seed, job.threads)
    parallel.start(devices.device())
    settings = job.settings["colbert"]
    fit = settings["training"] and dict(settings["training"])
    folder = locate(job.settings["models"]["encoder"], nested=True)
    model = encoder.from_folder(folder, trained=fit is not None, **settings["encoder"])
    if fit is None:
        encoder.save(job.out("model"), model)
        return {"triples": 0}
    count, negatives, seconds = (fit.pop(k) for k in ("triples", "negatives", "checkpoint_seconds"))
    del fit["processes"]  # the rule started so many
    view = View(job.path("view"))
    data = training.triples(
        view.qrels(TRAIN_SPLIT),
        candidates.read(job.path("candidates"), TRAIN_SPLIT),
        count=count,
        negatives=negatives,
        seed=job.seed,
    )
    wanted = {doc_id for triple in data for doc_id in (triple.positive, triple.negative)}
    metrics = training.train(
        model,
        data,
        view.queries(TRAIN_SPLIT),
        {doc.doc_id: text_of(doc) for doc in view.docs() if doc.doc_id in wanted},
        view.qrels(TRAIN_SPLIT),
        job.checkpoint(seconds),
        **fit,
    )
    encoder.save(job.out("model"), model)
    return {"triples": len(data), **metrics}


@room.stage(inputs=("view", "model"), outputs=("codec",))
def codec(job: Job) -> dict[str, Any]:
    """Fit what compresses embeddings to those of a sample of the documents."""
    import math

    import numpy as np

    from espalier.colbert import compression, encoder
    from espalier.collections.view import View
    from espalier.models import devices

    devices.seeded(job.seed, job.threads)
    settings = job.settings["colbert"]["store"]
    view = View(job.path("view"))
    size = math.ceil(settings["sample"] * view.docs_count)
    drawn = np.random.default_rng(job.seed).choice(view.docs_count, size, replace=False)
    chosen = set(drawn.tolist())
    model = encoder.load(job.path("model"))
    texts = [text_of(doc) for i, doc in enumerate(view.docs()) if i in chosen]
    rows = [rows for _, rows in model.encode_docs(model.layout.docs(texts))]
    sample = np.concatenate([np.empty((0, model.dimensions), dtype=np.float16), *rows])
    total = len(sample) / size * view.docs_count
    fitted = compression.fit(sample, total, settings["bits"], job.seed)
    job.out("codec").mkdir()
    fitted.save(job.out("codec"))
    return {
        "documents": size,
        "embeddings": len(sample),
        "centroids": len(fitted.centroids),
        "bytes_per_embedding": fitted.width,
    }


@room.stage(inputs=("view", "model", "codec?"), outputs=("shard",))
def encode(job: Job) -> dict[str, Any]:
    """Embed one slice of the collection, compressed by a codec if there is one."""
    from espalier import files
    from espalier.colbert import compression, encoder, store
    from espalier.collections.view import View
    from espalier.models import devices
    from espalier.text import batching

    devices.seeded(job.seed, job.threads)
    view = View(job.path("view"))
    start, stop = batching.shard(
        view.docs_count, job.settings["shard"], job.settings["colbert"]["shards"]
    )
    model = encoder.load(job.path("model"))
    docs = list(view.docs(start, stop))
    tokens = model.layout.docs([text_of(doc) for doc in docs])
    described = store.write(
        job.out("shard"),
        [doc.doc_id for doc in docs],
        [ids[model.layout.kept(ids)] for ids in tokens],
        model.encode_docs(tokens),
        model.dimensions,
        files.sha256_of(job.path("model")),
        next(map(compression.load, job.paths("codec")), None),
    )
    return {
        "documents": described["documents"],
        "documents_empty": sum(len(ids) == 0 for ids in tokens),
        "embeddings": described["embeddings"],
        "bits": described["bits"],
    }


@room.stage(inputs=("model", "shards+"), outputs=("quantizer",))
def quantizer(job: Job) -> dict[str, Any]:
    """Train what codes embeddings on a sample of all shards', or of a share of them."""
    import json

    import numpy as np

    # The threads of this job are FAISS's own, each with one of OpenMP's.
    limit_threads(1)
    from espalier.colbert import quantizer as coder
    from espalier.colbert import static, store

    shards = store.opened(job.paths("shards"))
    store.verify(job.paths("shards"))
    vocabulary = json.loads((job.path("model") / "config.json").read_text())["vocab_size"]
    frequencies = np.stack(
        [f(shards, vocabulary) for f in (store.frequency, store.document_frequency)]
    )
    share = float(job.settings["kept"])
    counts = [static.count(s.offsets, share) for s in shards]
    kept = (static.kept(s.tokens, s.offsets, frequencies[0], share) for s in shards)
    index, plan = coder.train(
        shards, counts, kept, **job.settings["colbert"]["index"], seed=job.seed
    )
    coder.write(job.out("quantizer"), index, frequencies, shards, share)
    return {
        "embeddings": sum(counts),
        "partitions": plan.partitions,
        "training_points": plan.sample,
    }


@room.stage(inputs=("quantizer", "shard"), outputs=("lists",))
def invert(job: Job) -> dict[str, Any]:
    """Code one shard's embeddings, as inverted lists."""
    from espalier.colbert import inverted, static, store
    from espalier.colbert import quantizer as coder

    trained = coder.read(job.path("quantizer"))
    (shard,) = store.opened([job.path("shard")])
    store.verify([job.path("shard")])
    number = job.settings["shard"]
    first = coder.first_of(trained, number, shard, job.path("shard"))
    kept = static.kept(shard.tokens, shard.offsets, trained.frequencies[0], trained.about.kept)
    lists = inverted.invert(trained.index, shard, kept, first)
    inverted.write(job.out("lists"), lists, trained.digest, number)
    return {"documents": len(shard.doc_ids), "embeddings": len(lists.numbers)}


@room.stage(inputs=("quantizer", "lists+"), outputs=("index",))
def index(job: Job) -> dict[str, Any]:
    """Join the inverted lists of all shards into the approximate index."""
    from espalier.colbert import index as ann
    from espalier.colbert import quantizer as coder

    trained = coder.read(job.path("quantizer"))
    described = ann.write(job.out("index"), trained, job.paths("lists"))
    documents = sum(trained.about.documents)
    return {
        "documents": documents,
        "embeddings": described["indexed"],
        "embeddings_per_document": described["indexed"] / max(documents, 1),
        "index_bytes": (job.out("index") / ann.INDEX).stat().st_size,
    }


@room.stage(inputs=("view", "model", "shards+", "indexes+"), outputs=("runs", "counts"))
def sweep(job: Job) -> dict[str, Any]:
    """Retrieve with the first p query embeddings of each order, for every p, and the extensions."""
    import pandas as pd

    from espalier.colbert import pruning, systems
    from espalier.colbert import sweep as pruned
    from espalier.collections.view import View
    from espalier.evaluation import measures, runs

    settings = job.settings["colbert"]["retrieval"]
    view = View(job.path("view"))
    split = view.manifest["splits"][SPLIT]["id"]
    level = measures.level_of(split, job.settings["evaluation"]["relevance_levels"])
    queries, pipeline, sizes = opened(job)
    layout = pipeline.encoder.layout
    ids = layout.queries(list(queries.values()))
    searched = {
        system: pipeline.searched(system, ids)
        for system in systems.wanted(
            settings["orders"],
            layout.query_length,
            settings["selective"],
            job.settings["colbert"]["static"]["systems"],
            [kept for kept in pipeline.indexes if kept < 1],
        )
    }
    results = pruned.sweep(
        pipeline.indexes,
        pipeline.store,
        pipeline.encoder.encode(ids),
        pipeline.scoring(ids),
        {name: pipeline.orders[name](ids) for name in {system.order: None for system in searched}},
        searched,
        pruned.relevant_documents(view.qrels(SPLIT), level, list(queries), pipeline.store.doc_ids),
        k_prime=settings["k_prime"],
        depth=settings["depth"],
    )
    kinds = pruning.kinds(ids, layout)
    counts = []
    for system, result in results.items():
        chosen = {key: settings[key] for key in ("k_prime", "nprobe", "depth", "score_masks")}
        method = {"name": "ColBERT", **system._asdict(), **chosen}
        metadata = {"method": {"automatic": True, "retrieval": [method]}}
        run = pruned.run(result, list(queries), pipeline.store.doc_ids)
        runs.write(job.out("runs") / f"{system.name}{runs.SUFFIX}", run, metadata)
        columns = {
            "query_id": list(queries),
            "documents_retrieved": result.documents_retrieved,
            "relevant_retrieved": result.relevant_retrieved,
            "embeddings": searched[system],
            "index_bytes": sizes[system.kept],
            "store_embeddings": len(pipeline.store.document_of),
            "store_bytes": pipeline.store.bytes,
            **kinds,
        }
        counts.append(pd.DataFrame({"system": system.name, **columns}))
    table = pd.concat(counts, ignore_index=True)
    table.to_parquet(job.out("counts"), index=False)
    means = table.groupby("system")["documents_retrieved"].mean()
    return {
        "queries": len(queries),
        **{f"{kind}_per_query": float(count.mean()) for kind, count in kinds.items()},
        **{f"documents_retrieved {system}": float(mean) for system, mean in means.items()},
    }


@room.stage(inputs=("view", "model", "shards+", "indexes+"), outputs=("latency",))
def latency(job: Job) -> dict[str, Any]:
    """Time the pipeline under some systems, query by query, interleaved."""
    from itertools import islice

    from espalier.colbert import latency as timing

    settings = job.settings["colbert"]["latency"]
    queries, pipeline, _ = opened(job)
    some = dict(islice(queries.items(), settings["queries"]))
    timing.measure(pipeline, some, settings["systems"]).to_parquet(job.out("latency"), index=False)
    return {"queries": len(some)}


def opened(job: Job) -> tuple[Mapping[str, str], Any, Mapping[float, int]]:
    """The test queries, the pipeline, and each index's bytes, as both kinds of retrieval need.

    EspalierError when the shards were made by another encoder.
    """
    from espalier import files
    from espalier.colbert import encoder, pruning, store
    from espalier.colbert import index as ann
    from espalier.colbert.pipeline import Pipeline
    from espalier.colbert.retrieval import Dedupe
    from espalier.collections.view import View
    from espalier.errors import EspalierError
    from espalier.models import devices

    devices.seeded(job.seed, job.threads)
    settings = job.settings["colbert"]["retrieval"]
    embeddings = store.open_store(job.paths("shards"))
    store.verify(job.paths("shards"))
    if files.sha256_of(job.path("model")) != embeddings.encoder:
        raise EspalierError(
            f"{job.paths('shards')[0]}: made by another encoder than {job.path('model')}; "
            "delete it and run again"
        )
    model = encoder.load(job.path("model"), int8=settings["int8_queries"])
    indexes = [ann.read(path, embeddings, settings["nprobe"]) for path in job.paths("indexes")]
    frequencies = indexes[0].frequencies
    pipeline = Pipeline(
        model,
        {index.kept: index.index for index in indexes},
        embeddings,
        frequencies[0],
        pruning.orders(model.layout, frequencies[0], frequencies[1], job.seed),
        Dedupe(embeddings),
        settings["k_prime"],
        settings["depth"],
        settings["score_masks"],
    )
    return View(job.path("view")).queries(SPLIT), pipeline, {i.kept: i.bytes for i in indexes}


def text_of(doc: Any) -> str:
    """What the encoder reads of a document."""
    return f"{doc.title} {doc.text}".strip()
