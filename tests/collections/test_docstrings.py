import pytest

from espalier.collections.pydocs.docstrings import plain, split_summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See :func:`~a.b.c` and :class:`a.B`.", "See c and a.B."),
        ("See :ref:`the guide <guide>`.", "See the guide."),
        ("Uses ``x * y`` and `n` of `~a.Axis`.", "Uses x * y and n of Axis."),
        ("*All* of **them**, 2 * 3 * 4", "All of them, 2 * 3 * 4"),
        ("Read `the docs <https://example.org>`_ [1]_.", "Read the docs."),
        ("Parameters\n----------\nx : int", "Parameters\nx : int"),
        (".. versionadded:: 1.2\n\nText", "Text"),
        (".. math::\n\n   a + b", "a + b"),
        ("One\n%(template)s\nTwo", "One\nTwo"),
        ("One\n\n\n\nTwo  ", "One\n\nTwo"),
    ],
)
def test_plain(text, expected):
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Sum of all.", ("Sum of all.", "")),
        ("Sum\nof all.\n\nMore here.", ("Sum of all.", "More here.")),
        ("Sum of all. It adds.\n\nMore.", ("Sum of all.", "It adds.\n\nMore.")),
        ("Sum, e.g. of all.\n\nMore.", ("Sum, e.g. of all.", "More.")),
        ("sum(a, b=None)\n\nSum of all.\n\nMore.", ("Sum of all.", "More.")),
        ("Parameters\n----------\nx : int", ("", "Parameters\nx : int")),
        ("Args:\n\n    x: a number", ("", "Args:\n\n    x: a number")),
    ],
)
def test_split_summary(docstring, expected):
    assert split_summary(docstring) == expected
