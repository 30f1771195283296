# What the rules share: the checks before any work, the results folder, each stage's settings,
# each stage's own code.
import json
import os
import sys
from pathlib import Path

from espalier import config as configuration
from espalier.best import parts as best
from espalier.collections.folders.names import files_of
from espalier.errors import EspalierError
from espalier.resources import TEXT_KB, memory, minutes
from espalier.tracking.code import files_behind

if workflow.is_main_process:
    try:
        configuration.check(config, Path(workflow.basedir))
    except EspalierError as error:
        print(f"espalier: error: {error}", file=sys.stderr)
        sys.exit(1)

PAPERS = config["papers"]
VIEWS = configuration.views_of(config)
TRAINS_ENCODER = configuration.trains_encoder(config)
WEIGHTINGS = configuration.weightings_of(config)
KEPT = [f"{share:g}" for share in (1, *config["colbert"]["static"]["kept"])]
PARTS = best.parts(config)
RANKERS = best.rankers(config)
THETAS = best.iterations(config)
SEPARATE = [ranker for ranker in RANKERS if ranker not in ("theta0", "theta1")]
STEPS = [theta.removeprefix("theta") for theta in THETAS[1:]]
SHARDS = range(config["best"]["shards"])


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


def flat_settings(*keys):
    """The values of dotted keys under their last parts, and the seed, as JSON."""
    found = {"seed": config["seed"]}
    for key in keys:
        value = config
        for part in key.split("."):
            value = value[part]
        found[part] = value
    return json.dumps(found, sort_keys=True)


def number(key, default):
    """The number under a dotted key, or `default` where that or a section above it is not set."""
    value = config
    for part in key.split("."):
        value = (value or {}).get(part)
    return default if value is None else value


def processes(key):
    """In how many processes a training runs: `processes` under a dotted key, or one."""
    return number(f"{key}.processes", 1)


def launch(key):
    """How a training starts: the command, or torchrun with the `processes` under a dotted key."""
    if processes(key) == 1:
        return "espalier"
    # After "--" torchrun leaves options alone: it would take --log for one of its own.
    return f"torchrun --standalone --nproc-per-node {processes(key)} -m -- espalier"


def source_of(weighting):
    """The name of the weighting whose shards a weighting uses: its own, or that it is `of`."""
    return WEIGHTINGS[weighting].get("of", weighting)


def inverted_of(wildcards):
    """All inverted shards that a weighting's indexes are merged from."""
    source = source_of(wildcards.weighting)
    shards = range(config["sparse"]["shards"])
    return expand(f"<results>/sparse/{source}/inverted/{{shard}}", shard=shards)


def expansions_of(wildcards):
    """Files of predicted queries for one slice: a checkpoint's, some that were given, or none."""
    expansion = WEIGHTINGS[wildcards.weighting].get("expansion", {})
    if "model" in expansion:
        return [
            f"<results>/sparse/{wildcards.weighting}/questions/{wildcards.shard}.jsonl"
        ]
    return [expansion["questions"]] if "questions" in expansion else []


def optional(option, files):
    """An option with the files of an input function, nothing when there are none."""

    def given(wildcards, input):
        return f"{option} {input.expansions}" if files(wildcards) else ""

    return given


def shard_settings(wildcards):
    """A slice of the collection, and the weighting that it is encoded for."""
    return json.dumps(
        {
            "seed": config["seed"],
            "weighting": WEIGHTINGS[wildcards.weighting],
            "shard": int(wildcards.shard),
            "shards": config["sparse"]["shards"],
        },
        sort_keys=True,
    )


def index_settings(wildcards):
    """How a weighting's indexes are built."""
    source = source_of(wildcards.weighting)
    own = {
        "own_terms": source != wildcards.weighting,
        "delimiter": WEIGHTINGS[source].get("segments", {}).get("delimiter"),
    }
    keys = ["sparse.block_size", "sparse.partition_by", "sparse.bits"]
    keys += ["sparse.reordered", "bm25.k1", "bm25.b"]
    return json.dumps({**json.loads(flat_settings(*keys)), **own}, sort_keys=True)


def query_settings(wildcards):
    """How a weighting's queries are encoded."""
    source = source_of(wildcards.weighting)
    own = {
        "own_terms": source != wildcards.weighting,
        "weighting": WEIGHTINGS[source],
    }
    return json.dumps(
        {**json.loads(flat_settings("sparse.bm25_scale")), **own}, sort_keys=True
    )


def export_settings(wildcards):
    """The side that is exported."""
    return json.dumps({"seed": config["seed"], "side": wildcards.side})


def part_settings(*keys, **others):
    """As `settings`, with the seed of the part and the wildcards named (key=wildcard)."""

    def chosen(wildcards):
        found = json.loads(settings(*keys))
        for key, wildcard in others.items():
            value = getattr(wildcards, wildcard)
            found[key] = int(value) if value.isdigit() else value
        return json.dumps({**found, "seed": PARTS[wildcards.part].seed}, sort_keys=True)

    return chosen


