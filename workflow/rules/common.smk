# What the rules share: the checks before any work, the results folder, each stage's settings,
# each stage's own code.
import json
import sys
from pathlib import Path

from espalier import config as configuration
from espalier.errors import EspalierError
from espalier.tracking.code import files_behind

if workflow.is_main_process:
    try:
        configuration.check(config, Path(workflow.basedir))
    except EspalierError as error:
        print(f"espalier: error: {error}", file=sys.stderr)
        sys.exit(1)

PAPERS = config["papers"]
VIEWS = configuration.views_of(config)
STEPS = range(2, config["best"]["iterations"] + 1)
RANKERS = ["maxp", "theta0", "theta1", *(f"theta{step}" for step in STEPS)]


pathvars:
    results=f"{config['results']}/{config['experiment']}",


def settings(*keys):
    """The parts of the config named by dotted keys, and the seed, as JSON: what a stage may see.

    Snakemake re-runs a rule when this text changes, so a rule names what it uses and no more.
    """
    chosen = {"seed": config["seed"]}
    for key in keys:
        *parents, last = key.split(".")
        source, target = config, chosen
        for parent in parents:
            source, target = source[parent], target.setdefault(parent, {})
        target[last] = source[last]
    return json.dumps(chosen, sort_keys=True)


def settings_with(wildcard, *keys):
    """As `settings`, with the value of a wildcard beside them."""

    def chosen(wildcards):
        value = getattr(wildcards, wildcard)
        found = json.loads(settings(*keys))
        found[wildcard] = int(value) if value.isdigit() else value
        return json.dumps(found, sort_keys=True)

    return chosen


def ranker_before(wildcards):
    """BeST's ranker of the iteration before."""
    return f"<results>/best/models/theta{int(wildcards.step) - 1}"


def view_settings(wildcards):
    """The settings of one view's snapshot."""
    view = config["collections"][wildcards.view]
    return json.dumps({"seed": config["seed"], "view": view}, sort_keys=True)


def paper_settings(wildcards):
    """The settings of one paper's evaluation: what all share, and its own families."""
    evaluation = dict(config["evaluation"])
    families = evaluation.pop("families")[wildcards.paper]
    chosen = {"seed": config["seed"], "paper": wildcards.paper}
    return json.dumps(
        {**chosen, "evaluation": {**evaluation, "families": families}}, sort_keys=True
    )


def code(*modules):
    """Our own files behind the modules named (without 'espalier.'), so that edits re-run."""
    return files_behind(*(f"espalier.{module}" for module in modules))


def commands(room):
    """The file with a room's verbs (named on its own: its imports reach the whole room)."""
    return os.path.join(workflow.basedir, "src", "espalier", room, "commands.py")


def paper_view(wildcards):
    """The snapshot whose test split a paper is evaluated on."""
    return f"<results>/collection/{configuration.VIEWS[wildcards.paper][0]}"


def paper_bm25(wildcards):
    """BM25's runs on the same snapshot."""
    return f"<results>/bm25/{configuration.VIEWS[wildcards.paper][0]}"


def run_folders(paper):
    """Folders with a paper's own runs."""
    if paper == "best":
        return expand("<results>/best/runs/{model}", model=RANKERS)
    return [f"<results>/{paper}/runs"]


def paper_runs(wildcards):
    """Folders with the runs of the paper that a rule evaluates."""
    return run_folders(wildcards.paper)


def cost_tables():
    """What each query cost, for the papers on efficiency that run."""
    papers = [paper for paper in ("colbert", "sparse") if paper in PAPERS]
    return expand(
        "<results>/{paper}/{table}.parquet", paper=papers, table=["counts", "latency"]
    )


def selection_tables():
    """What the papers that run have beside runs and costs."""
    tables = []
    if "best" in PAPERS:
        tables += ["<results>/best/selection.parquet", "<results>/best/history.parquet"]
    if "sparse" in PAPERS:
        tables += ["<results>/sparse/weights.parquet"]
    return tables


def record_files():
    """The record of every stage that results come from."""
    names = expand("collections-{verb}-{view}", verb=["snapshot", "bm25"], view=VIEWS)
    names += expand("evaluation-evaluate-{paper}", paper=PAPERS) + ["evaluation-claims"]
    if "best" in PAPERS:
        names += ["best-segment", "best-train-first", "best-train-joint"]
        names += expand("best-{verb}-{step}", verb=["select", "train"], step=STEPS)
        names += expand("best-rerank-{model}", model=RANKERS) + [
            "best-selection-quality"
        ]
    for paper, verbs in {
        "colbert": ["train", "index", "sweep", "latency"],
        "sparse": ["index", "encode-queries", "retrieve", "latency"],
    }.items():
        if paper in PAPERS:
            shards = range(config[paper]["shards"])
            names += [f"{paper}-{verb}" for verb in verbs]
            names += [f"{paper}-encode-{shard}" for shard in shards]
    return expand("<results>/records/{name}.json", name=names)
