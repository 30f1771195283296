"""Names of pruned systems: an order, how many embeddings are searched, and in which index.

`icf-p03` searches the first three embeddings of ICF order; `icf-s0.5` as many as hold half of the
query's inverse collection frequency (`pruning.selective`); `-d0.5` after either says that the index
keeps half of each document's embeddings (`static`).
"""

import re
from typing import NamedTuple

from espalier.errors import EspalierError

PATTERN = re.compile(
    r"(?P<order>first|idf|icf-code|icf-unseen|random|icf)"
    r"-(?:p(?P<p>\d\d)|s(?P<share>[\d.]+))"
    r"(?:-d(?P<kept>[\d.]+))?"
)


class System(NamedTuple):
    """What a name says; one of `p` and `share` is given."""

    order: str
    p: int | None = None
    share: float | None = None
    kept: float = 1.0

    @property
    def name(self) -> str:
        """The system's name."""
        searched = f"s{self.share:g}" if self.p is None else f"p{self.p:02d}"
        return f"{self.order}-{searched}" + (f"-d{self.kept:g}" if self.kept < 1 else "")


def parsed(name: str) -> System:
    """The system of that name; EspalierError when it is none."""
    found = PATTERN.fullmatch(name)
    if not found:
        raise EspalierError(f"'{name}' is no pruned system; name one such as icf-p03 or icf-s0.5")
    order, p, share, kept = found.group("order", "p", "share", "kept")
    return System(
        order,
        None if p is None else int(p),
        None if share is None else float(share),
        1.0 if kept is None else float(kept),
    )


def wanted(
    orders: list[str],
    length: int,
    shares: list[float],
    static: list[str],
    kept: list[float],
) -> list[System]:
    """All systems: each order at every p, ICF by shares, and those searched in smaller indexes."""
    return [
        *(System(order, p) for order in orders for p in range(1, length + 1)),
        *(System("icf", share=share) for share in shares),
        *(parsed(name)._replace(kept=share) for share in kept for name in static),
    ]