def segment_settings(wildcards):
    """The settings of a part's segments, with the splits that it is trained and tested on."""
    keys = ["models.ranker", "best.segments", "best.instances"]
    keys += ["best.training.dev_depth", "best.reranking.depth"]
    found = json.loads(part_settings(*keys)(wildcards))
    return json.dumps({**found, "splits": PARTS[wildcards.part].splits}, sort_keys=True)


def quality_settings(wildcards):
    """What each part is: its replicate and splits."""
    about = {name: part._asdict() for name, part in PARTS.items()}
    return json.dumps({"seed": config["seed"], "parts": about}, sort_keys=True)


def ranker_before(wildcards):
    """BeST's ranker of the iteration before."""
    return f"<results>/best/{wildcards.part}/models/theta{int(wildcards.step) - 1}"


def selections_for(wildcards):
    """The shards of what the ranker before has selected; none for what needs no selection."""
    step = wildcards.model.removeprefix("theta")
    if step not in STEPS:
        return []
    return expand(
        f"<results>/best/{wildcards.part}/selections/{step}/{{shard}}.parquet",
        shard=SHARDS,
    )


def folds_of(wildcards):
    """The runs of a ranker in each fold of a replicate."""
    own = [
        name for name, part in PARTS.items() if part.replicate == wildcards.replicate
    ]
    return expand(f"<results>/best/{{part}}/runs/{wildcards.model}", part=own)


def view_settings(wildcards):
    """The settings of one view's snapshot."""
    view = configuration.view_of(config, wildcards.view)
    view.pop("candidates", None)
    return json.dumps({"seed": config["seed"], "view": view}, sort_keys=True)


def view_files(wildcards):
    """The files of a view's folders, where it is a collection of the user's own."""
    return files_of(configuration.view_of(config, wildcards.view))


def candidate_settings(wildcards):
    """Where a view's candidates come from, and how BM25 finds its own."""
    kind = configuration.view_of(config, wildcards.view).get("candidates", "bm25")
    return json.dumps(
        {**json.loads(settings("bm25")), "candidates": kind}, sort_keys=True
    )


def paper_settings(wildcards):
    """The settings of one paper's evaluation: how runs are measured, its own families."""
    shared = ("measures", "relevance_levels", "alpha", "margin", "bootstrap_samples")
    evaluation = {key: config["evaluation"][key] for key in shared}
    evaluation["families"] = families_of("families", wildcards.paper)
    evaluation["own_runs"] = sorted(run_files("own_runs", wildcards.paper))
    evaluation["originals"] = sorted(run_files("original_runs", wildcards.paper))
    chosen = {"seed": config["seed"], "paper": wildcards.paper}
    return json.dumps({**chosen, "evaluation": evaluation}, sort_keys=True)


def latency_settings(wildcards):
    """The settings of one paper's ratios of times."""
    shared = ("alpha", "bootstrap_samples")
    evaluation = {key: config["evaluation"][key] for key in shared}
    evaluation["families"] = families_of("latencies", wildcards.paper)
    return json.dumps(
        {"seed": config["seed"], "evaluation": evaluation}, sort_keys=True
    )


def families_of(kind, paper):
    """A paper's families of comparisons, with names in place of {weighting} and {own}."""
    families = config["evaluation"][kind][paper]
    if paper == "sparse":
        families = [
            json.loads(json.dumps(family).replace("{weighting}", weighting))
            for family in families
            for weighting in WEIGHTINGS
        ]
    own = sorted(run_files("own_runs", paper))
    spelt = [
        {
            **family,
            "systems": [
                system
                for pattern in family["systems"]
                for system in (own if pattern == "{own}" else [pattern])
            ],
        }
        for family in families
    ]
    return [family for family in spelt if family["systems"]]


def run_files(kind, paper):
    """Run files that the config names for a paper, by system."""
    return config["evaluation"][kind].get(paper, {})


def own_settings(wildcards):
    """The names of a paper's runs that are the user's own, as `own_files` has them."""
    names = sorted(run_files("own_runs", wildcards.paper))
    return json.dumps({"seed": config["seed"], "names": names})


def own_files(wildcards):
    """A paper's runs that are the user's own, by name."""
    return [path for _, path in sorted(run_files("own_runs", wildcards.paper).items())]


def original_files(wildcards):
    """The run files of a paper's authors, by system."""
    return [
        path for _, path in sorted(run_files("original_runs", wildcards.paper).items())
    ]


def paper_qrels(wildcards):
    """Judgments in place of those of a paper's test split, if the config names any."""
    qrels = config["evaluation"]["own_qrels"]
    return [qrels[wildcards.paper]] if wildcards.paper in qrels else []


def code(*modules):
    """Our own files behind the modules named (without 'espalier.'), so that edits re-run.

    They are part of the checkout, even where results are kept in a storage elsewhere.
    """
    return local(files_behind(*(f"espalier.{module}" for module in modules)))


def commands(room):
    """The file with a room's verbs (named on its own: its imports reach the whole room)."""
    return own(f"src/espalier/{room}/commands.py")


def own(path):
    """A file of the checkout."""
    return local(os.path.join(workflow.basedir, path))


