"""Python packages as source: which modules they hold, and under which public names.

Nothing is imported: modules are found on disk and parsed. A function or class is public when it
stands in a public module, or when a public package re-exports it from a private one; its public
name is the shortest of its paths, as `numpy.take` for `numpy._core.fromnumeric.take`.
"""

import ast
import importlib.util
import warnings
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
        with warnings.catch_warnings():
            # Newer Pythons warn of escapes in other people's strings.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
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
    def imports(self) -> dict[str, Origin]:
        """Public names brought in by `from … import …`, each with its module and name there."""
        return {
            alias.asname or alias.name: (self.source(node), alias.name)
            for node in statements(self.tree.body)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if not (alias.asname or alias.name).startswith(("_", "*"))
        }

    @cached_property
    def stars(self) -> list[str]:
        """Modules of which everything is imported."""
        return [
            self.source(node)
            for node in statements(self.tree.body)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ]

    def source(self, node: ast.ImportFrom) -> str:
        """The absolute name of the module that an import names."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        above = len(parts) - node.level + (1 if self.is_package else 0)
        return ".".join(filter(None, [*parts[:above], node.module]))

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
    found: dict[Origin, Origin | None] = field(default_factory=dict)

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
        """The public name of every public function and class: the first of the shortest."""
        public = [module for module in self.modules.values() if module.is_public]
        names = {(m.name, name): f"{m.name}.{name}" for m in public for name in m.definitions}
        for module in public:
            if module.is_package or module.exported is not None:
                for name in sorted(self.names_in(module.name, frozenset())):
                    origin = self.origin(module.name, name)
                    path = f"{module.name}.{name}"
                    if origin and path.count(".") < names.get(origin, path + ".").count("."):
                        names[origin] = path
        return names

    def names_in(self, module_name: str, above: frozenset[str]) -> set[str]:
        """Public names that a module offers; `above` are the modules whose stars led here."""
        module = self.modules[module_name]
        if module.exported is not None:
            return {name for name in module.exported if not name.startswith("_")}
        names = {*module.definitions, *module.imports}
        above |= {module_name}
        for source in module.stars:
            if source in self.modules and source not in above:
                names |= self.names_in(source, above)
        return names

    def origin(self, module_name: str, name: str) -> Origin | None:
        """Where in this package the thing is defined that a module offers under a name."""
        key = (module_name, name)
        if key not in self.found:
            # None at first: modules import each other in circles.
            self.found[key] = None
            self.found[key] = self.search(self.modules[module_name], name)
        return self.found[key]

    def search(self, module: Module, name: str) -> Origin | None:
        """Look among a module's definitions, then its imports, then what its stars bring."""
        if name in module.definitions:
            return module.name, name
        if name in module.imports:
            source, original = module.imports[name]
            is_module = f"{source}.{original}" in self.modules
            return (
                None if is_module or source not in self.modules else self.origin(source, original)
            )
        for source in module.stars:
            if source in self.modules and name in self.names_in(source, frozenset()):
                found = self.origin(source, name)
                if found is not None:
                    return found
        return None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module or class, those under `if` and `try` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from statements([*node.body, *(s for h in node.handlers for s in h.body)])
