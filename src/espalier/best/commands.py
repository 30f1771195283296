"""`espalier best …`: segments, the rankers and their selections, re-ranking (BeST)."""

import logging
from typing import Any

from espalier.stage import Job, Room

room = Room("best")
log = logging.getLogger("espalier")


@room.stage(inputs=("view", "candidates"), outputs=("segments",))
def segment(job: Job) -> dict[str, Any]:
    """Instances, candidates, and the segments of their documents as word pieces."""
    import pandas as pd
    from transformers import AutoConfig, AutoTokenizer

    from espalier.best import instances, quality, store
    from espalier.best.inputs import Layout, check_length
    from espalier.collections import candidates
    from espalier.collections.view import View
    from espalier.models.locate import locate

    settings, splits = job.settings["best"], job.settings["splits"]
    model = locate(job.settings["models"]["ranker"])
    config = AutoConfig.from_pretrained(model)
    check_length(config, job.settings["models"]["ranker"], settings["segments"]["max_length"])
    view, folder = View(job.path("view")), job.path("candidates")
    texts = {
        role: {query_id: text for name in names for query_id, text in view.queries(name).items()}
        for role, names in splits.items()
    }
    qrels = {role: pd.concat(map(view.qrels, names)) for role, names in splits.items()}
    found = {
        role: pd.concat(candidates.read(folder, name) for name in names)
        for role, names in splits.items()
    }

    drawn = instances.draw(
        list(texts["train"]), qrels["train"], found["train"], seed=job.seed, **settings["instances"]
    )
    dev = instances.candidates(qrels["dev"], found["dev"], settings["training"]["dev_depth"])
    test = instances.candidates(qrels["test"], found["test"], settings["reranking"]["depth"])
    test = pd.concat([test, instances.missed(qrels["test"], test)], ignore_index=True)
    wanted = {
        "training": {*drawn["positive"], *drawn["negative"]},
        "inference": {*dev["doc_id"], *test["doc_id"]},
    }
    answers = quality.spans(view, splits["train"]).merge(instances.positives(drawn))
    judged = pd.concat([answers, quality.spans(view, splits["test"])])

    tokenizer = AutoTokenizer.from_pretrained(model)
    layout = Layout.of(tokenizer)
    docs = [doc for doc in view.docs() if any(doc.doc_id in ids for ids in wanted.values())]
    store.check_spans(docs, judged)
    cut = store.cut(
        tokenizer, docs, wanted, answers, settings["segments"], layout.special, job.seed
    )
    doc_ids = {doc.doc_id for doc in docs}
    kept = {
        "instances": instances.held(drawn, ["positive", "negative"], doc_ids),
        "dev": instances.held(dev, ["doc_id"], doc_ids),
        "test": instances.held(test, ["doc_id"], doc_ids),
    }
    instances.check(kept, view.manifest["docs"])
    queries, shortened = store.query_table(tokenizer, texts, settings["segments"]["query_length"])
    store.write(job.out("segments"), layout, {"queries": queries, **cut, **kept})

    positives, aligned, covered = instances.learnable(
        kept["instances"], cut["gold"], settings["segments"]["training"]
    )
    log.info(
        "of %.1f%% of %d positives a segment is known to be right, of %.1f%% a leading one",
        100 * aligned / positives, positives, 100 * covered / positives,
    )  # fmt: skip
    return {
        "instances": len(kept["instances"]),
        "positives": positives,
        "positives_aligned": aligned / positives,
        "positives_covered": covered / positives,
        "train_queries_without_instances": len(texts["train"])
        - kept["instances"]["query_id"].nunique(),
        "queries_shortened": shortened,
        "documents": len(docs),
        "documents_without_text": sum(not doc.text.strip() for doc in docs),
        "documents_not_in_the_collection": len(set().union(*wanted.values()) - doc_ids),
        **{f"{kind}_segments": len(cut[kind]) for kind in store.KINDS},
        "dev_pairs": len(kept["dev"]),
        "test_pairs": len(kept["test"]),
        "test_pairs_missed": int((kept["test"]["rank"] == 0).sum()),
    }


@room.stage(inputs=("view", "segments+"), outputs=("table",))
def describe(job: Job) -> dict[str, Any]:
    """How long documents and segments are, how many pairs are judged, where answers are known."""
    from transformers import AutoTokenizer

    from espalier.best import describe, store
    from espalier.collections.view import View
    from espalier.models.locate import locate

    table = describe.table(
        View(job.path("view")),
        [store.Store(path) for path in job.paths("segments")],
        AutoTokenizer.from_pretrained(locate(job.settings["models"]["ranker"])),
        job.settings["best"]["segments"]["training"],
    )
    table.to_parquet(job.out("table"), index=False)
    return describe.metrics(table)


