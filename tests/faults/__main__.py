"""`make faults`: the smoke chain killed, starved, damaged and crowded; its results must not differ.

An undisturbed chain is the reference. Another is killed at a seeded moment of as many stages and
resumed each time; then, finished, it meets every other fault in turn. After each its results are
compared with the reference. The last line says what was tried; exit status 1 on any loss.
"""

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults import damage, kills, places
from tests.faults.chain import Chain, contents, differences

log = logging.getLogger("faults")

SEED = 20211101


class Tally:
    """What was tried, how much of it was survived, and which results differed."""

    def __init__(self, reference: dict[str, Any]) -> None:
        self.reference = reference
        self.tried: dict[str, int] = {}
        self.survived = 0
        self.differing: set[str] = set()
        self.skipped: list[str] = []

    def add(self, name: str, count: int, chain: Chain, wrong: list[str]) -> None:
        """Count a fault of some kind after which the chain ended, and compare its results."""
        found = differences(self.reference, contents(chain.results))
        self.tried[name] = self.tried.get(name, 0) + count
        self.survived += 0 if wrong or found else count
        self.differing |= set(found)
        log.info("%s: %d tried, %s", name, count, "; ".join([*wrong, *found]) or "all survived")

    def line(self) -> str:
        """The last line."""
        kinds = ", ".join(f"{count} {name}" for name, count in self.tried.items())
        skipped = "".join(f"; skipped: {reason}" for reason in self.skipped)
        return (
            f"faults: {sum(self.tried.values())} tried ({kinds}), {self.survived} survived, "
            f"{len(self.differing)} of {len(self.reference)} results differ{skipped}"
        )

    @property
    def whole(self) -> bool:
        """Whether nothing was lost."""
        return self.survived == sum(self.tried.values()) and not self.differing


def killing(tally: Tally, chain: Chain, reference: Chain, count: int) -> None:
    """Kill a chain in `count` jobs, in a new folder for those that one chain went past."""
    wanted = kills.drawn(reference.results, count, SEED)
    if len(wanted) < count:
        raise SystemExit(f"--kills {count}: the chain has {len(wanted)} jobs; ask for fewer")
    for attempt in range(count):
        shutil.rmtree(chain.folder, ignore_errors=True)
        hit = kills.killed(chain, reference.results, wanted, SEED + attempt)
        for moment in hit:
            beside = f", beside {' and '.join(moment.beside)}" if moment.beside else ""
            log.info("killed %.1f s into %s%s", moment.seconds, moment.job, beside)
        tally.add("kills", len(hit), chain, damage.completed(chain))
        wanted = [job for job in wanted if job not in {moment.job for moment in hit}]
        if not wanted:
            return
    raise SystemExit(f"no kill met {', '.join(wanted)} while it ran")


def others(tally: Tally, chain: Chain) -> None:
    """Every other fault, one after another, on a finished chain."""

    def corrupted(damages: Sequence[damage.Damage]) -> list[str]:
        return damage.corrupted(chain, damages, SEED) + damage.completed(chain)

    def locks() -> list[str]:
        places.leave_locks(chain)
        damage.remove(chain.results / "colbert" / "runs")
        return damage.completed(chain)

    def crowded() -> list[str]:
        damage.remove(chain.results / "evaluation")
        return places.two_at_once(chain)

    for name, count, attempt in (
        ("truncated shards", len(damage.SHARDS), lambda: damage.truncated(chain, SEED)),
        ("corrupted list bytes", len(damage.LISTS), lambda: corrupted(damage.LISTS)),
        ("corrupted index bytes", len(damage.INDEXES), lambda: corrupted(damage.INDEXES)),
        ("deleted intermediates", len(damage.INTERMEDIATES), lambda: damage.deleted(chain)),
        ("stale locks", len(places.lock_files(chain)), locks),
        ("pair of chains at once", 1, crowded),
    ):
        tally.add(name, count, chain, attempt())
    try:
        wrong = places.full_disk(chain, places.FILLED, tally.reference)
    except PermissionError as reason:
        tally.skipped.append(str(reason))
    else:
        tally.add("full disks", len(places.FILLED), chain, wrong)


def main() -> int:
    """Run everything; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="espalier-faults-") as folder:
        reference = Chain(Path(folder, "undisturbed"))
        log.info("undisturbed chain in %s", reference.results)
        if wrong := damage.completed(reference):
            raise SystemExit(wrong[0])
        tally = Tally(contents(reference.results))
        chain = Chain(Path(folder, "killed"))
        killing(tally, chain, reference, given.kills)
        others(tally, chain)
    log.info("%.0f minutes", (time.monotonic() - started) / 60)
    print(tally.line())
    return 0 if tally.whole else 1


if __name__ == "__main__":
    sys.exit(main())