def paper_view(wildcards):
    """The snapshot whose test split a paper is evaluated on."""
    return f"<results>/collection/{configuration.VIEWS[wildcards.paper][0]}"


def paper_bm25(wildcards):
    """BM25's runs on the same snapshot."""
    return f"<results>/bm25/{configuration.VIEWS[wildcards.paper][0]}"


def run_folders(paper):
    """Folders with the runs of a paper's systems, and with those of the user's own."""
    own = [f"<results>/{paper}/own"] if run_files("own_runs", paper) else []
    if paper == "best":
        return own + expand(
            "<results>/best/{replicate}/runs/{model}",
            replicate=best.replicates(config),
            model=best.ranked(config),
        )
    return [f"<results>/{paper}/runs"] + own


def paper_runs(wildcards):
    """Folders with the runs of the paper that a rule evaluates."""
    return run_folders(wildcards.paper)


def cost_tables():
    """What each query cost, for the papers on efficiency that run."""
    papers = [paper for paper in ("colbert", "sparse") if paper in PAPERS]
    return expand(
        "<results>/{paper}/{table}.parquet", paper=papers, table=["counts", "latency"]
    )


def comparison_tables():
    """What is compared beside measures: times, and our runs with original ones."""
    timed = [paper for paper in ("colbert", "sparse") if paper in PAPERS]
    given = [paper for paper in PAPERS if run_files("original_runs", paper)]
    return expand(
        "<results>/evaluation/{paper}.latencies.parquet", paper=timed
    ) + expand("<results>/evaluation/{paper}.reproduction.parquet", paper=given)


def selection_tables():
    """What the papers that run have beside runs and costs."""
    tables = []
    if "best" in PAPERS:
        tables += expand(
            "<results>/best/{table}.parquet",
            table=["data", "selection", "iterations", "history"],
        )
    if "sparse" in PAPERS:
        tables += expand(
            "<results>/sparse/{weighting}/weights.parquet", weighting=WEIGHTINGS
        )
    return tables


def record_files():
    """The record of every stage that results come from."""
    names = expand("collections-{verb}-{view}", verb=["snapshot", "bm25"], view=VIEWS)
    names += expand("evaluation-evaluate-{paper}", paper=PAPERS) + ["evaluation-claims"]
    for paper in PAPERS:
        if paper in ("colbert", "sparse"):
            names.append(f"evaluation-latencies-{paper}")
        if run_files("own_runs", paper):
            names.append(f"evaluation-adopt-{paper}")
        if run_files("original_runs", paper):
            names.append(f"evaluation-reproduction-{paper}")
    if "best" in PAPERS:
        names += expand("best-segment-{part}", part=PARTS)
        names += expand("best-train-{part}-{model}", part=PARTS, model=SEPARATE)
        names += expand(
            "best-select-{part}-{step}-{shard}", part=PARTS, step=STEPS, shard=SHARDS
        )
        names += expand("best-rerank-{part}-{model}", part=PARTS, model=RANKERS)
        if THETAS:
            names += expand(
                "best-{verb}-{part}", verb=["train-joint", "pick"], part=PARTS
            )
        if config["best"]["folds"]:
            names += expand(
                "best-join-folds-{replicate}-{model}",
                replicate=best.replicates(config),
                model=best.ranked(config),
            )
        names += ["best-describe", "best-selection-quality"]
    if "colbert" in PAPERS:
        names += [f"colbert-{verb}" for verb in ["train", "sweep", "latency"]]
        if config["colbert"]["store"]["bits"] < 16:
            names.append("colbert-codec")
        shards = range(config["colbert"]["shards"])
        names += expand("colbert-{verb}-{kept}", verb=["quantizer", "index"], kept=KEPT)
        names += expand("colbert-invert-{kept}-{shard}", kept=KEPT, shard=shards)
        names += expand("colbert-encode-{shard}", shard=shards)
    if "sparse" in PAPERS:
        names += ["sparse-retrieve", "sparse-latency"]
        names += expand(
            "sparse-{verb}-{weighting}",
            verb=["index", "encode-queries"],
            weighting=WEIGHTINGS,
        )
        for weighting in {source_of(name): None for name in WEIGHTINGS}:
            shards = range(config["sparse"]["shards"])
            verbs = ["encode", "invert"]
            if "model" in WEIGHTINGS[weighting].get("expansion", {}):
                verbs.append("expand")
            names += expand(
                f"sparse-{{verb}}-{weighting}-{{shard}}", verb=verbs, shard=shards
            )
    return expand("<results>/records/{name}.json", name=names)


def minutes_each(key, seconds):
    """Minutes for as many items as a dotted key says, so many seconds each."""
    return number(key, 0) * seconds / 60


def all_cores():
    """All cores of a local run; on a cluster the profile's set-threads stands in its place."""
    return workflow.resource_settings.cores or 1


def gpus(key=None):
    """GPUs of a stage that can use one: one for each of the `processes` under a dotted key."""
    return int(config["gpu"]) * (processes(key) if key else 1)