@room.stage(inputs=("segments",), outputs=("theta0", "theta1", "history"))
def train_joint(job: Job) -> dict[str, Any]:
    """θ0 on all leading segments and, at the same time, θ1 on those that θ0 selects."""
    from espalier.best import arms, training

    settings = job.settings["best"]
    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    theta0, theta1 = shared.learner("theta0"), shared.learner("theta1")
    training.train_jointly(
        theta0,
        theta1,
        shared.instances(),
        job.seed,
        shared.batch_tokens,
        job.checkpoint(settings["checkpoint_seconds"]),
        sampled=settings["training"]["theta0"] == "sampled",
    )
    return arms.finish({"theta0": theta0, "theta1": theta1}, job.outputs)


@room.stage(inputs=("segments", "model"), outputs=("selection",))
def select(job: Job) -> dict[str, Any]:
    """The training segments that a ranker scores highest, of one shard: the next iteration's I."""
    from espalier.best import arms

    settings = job.settings["best"]
    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    selection = shared.selection(
        shared.trained(job.path("model")),
        job.settings["shard"],
        settings["shards"],
        job.checkpoint(settings["checkpoint_seconds"]),
    )
    selection.to_parquet(job.out("selection"), index=False)
    return {"pairs": len(selection), "first_segments": int((selection["segment"] == 0).sum())}


@room.stage(inputs=("segments", "selections?"), outputs=("model", "history"))
def train(job: Job) -> dict[str, Any]:
    """A newly initialised ranker, trained on one segment of each document.

    The first one (model `maxp`), a random one (`random`), the one with the answer (`goldp`), or
    those that the ranker before has selected (`theta2` …).
    """
    import pandas as pd

    from espalier.best import arms, training

    model = job.settings["model"]
    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    if selections := job.paths("selections"):
        examples = shared.selected(pd.concat(map(pd.read_parquet, selections)))
    else:
        examples = {"maxp": shared.first, "random": shared.random, "goldp": shared.gold}[model]()
    learner = shared.learner(model)
    checkpoint = job.checkpoint(job.settings["best"]["checkpoint_seconds"])
    training.train_on(learner, examples, job.seed, checkpoint)
    return {"examples": len(examples), **arms.finish({"model": learner}, job.outputs)}


@room.stage(inputs=("segments", "model"), outputs=("runs", "scores"))
def rerank(job: Job) -> dict[str, Any]:
    """Score every segment of the test candidates; a run for each way to aggregate them."""
    from espalier.best import arms, reranking

    settings = job.settings["best"]
    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    checkpoint = job.checkpoint(settings["checkpoint_seconds"])
    scores = shared.test_scores(shared.trained(job.path("model")), checkpoint)
    scores.to_parquet(job.out("scores"), index=False)
    reranking.write(job.out("runs"), job.settings["model"], scores, settings["reranking"]["depth"])
    return {"segments": len(scores)}


@room.stage(inputs=("histories+", "scores+"), outputs=("runs", "picked_scores"))
def pick(job: Job) -> dict[str, Any]:
    """BeST itself: the runs of the iteration that the dev measure picks."""
    import pandas as pd

    from espalier.best import iterations, reranking

    dev = iterations.dev_measures(pd.concat(map(pd.read_parquet, job.paths("histories"))))
    by_model = {path.stem: path for path in job.paths("scores")}
    number = iterations.picked([dev[model] for model in by_model])
    chosen = list(by_model)[number - 1]
    scores = pd.read_parquet(by_model[chosen])
    scores.to_parquet(job.out("picked_scores"), index=False)
    depth = job.settings["best"]["reranking"]["depth"]
    reranking.write(job.out("runs"), "best", scores, depth)
    log.info("%s is picked of %s", chosen, ", ".join(f"{m} ({dev[m]:.4f})" for m in by_model))
    return {"iteration": number, "dev_rr": dev[chosen]}


@room.stage(inputs=("folds+",), outputs=("runs",))
def join_folds(job: Job) -> dict[str, Any]:
    """The runs of a ranker's folds as one run for each of its systems."""
    from espalier.best import reranking

    return {"systems": reranking.join(job.paths("folds"), job.out("runs"))}


@room.stage(
    inputs=("view", "segments+", "scores+", "selections?", "histories+"),
    outputs=("selection", "iterations", "history"),
)
def selection_quality(job: Job) -> dict[str, Any]:
    """How often each ranker's best segment of a relevant document answers; all histories.

    One table per query and system, one per ranker with its dev measure (the paper's Table 2).
    """
    import pandas as pd

    from espalier.best import quality
    from espalier.collections.view import View

    view, parts = View(job.path("view")), job.settings["parts"]
    measured = [
        quality.part(view, name, about, {kind: job.paths(kind) for kind in quality.DEPTHS})
        for name, about in parts.items()
    ]
    tables = {
        name: pd.concat([getattr(each, name) for each in measured], ignore_index=True)
        for name in quality.Measured._fields
    }
    for name in ("selection", "iterations", "history"):
        tables[name].to_parquet(job.out(name), index=False)
    return {
        **quality.means("test_P_1", tables["selection"]),
        **quality.means("training_P_1", tables["training"]),
    }
