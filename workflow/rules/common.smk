# What the rules share: the results folder, each stage's settings, each stage's own code.
import json

from espalier.tracking.code import files_behind


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


def code(*modules):
    """Our own files behind the modules named (without 'espalier.'), so that edits re-run."""
    return files_behind(*(f"espalier.{module}" for module in modules))


def commands(room):
    """The file with a room's verbs (named on its own: its imports reach the whole room)."""
    return os.path.join(workflow.basedir, "src", "espalier", room, "commands.py")


def targets():
    """The files that the config asks for."""
    return ["<results>/colbert/model"]
