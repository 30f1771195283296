"""`espalier evaluation …`: measures and comparisons of runs, and the claims ledger."""

import json
from typing import Any

from espalier.errors import EspalierError
from espalier.stage import Job, Room

room = Room("evaluation")

SPLIT = "test"


@room.stage(inputs=("view", "own+"), outputs=("runs",))
def adopt(job: Job) -> dict[str, Any]:
    """Check run files of the user's own and write them as ours: strictly ordered, described.

    Ties are ordered as trec_eval orders them, so that it gives the same figures on either file.
    """
    from espalier.collections.view import View
    from espalier.evaluation import runs

    view = View(job.path("view"))
    split_id = view.manifest["splits"][SPLIT]["id"]
    known = view.queries(SPLIT)
    lines = 0
    for name, path in zip(job.settings["names"], job.paths("own"), strict=True):
        run = runs.read(path)
        runs.strangers(path, run, known, split_id)
        method = {
            "retrieval": [{"name": "a run file that the config names", "file": path.name}],
            "score ties": "by doc_id, descending",
        }
        ordered = runs.order(run, ties_ascending=False)
        runs.write(job.out("runs") / f"{name}{runs.SUFFIX}", ordered, {"method": method})
        lines += len(run)
    return {"runs": len(job.paths("own")), "lines": lines}


@room.stage(inputs=("view", "runs+", "qrels?"), outputs=("per_query", "summary", "comparisons"))
def evaluate(job: Job) -> dict[str, Any]:
    """Measure one paper's runs per query and compare them as its families declare.

    Several runs of one system name are replicates: each query's values are averaged over them.
    """
    import pandas as pd
    from tqdm import tqdm

    from espalier.evaluation import comparisons, measures, runs
    from espalier.evaluation import trial as trials

    settings = job.settings["evaluation"]
    trial = trials.prepare(job.path("view"), job.paths("qrels"), settings)
    found = runs.replicates(job.paths("runs"))
    runs.refuse_names(settings["own_runs"], found)
    tables, missing, repeated = [], {}, {}
    unknown: dict[str, int] = {}
    for system, paths in tqdm(found.items(), desc="evaluate", unit="run", mininterval=2):
        values, lacking = [], 0
        for path in paths:
            run = runs.read(path)
            strange = runs.strangers(path, run, trial.queries, trial.split_id)
            unknown[system] = max(strange, unknown.get(system, 0))
            values.append(trial.evaluator.per_query(run))
            lacking += trial.missing(path, run)
        missing[system] = lacking if len(paths) == 1 else lacking / len(paths)
        if len(paths) > 1:
            repeated[system] = measures.spread(values)
        tables.append(measures.averaged(values).assign(system=system))
    per_query = pd.concat(tables)[["system", "query_id", "measure", "value"]]
    compared = comparisons.compare(
        per_query,
        settings["families"],
        alpha=settings["alpha"],
        margin=margin(settings),
        samples=settings["bootstrap_samples"],
        seed=job.seed,
    )
    summary = {
        "paper": job.settings["paper"],
        "collection": trial.collection,
        "qrels": trial.qrels,
        "relevance_level": trial.level,
        "measures": {chosen.name: chosen.described for chosen in trial.evaluator.chosen},
        "queries": {**trial.counts, "without_results": missing, "unknown": unknown},
        "systems": measures.means(per_query),
        "own_runs": settings["own_runs"],
        "replicates": repeated,
    }
    per_query.to_parquet(job.out("per_query"), index=False)
    compared.to_parquet(job.out("comparisons"), index=False)
    job.out("summary").write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return {
        "systems": len(found),
        "runs": sum(map(len, found.values())),
        "judged_queries": len(trial.evaluator.judged),
        **{name: int((compared["outcome"] == name).sum()) for name in comparisons.OUTCOMES},
    }


@room.stage(inputs=("latency",), outputs=("ratios",))
def latencies(job: Job) -> dict[str, Any]:
    """Ratios of one paper's times per query, as its families declare."""
    import pandas as pd

    from espalier.evaluation import ratios

    settings = job.settings["evaluation"]
    found = ratios.compare(
        pd.read_parquet(job.path("latency")),
        settings["families"],
        alpha=settings["alpha"],
        samples=settings["bootstrap_samples"],
        seed=job.seed,
    )
    found.to_parquet(job.out("ratios"), index=False)
    return {"ratios": len(found)}


@room.stage(inputs=("view", "runs+", "originals+", "qrels?"), outputs=("reproduction",))
def reproduction(job: Job) -> dict[str, Any]:
    """How near runs come to the original run files that the config names."""
    from espalier.evaluation import comparisons, runs
    from espalier.evaluation import reproduction as nearness
    from espalier.evaluation import trial as trials

    settings = job.settings["evaluation"]
    trial = trials.prepare(job.path("view"), job.paths("qrels"), settings)
    found = runs.replicates(job.paths("runs"))
    both, values = {}, {}
    for system, path in zip(settings["originals"], job.paths("originals"), strict=True):
        if system not in found:
            raise EspalierError(
                f"config key 'evaluation.original_runs': '{system}' is no system of ours; "
                f"there are {', '.join(found)}"
            )
        original = runs.order(runs.read(path), ties_ascending=False)
        trial.missing(path, original)
        ours = [runs.read(p) for p in found[system]]
        both[system] = (original, ours)
        values[system] = (trial.values([original]), trial.values(ours))
    pairs = {
        (system, family["baseline"]): None
        for family in settings["families"]
        if family["baseline"] in both
        for system in comparisons.members(family, list(both))
    }
    table = nearness.compare(both, values, list(pairs))
    table.to_parquet(job.out("reproduction"), index=False)
    return {"originals": len(both), "pairs": len(pairs)}


@room.stage(inputs=("tables+", "claims+"), outputs=("ledger", "text"))
def claims(job: Job) -> dict[str, Any]:
    """Judge every published claim against this experiment's results."""
    from espalier.evaluation import claims as published
    from espalier.evaluation import ledger, results
    from espalier.evaluation.findings import Rules

    settings = job.settings["evaluation"]
    rows = published.judge(
        published.load(job.paths("claims")),
        results.load(job.paths("tables")),
        Rules(
            alpha=settings["alpha"],
            margin=margin(settings),
            samples=settings["bootstrap_samples"],
            seed=job.seed,
        ),
    )
    job.out("ledger").write_text(ledger.as_json(rows))
    job.out("text").write_text(ledger.as_text(rows))
    return dict(ledger.tally(rows))


def margin(settings: dict[str, Any]) -> Any:
    """The equivalence margin of the settings."""
    from espalier.evaluation.significance import Margin

    return Margin(settings["margin"]["absolute"], settings["margin"]["relative"])
