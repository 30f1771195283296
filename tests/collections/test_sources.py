from itertools import count
from textwrap import dedent

import pytest

from espalier.collections.pydocs.sources import Package
from espalier.errors import EspalierError

FILES = {
    "__init__.py": """
        from .shapes import area as surface
        from ._private import *
        from . import tools
    """,
    "shapes.py": """
        def area(): ...
        def _hidden(): ...
        if True:
            def volume(): ...
    """,
    "_private.py": """
        from ._deep import far
        __all__ = ["near", "far"]
        def near(): ...
        def kept(): ...
    """,
    "_deep.py": """
        from ._private import near
        def far(): ...
    """,
    "tools/__init__.py": """
        from ..shapes import volume
        from json import loads
    """,
    "tools/extra.py": """
        from .._private import kept
        class Tool: ...
        try:
            import x
        except ImportError:
            def slow(): ...
    """,
    "tests/test_shapes.py": "def test_area(): ...",
    "externals/other.py": "def foreign(): ...",
}
names = map("espalier_fake_{}".format, count())


@pytest.fixture
def package(tmp_path, monkeypatch):
    name = next(names)
    for path, text in FILES.items():
        file = tmp_path / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    return Package(name)


def test_public_names_are_the_shortest_paths(package):
    found = {
        ".".join(origin).removeprefix(package.name): name.removeprefix(package.name)
        for origin, name in package.public_names().items()
    }
    assert found == {
        ".shapes.area": ".surface",
        ".shapes.volume": ".shapes.volume",
        "._private.near": ".near",
        "._deep.far": ".far",
        ".tools.extra.Tool": ".tools.extra.Tool",
        ".tools.extra.slow": ".tools.extra.slow",
    }


def test_tests_and_foreign_code_are_left_out(package):
    assert not [name for name in package.modules if "test" in name or "externals" in name]


def test_nothing_is_imported(package):
    (package.modules[package.name].path).write_text("raise RuntimeError('imported')")
    assert package.modules


def test_absent_package_is_named():
    with pytest.raises(EspalierError, match="espalier_no_such_package"):
        _ = Package("espalier_no_such_package").modules
