"""`espalier best …`: segments, the rankers and their selections, re-ranking (BeST)."""

from typing import Any

from espalier.stage import Job, Room

room = Room("best")

SYSTEMS = {"maxp": {"firstp": "first", "maxp": "max"}}
"""Runs of a model, with their aggregation; any other model gives one of its own name, `max`."""


@room.stage(inputs=("view", "candidates"), outputs=("segments",))
def segment(job: Job) -> dict[str, Any]:
    """Instances, candidates, and the segments of their documents as word pieces."""
    import pandas as pd
    from transformers import AutoTokenizer

    from espalier.best import instances, store
    from espalier.best.inputs import Layout
    from espalier.collections import candidates
    from espalier.collections.view import View
    from espalier.models.locate import locate

    settings = job.settings["best"]
    view = View(job.path("view"))
    texts = {split: view.queries(split) for split in store.SPLITS}
    qrels = {split: view.qrels(split) for split in store.SPLITS}
    found = {split: candidates.read(job.path("candidates"), split) for split in store.SPLITS}

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
    docs = [doc for doc in view.docs() if any(doc.doc_id in ids for ids in wanted.values())]
    tokenizer = AutoTokenizer.from_pretrained(locate(job.settings["models"]["ranker"]))
    layout = Layout.of(tokenizer)
    cut = store.cut(tokenizer, docs, wanted, settings["segments"], layout.special, job.seed)
    queries, shortened = store.query_table(tokenizer, texts, settings["segments"]["query_length"])
    tables = {"queries": queries, **cut, "instances": drawn, "dev": dev, "test": test}
    store.write(job.out("segments"), layout, tables)
    return {
        "instances": len(drawn),
        "train_queries_without_instances": len(texts["train"]) - drawn["query_id"].nunique(),
        "queries_shortened": shortened,
        "documents": len(docs),
        "documents_without_text": sum(not doc.text.strip() for doc in docs),
        **{f"{kind}_segments": len(table) for kind, table in cut.items()},
        "dev_pairs": len(dev),
        "test_pairs": len(test),
        "test_pairs_missed_by_bm25": int((test["rank"] == 0).sum()),
    }


@room.stage(inputs=("segments",), outputs=("model", "history"))
def train_first(job: Job) -> dict[str, Any]:
    """The ranker of FirstP and MaxP, trained on first segments."""
    from espalier.best import arms, training

    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    learner = shared.learner("maxp")
    choices = [training.Choice(instance, 0, 0) for instance in shared.training_instances()]
    training.train_on(learner, choices, job.seed)
    return arms.finish({"model": learner}, job.outputs)


@room.stage(inputs=("segments",), outputs=("theta0", "theta1", "history"))
def train_joint(job: Job) -> dict[str, Any]:
    """θ0 on all leading segments and, at the same time, θ1 on those that θ0 selects."""
    from espalier.best import arms, training

    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    theta0, theta1 = shared.learner("theta0"), shared.learner("theta1")
    training.train_jointly(
        theta0,
        theta1,
        shared.training_instances(),
        job.seed,
        shared.batch_tokens,
        sampled=job.settings["best"]["training"]["theta0"] == "sampled",
    )
    return arms.finish({"theta0": theta0, "theta1": theta1}, job.outputs)


@room.stage(inputs=("segments", "model"), outputs=("selection",))
def select(job: Job) -> dict[str, Any]:
    """The training segments that a ranker scores highest: the next iteration's I."""
    from espalier.best import arms

    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    selection = shared.selection(shared.trained(job.path("model")))
    selection.to_parquet(job.out("selection"), index=False)
    return {"pairs": len(selection), "first_segments": float((selection["segment"] == 0).mean())}


@room.stage(inputs=("segments", "selection"), outputs=("model", "history"))
def train(job: Job) -> dict[str, Any]:
    """A newly initialised ranker, trained on the segments that the one before has selected."""
    import pandas as pd

    from espalier.best import arms, training

    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    learner = shared.learner(f"theta{job.settings['step']}")
    choices = shared.chosen(pd.read_parquet(job.path("selection")))
    training.train_on(learner, choices, job.seed)
    return arms.finish({"model": learner}, job.outputs)


@room.stage(inputs=("segments", "model"), outputs=("runs", "scores"))
def rerank(job: Job) -> dict[str, Any]:
    """Score every segment of the test candidates; a run for each way to aggregate them."""
    from espalier.best import arms, reranking
    from espalier.evaluation import runs

    shared = arms.Arms(job.path("segments"), job.settings, job.threads)
    scores = shared.test_scores(shared.trained(job.path("model")))
    scores.to_parquet(job.out("scores"), index=False)
    model, depth = job.settings["model"], job.settings["best"]["reranking"]["depth"]
    for system, how in SYSTEMS.get(model, {model: "max"}).items():
        step = {"name": "BERT cross-encoder", "model": model, "segments": how, "depth": depth}
        runs.write(
            job.out("runs") / f"{system}{runs.SUFFIX}",
            reranking.aggregate(scores[scores["rank"] > 0], how),
            {"method": {"automatic": True, "retrieval": [{"name": "BM25"}, step]}},
        )
    return {"segments": len(scores)}


@room.stage(
    inputs=("view", "segments", "scores+", "selections?", "histories+"),
    outputs=("selection", "history"),
)
def selection_quality(job: Job) -> dict[str, Any]:
    """How often each ranker's best segment of a relevant document answers; all histories."""
    import pandas as pd

    from espalier.best import quality
    from espalier.best.store import Store
    from espalier.collections.view import View

    histories = [pd.read_parquet(path) for path in job.paths("histories")]
    pd.concat(histories, ignore_index=True).to_parquet(job.out("history"), index=False)
    view, store = View(job.path("view")), Store(job.path("segments"))
    answers = quality.judged(store.places("inference"), quality.spans(view, "test"))
    rankings = {path.stem: quality.top(pd.read_parquet(path)) for path in job.paths("scores")}
    table = pd.concat(
        [quality.references(answers)]
        + [quality.outcomes(system, answers, chosen) for system, chosen in rankings.items()],
        ignore_index=True,
    )
    table.to_parquet(job.out("selection"), index=False)

    # What training could learn from: is the answer among a positive's leading segments at all,
    # and how often was its segment selected?
    positives = store.table("instances")[["query_id", "positive"]].drop_duplicates()
    known = quality.spans(view, "train").merge(
        positives, left_on=["query_id", "doc_id"], right_on=["query_id", "positive"]
    )
    leading = quality.judged(store.places("training"), known)
    trained = [quality.references(leading)] + [
        quality.outcomes(f"selection{path.stem}", leading, pd.read_parquet(path))
        for path in job.paths("selections")
    ]
    return {
        **quality.means("test_P_1", table),
        **quality.means("training_P_1", pd.concat(trained)),
    }
