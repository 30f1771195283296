"""The collection on disk: made once per set of package versions, then read by everybody.

Folder `<ir_datasets home>/espalier/<name>-<digest>`: `passages.jsonl`, `documents.jsonl`,
`<split>.questions.jsonl`, `manifest.json`, and a document store beside either view's file.
Joined documents, with the questions that they answer, are in `<name>-joined-<digest>`.
"""

import gc
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import ir_datasets
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS, PickleLz4FullStore
from tqdm import tqdm

from espalier import files
from espalier.collections.pydocs.build import Doc, Question, build
from espalier.collections.pydocs.joined import join
from espalier.collections.pydocs.pages import Page, pages_of
from espalier.collections.pydocs.sources import Package
from espalier.collections.splits import SPLITS

log = logging.getLogger("espalier")

BUILDER_VERSION = 2
"""Raised whenever the same packages would give another collection."""

JOINER_VERSION = 1
"""Raised whenever the same collection would give other joined documents."""

VIEWS = ("passages", "documents", "joined")


@dataclass(frozen=True)
class Recipe:
    """A collection's name and the packages that it is made from (import name → distribution)."""

    name: str
    packages: dict[str, str]

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages; CPU and CUDA builds of one version are alike."""
        return {p: version(d).split("+")[0] for p, d in self.packages.items()}


PYDOCS = Recipe(
    "pydocs",
    {
        "numpy": "numpy",
        "scipy": "scipy",
        "sklearn": "scikit-learn",
        "pandas": "pandas",
        "matplotlib": "matplotlib",
        "networkx": "networkx",
        "sympy": "sympy",
        "torch": "torch",
    },
)
PYDOCS_MINI = Recipe("pydocs-mini", {"networkx": "networkx", "sklearn": "scikit-learn"})
RECIPES = (PYDOCS, PYDOCS_MINI)


def folder_of(recipe: Recipe, view: str) -> Path:
    """The folder that holds a view, which is made first where it is missing."""
    folder = place_of(recipe, view)
    if not folder.exists():
        with files.locked(folder.with_name(f".{recipe.name}.lock")):
            if not folder.exists():
                make(recipe)
    return folder


def place_of(recipe: Recipe, view: str) -> Path:
    """Where a view's folder is, or will be."""
    identity: list[Any] = [BUILDER_VERSION, asdict(recipe), recipe.versions]
    name = recipe.name
    if view == "joined":
        identity.append(JOINER_VERSION)
        name += "-joined"
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return Path(ir_datasets.util.home_path()) / "espalier" / f"{name}-{digest}"


def make(recipe: Recipe) -> None:
    """Read the packages, which takes longest, and write whichever of the two folders is missing."""
    names = ", ".join(f"{p} {v}" for p, v in recipe.versions.items())
    log.info("making collection espalier/%s from the documentation of %s", recipe.name, names)
    with garbage_collection_paused():
        collection = build(pages_in(recipe))
    joined = join(collection)
    pages = {"passages": collection.passages, "documents": collection.documents}
    for views, questions in (
        (pages, collection.questions),
        ({"joined": joined.documents}, joined.questions),
    ):
        folder = place_of(recipe, next(iter(views)))
        if not folder.exists():
            files.remove_leftovers(folder)
            with files.written_whole(folder) as temporary:
                write_all(recipe, views, questions, temporary)


def write_all(
    recipe: Recipe,
    views: Mapping[str, Sequence[Doc]],
    questions: Sequence[Question],
    folder: Path,
) -> None:
    """Write views, questions and manifest, then each view's document store."""
    folder.mkdir(parents=True)
    for view, documents in views.items():
        write(folder / f"{view}.jsonl", documents)
    for split in SPLITS:
        write(folder / f"{split}.questions.jsonl", (q for q in questions if q.split == split))
    counts: dict[str, Any] = {view: len(documents) for view, documents in views.items()}
    counts["queries"] = dict(sorted(Counter(q.split for q in questions).items()))
    manifest = manifest_of(recipe, counts, folder)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    for view in views:
        # Built here, under the lock: two jobs that built one store at once would both fill it.
        docstore(folder / f"{view}.jsonl").build()


def pages_in(recipe: Recipe) -> Iterator[Page]:
    """All pages of a recipe's packages."""
    for name in tqdm(recipe.packages, desc=f"espalier/{recipe.name}", unit="package", leave=False):
        yield from pages_of(Package(name))


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Millions of syntax-tree nodes stay alive while pages are made: do not walk them in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def write(path: Path, rows: Iterable[NamedTuple]) -> None:
    """Write named tuples as JSON lines."""
    with path.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(json.dumps(row._asdict()) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def docs(path: Path) -> Iterator[Doc]:
    """The documents of a view's file."""
    return (Doc(**row) for row in read(path))


def docstore(path: Path, field: str = "doc_id", options: Any = DEFAULT_DOCSTORE_OPTIONS) -> Any:
    """The store beside a view's file, in which its documents are looked up and sliced."""
    return PickleLz4FullStore(
        path=f"{path}.pklz4",
        init_iter_fn=lambda: docs(path),
        data_cls=Doc,
        lookup_field=field,
        index_fields=["doc_id"],
        options=options,
    )


def manifest_of(recipe: Recipe, counts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What the collection was made from, what it holds, and the digest of that."""
    return {
        "name": f"espalier/{recipe.name}",
        "builder": BUILDER_VERSION,
        "versions": recipe.versions,
        "counts": counts,
        "sha256": files.sha256_of(folder),
    }


def manifest(recipe: Recipe, view: str) -> dict[str, Any]:
    """The manifest of what holds a view."""
    content: dict[str, Any] = json.loads((folder_of(recipe, view) / "manifest.json").read_text())
    return content
