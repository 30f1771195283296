"""The built-in collection: the documentation of the Python packages that Espalier stands on.

Real text by many hands that every installation has. Views `espalier/pydocs/passages` (one
function or method each) and `espalier/pydocs/documents` (one page per module or class), each
with `/train`, `/dev` and `/test`; `espalier/pydocs-mini/…` is the same from two packages.
"""

from espalier.collections.pydocs.datasets import manifest_of, register

__all__ = ["manifest_of", "register"]
