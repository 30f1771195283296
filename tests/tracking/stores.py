"""What a store shows of a made-up experiment."""

import json
import shutil
from collections import Counter

from espalier import cli
from tests.report import synthetic


def copied(made, folder):
    """The made-up results as an experiment of their own."""
    shutil.copytree(made, folder)
    return folder


def track(folder, papers=tuple(synthetic.SYSTEMS)):
    """Run the step; its counts."""
    assert cli.main(synthetic.track_arguments(folder, papers)) == 0
    return json.loads((folder / "tracked.json").read_text())


def active_runs(client, name):
    experiment = client.get_experiment_by_name(f"espalier/{name}")
    if experiment is None:
        return []
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


def shown(client, name):
    """Name, digest, and artifacts of every run."""
    return {
        run.info.run_name: (
            run.data.tags.get("espalier.digest"),
            tuple(sorted(item.path for item in client.list_artifacts(run.info.run_id))),
            run.info.status,
        )
        for run in active_runs(client, name)
    }


def model_versions(client, name):
    return Counter(
        (version.name, version.tags["sha256"])
        for version in client.search_model_versions(f"name LIKE '{name}.%'")
    )
