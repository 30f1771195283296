"""`espalier evaluation …`: measures and comparisons of runs, and the claims ledger."""

import json
from typing import Any

from espalier.stage import Job, Room

room = Room("evaluation")

SPLIT = "test"


@room.stage(inputs=("view", "runs+"), outputs=("per_query", "summary", "comparisons"))
def evaluate(job: Job) -> dict[str, Any]:
    """Measure one paper's runs per query and compare them as its families declare."""
    import pandas as pd
    from tqdm import tqdm

    from espalier.collections.view import View
    from espalier.evaluation import comparisons, measures, runs

    settings = job.settings["evaluation"]
    view = View(job.path("view"))
    manifest, qrels = view.manifest, view.qrels(SPLIT)
    split_id = manifest["splits"][SPLIT]["id"]
    level = measures.level_of(split_id, settings["relevance_levels"])
    evaluator = measures.Evaluator(qrels, measures.choose(settings["measures"], level))

    paths = runs.in_folders(job.paths("runs"))
    tables, missing = [], {}
    for system, path in tqdm(paths.items(), desc="evaluate", unit="run", mininterval=2):
        run = runs.read(path)
        tables.append(evaluator.per_query(run).assign(system=system))
        missing[system] = evaluator.missing(run)
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
        "collection": {
            "docs": manifest["docs"],
            "docs_count": manifest["docs_count"],
            "split": split_id,
        },
        "relevance_level": level,
        "measures": {chosen.name: chosen.described for chosen in evaluator.chosen},
        "queries": {
            "judged": len(evaluator.judged),
            "unjudged": measures.unjudged(view.queries(SPLIT), qrels),
            "without_results": missing,
        },
        "systems": measures.means(per_query),
    }
    per_query.to_parquet(job.out("per_query"), index=False)
    compared.to_parquet(job.out("comparisons"), index=False)
    job.out("summary").write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return {
        "systems": len(paths),
        "judged_queries": len(evaluator.judged),
        **{name: int((compared["outcome"] == name).sum()) for name in comparisons.OUTCOMES},
    }


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
