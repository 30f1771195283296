"""The collection on disk: made once per set of package versions, then read by everybody.

Folder `<ir_datasets home>/espalier/<name>-<digest>`: `passages.jsonl`, `documents.jsonl`,
`<split>.questions.jsonl`, `manifest.json`, and a document store beside either view's file.
"""

import gc
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import ir_datasets
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS, PickleLz4FullStore
from tqdm import tqdm

from espalier import files
from espalier.collections.pydocs.build import SPLITS, Collection, Doc, build
from espalier.collections.pydocs.pages import Page, pages_of
from espalier.collections.pydocs.sources import Package

log = logging.getLogger("espalier")

BUILDER_VERSION = 2
"""Raised whenever the same packages would give another collection."""

VIEWS = ("passages", "documents")


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


def folder_of(recipe: Recipe) -> Path:
    """The collection's folder, which is made first where it is missing."""
    identity = json.dumps([BUILDER_VERSION, asdict(recipe), recipe.versions], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    home = Path(ir_datasets.util.home_path()) / "espalier"
    folder = home / f"{recipe.name}-{digest}"
    if not folder.exists():
        with files.locked(home / f".{folder.name}.lock"):
            if not folder.exists():
                files.remove_leftovers(folder)
                with files.written_whole(folder) as temporary:
                    make(recipe, temporary)
    return folder


def make(recipe: Recipe, folder: Path) -> None:
    """Read the packages and write the collection into `folder`."""
    names = ", ".join(f"{p} {v}" for p, v in recipe.versions.items())
    log.info("making collection espalier/%s from the documentation of %s", recipe.name, names)
    with garbage_collection_paused():
        collection = build(pages_in(recipe))
    folder.mkdir(parents=True)
    write(folder / "passages.jsonl", collection.passages)
    write(folder / "documents.jsonl", collection.documents)
    for split in SPLITS:
        questions = (q for q in collection.questions if q.split == split)
        write(folder / f"{split}.questions.jsonl", questions)
    manifest = manifest_of(recipe, collection, folder)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    for view in VIEWS:
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


def manifest_of(recipe: Recipe, collection: Collection, folder: Path) -> dict[str, Any]:
    """What the collection was made from, what it holds, and the digest of that."""
    return {
        "name": f"espalier/{recipe.name}",
        "builder": BUILDER_VERSION,
        "versions": recipe.versions,
        "counts": {
            "passages": len(collection.passages),
            "documents": len(collection.documents),
            "queries": dict(sorted(Counter(q.split for q in collection.questions).items())),
        },
        "sha256": files.sha256_of(folder),
    }


def manifest(recipe: Recipe) -> dict[str, Any]:
    """The manifest of a collection."""
    content: dict[str, Any] = json.loads((folder_of(recipe) / "manifest.json").read_text())
    return content
