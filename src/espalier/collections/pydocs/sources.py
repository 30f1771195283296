"""Python packages as source: which modules they hold, and under which public names.

Nothing is imported: modules are found on disk and parsed. A function or class is public when it
stands in a public module, or when a public package re-exports it from a private one; its public
name is the shortest of its paths, as `numpy.take` for `numpy._core.fromnumeric.take`.
"""

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from espalier.errors import EspalierError

LEFT_OUT = {"test", "tests", "testing", "externals", "extern", "conftest", "setup", "distutils"}
"""Folders and modules of tests, of build tools, and of other people's packages."""

Definition = ast.FunctionDef | ast.ClassDef
Origin = tuple[str, str]
"""Module and name under which something is defined."""


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        """Whether this is a package's `__init__.py`."""
        return self.path.name == "__init__.py"

    @property
    def is_public(self) -> bool:
        """Whether no part of the dotted name is private."""
        return "._" not in self.name

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.path.read_bytes())

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Public functions and classes by name, in the file's order; the first of a name counts."""
        found: dict[str, Definition] = {}
        for node in statements(self.tree.body):
            if isinstance(node, Definition) and not node.name.startswith("_"):
                found.setdefault(node.name, node)
        return found

    @cached_property
    def exported(self) -> set[str] | None:
        """The names of `__all__`; None when there is none or it is computed."""
        names: set[str] | None = None
        for node in self.tree.body:
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
                    try:
                        value = ast.literal_eval(node.value)
                    except ValueError:
                        return None
                    names = (names or set()) | set(value)
        return names


@dataclass
class Package:
    """All modules of one installed package."""

    name: str
    namespaces: dict[str, dict[str, Origin]] = field(default_factory=dict)

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Modules by dotted name, in sorted order; tests and foreign code left out."""
        specification = importlib.util.find_spec(self.name)
        if specification is None or not specification.submodule_search_locations:
            raise EspalierError(
                f"package '{self.name}', whose documentation is part of espalier/pydocs, is not "
                "installed; run `make setup`"
            )
        root = Path(specification.submodule_search_locations[0])
        found = {}
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            if any(p in LEFT_OUT or p.startswith("test_") or not p.isidentifier() for p in parts):
                continue
            inner = parts[:-1] if parts[-1] == "__init__" else parts
            name = ".".join((self.name, *inner))
            found[name] = Module(name, path)
        return dict(sorted(found.items()))

    def public_names(self) -> dict[Origin, str]:
        """The public name of every public function and class."""
        names: dict[Origin, str] = {}
        for module in self.modules.values():
            if not module.is_public:
                continue
            for name in module.definitions:
                origin = (module.name, name)
                names[origin] = shorter(names.get(origin), f"{module.name}.{name}")
            if module.is_package or module.exported is not None:
                for name, origin in self.namespace(module.name).items():
                    if module.exported is None or name in module.exported:
                        names[origin] = shorter(names.get(origin), f"{module.name}.{name}")
        return names

    def namespace(self, module_name: str) -> dict[str, Origin]:
        """Public names that a module defines or imports from within the package."""
        if module_name in self.namespaces:
            return self.namespaces[module_name]
        # Entered before it is filled: modules may import each other in circles.
        space = self.namespaces[module_name] = {}
        module = self.modules[module_name]
        for node in statements(module.tree.body):
            if isinstance(node, ast.ImportFrom):
                space.update(self.imported(module, node))
            elif isinstance(node, Definition) and not node.name.startswith("_"):
                space[node.name] = (module_name, node.name)
        return space

    def imported(self, module: Module, node: ast.ImportFrom) -> Iterator[tuple[str, Origin]]:
        """What one `from … import …` brings into a module from within the package."""
        source = node.module or ""
        if node.level:
            parts = module.name.split(".")
            above = len(parts) - node.level + (1 if module.is_package else 0)
            source = ".".join(filter(None, [*parts[:above], source]))
        target = self.modules.get(source)
        if target is None:
            return
        for alias in node.names:
            if alias.name == "*":
                for name, origin in self.namespace(source).items():
                    if target.exported is None or name in target.exported:
                        yield name, origin
            elif f"{source}.{alias.name}" not in self.modules:
                name = alias.asname or alias.name
                origin_of_name = self.namespace(source).get(alias.name)
                if origin_of_name is not None and not name.startswith("_"):
                    yield name, origin_of_name


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module or class, those under `if` and `try` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from statements([*node.body, *(s for h in node.handlers for s in h.body)])


def shorter(one: str | None, other: str) -> str:
    """The name with fewer parts; of two as long, the first in the alphabet."""
    return other if one is None else min(one, other, key=lambda name: (name.count("."), name))
