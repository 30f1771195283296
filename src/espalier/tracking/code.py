"""Which of our own files a stage's result depends on: the imports of its modules, followed."""

import ast
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[2]

PLUMBING = {"espalier", "espalier.cli", "espalier.errors", "espalier.stage"}
"""Modules that carry a stage without touching its results: an edit there re-runs nothing."""


def source_of(module: str) -> Path | None:
    """The file of one of our modules or packages; None for a name that is not a module."""
    stem = PACKAGE_ROOT.joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def imports_of(path: Path) -> set[str]:
    """Names of our own that a file imports anywhere in it, functions included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.startswith("espalier")}


def files_behind(*modules: str) -> list[str]:
    """Files of the modules named and of all of ours that they import, directly or not; sorted.

    Raises ValueError for a name that is not one of our modules.
    """
    unknown = [m for m in modules if source_of(m) is None]
    if unknown:
        raise ValueError(f"no module of espalier: {', '.join(unknown)}")
    found: dict[str, Path] = {}
    todo = list(modules)
    while todo:
        module = todo.pop()
        path = source_of(module)
        if path is None or module in found or module in PLUMBING:
            continue
        found[module] = path
        todo.extend(imports_of(path))
    return sorted({str(path) for path in found.values()})
