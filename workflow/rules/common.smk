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
VIEW_OF = {"best": "documents", "colbert": "passages", "sparse": "passages"}


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
