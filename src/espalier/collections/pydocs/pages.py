"""The pages of a documentation site: one for each module and each class, with their members."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from espalier.collections.pydocs.docstrings import plain, split_summary
from espalier.collections.pydocs.sources import Definition, Module, Package, statements

DEPRECATED = re.compile(r"^\s*\.\. deprecated::|^\W*deprecated\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Member:
    """A public, documented function or method."""

    name: str
    """Qualified public name."""
    signature: str
    summary: str
    text: str
    """The docstring without its summary."""


@dataclass(frozen=True)
class Page:
    """A module with its functions, or a class with its methods."""

    name: str
    text: str
    """The module's or class's own docstring."""
    members: tuple[Member, ...]


def pages_of(package: Package) -> Iterator[Page]:
    """The pages of one package, modules in sorted order, each before its classes."""
    names = package.public_names()
    reached = {module for module, _ in names}
    for module in package.modules.values():
        if module.is_public or module.name in reached:
            yield module_page(module, names)
            for definition in module.definitions.values():
                name = names.get((module.name, definition.name))
                if isinstance(definition, ast.ClassDef) and name and not deprecated(definition):
                    yield class_page(definition, name)


def module_page(module: Module, names: dict[tuple[str, str], str]) -> Page:
    """A module's docstring, where the module is public, and its functions."""
    functions = (
        (names[module.name, name], node)
        for name, node in module.definitions.items()
        if isinstance(node, ast.FunctionDef) and (module.name, name) in names
    )
    text = plain(ast.get_docstring(module.tree) or "") if module.is_public else ""
    return Page(module.name, text, members(functions))


def class_page(definition: ast.ClassDef, name: str) -> Page:
    """A class's docstring and its methods."""
    methods: dict[str, ast.FunctionDef] = {}
    for node in statements(definition.body):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            methods.setdefault(node.name, node)
    pairs = ((f"{name}.{method}", node) for method, node in methods.items())
    return Page(name, plain(ast.get_docstring(definition) or ""), members(pairs))


def members(named: Iterator[tuple[str, ast.FunctionDef]]) -> tuple[Member, ...]:
    """The documented members among functions, with their texts."""
    found = []
    for name, node in named:
        docstring = ast.get_docstring(node)
        if docstring and not deprecated(node):
            summary, text = split_summary(docstring)
            found.append(Member(name, f"{name}({ast.unparse(node.args)})", summary, text))
    return tuple(found)


def deprecated(node: Definition) -> bool:
    """Whether a decorator or the head of the docstring says so."""
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    docstring = ast.get_docstring(node) or ""
    return "deprecated" in decorators.lower() or bool(DEPRECATED.search(docstring[:400]))
