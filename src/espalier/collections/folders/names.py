"""How folders and their files are named; kept apart from reading them, which imports much."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espalier.errors import EspalierError

PREFIX = "folder:"
DOCS, QUERIES, QRELS, SPANS, RUN = "docs.tsv", "queries.tsv", "qrels.txt", "spans.json", "run.txt"
NEEDED = (DOCS, QUERIES, QRELS)

VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


def is_folder(dataset_id: str) -> bool:
    """Whether an id names a folder."""
    return dataset_id.startswith(PREFIX)


def place_of(dataset_id: str) -> tuple[Path, str | None]:
    """The folder and the split that an id names, environment variables filled in."""
    path, colon, split = dataset_id.removeprefix(PREFIX).partition(":")
    for variable in VARIABLE.findall(path):
        name = variable.strip("{}")
        if not os.environ.get(name):
            raise EspalierError(
                f"collection '{dataset_id}': environment variable {name} is not set; set it to the "
                "folder that is meant"
            )
    if not path or (colon and not split):
        raise EspalierError(f"collection '{dataset_id}': name it folder:path or folder:path:split")
    return Path(os.path.expandvars(path)).expanduser(), split or None


def files_of(view: Mapping[str, Any]) -> list[str]:
    """The files behind the folders that one view's config names, so that a change is noticed."""
    parts = [view, view.get("passages", view)]
    ids = [id_ for part in parts for id_ in (part["docs"], *part["splits"].values())]
    folders = dict.fromkeys(place_of(dataset_id)[0] for dataset_id in filter(is_folder, ids))
    paths = [folder / name for folder in folders for name in (*NEEDED, SPANS, RUN)]
    return [str(path) for path in paths if path.exists()]
