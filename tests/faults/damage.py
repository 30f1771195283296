"""Files that were damaged while nothing ran: what a stage that reads them must notice."""

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.chain import Chain, leftovers


class Damage(NamedTuple):
    """An output, a file in it to damage, and an output of the stage that reads it next."""

    output: str
    file: str
    reader: str


SHARDS = (
    Damage("colbert/shards/0", "embeddings.npy", "colbert/inverted/1/0"),
    Damage("sparse/splade/shards/1", "learned.npy", "sparse/splade/inverted/1"),
)
LISTS = (
    Damage("colbert/inverted/1/0", "codes.npy", "colbert/indexes/1"),
    Damage("sparse/splade/inverted/1", "learned.npy", "sparse/splade/indexes/splade"),
)
INDEXES = (
    Damage("colbert/indexes/1", "index.faiss", "colbert/counts.parquet"),
    Damage("sparse/splade/indexes/splade", "union/docs.npy", "sparse/counts.parquet"),
)
INTERMEDIATES = (
    "best/s1/scores/maxp.parquet",
    "bm25/passages",
    "colbert/shards/1",
    "sparse/splade/queries.parquet",
)


def remove(path: Path) -> None:
    """Remove a file or folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def truncate(path: Path, seed: int) -> None:
    """Cut a file at a seeded place."""
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(random.Random(seed).randrange(size))


def flip(path: Path, seed: int) -> None:
    """Change one bit of a seeded byte."""
    draw = random.Random(seed)
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def truncated(chain: Chain, seed: int) -> list[str]:
    """Truncate a file of some shards of a finished chain and run it. Returns what went wrong."""
    for number, damage in enumerate(SHARDS):
        truncate(chain.results / damage.output / damage.file, seed + number)
    return made_again(chain, "truncated or altered", [damage.output for damage in SHARDS])


def deleted(chain: Chain) -> list[str]:
    """Delete outputs that others were made from and run the chain. Returns what went wrong."""
    for name in INTERMEDIATES:
        remove(chain.results / name)
    return made_again(chain, "missing", INTERMEDIATES)


def made_again(chain: Chain, lost: str, outputs: Sequence[str]) -> list[str]:
    """Run a chain that lacks outputs: it must say so of each, and end well."""
    finished = chain.run()
    lines = finished.stderr.splitlines()
    wrong = [
        f"no line on {output}: {lines[:9]}"
        for output in outputs
        if not any(line.startswith(f"{chain.results / output}: {lost}; '") for line in lines)
    ]
    return wrong + ended(chain, finished)


def corrupted(chain: Chain, damages: Sequence[Damage], seed: int) -> list[str]:
    """Change a bit of some outputs as though the chain had stopped before anything read them.

    Runs the chain, which must refuse each in one line that says what to do, and does that.
    Returns what went wrong.
    """
    for number, damage in enumerate(damages):
        flip(chain.results / damage.output / damage.file, seed + number)
        remove(chain.results / damage.reader)
    stopped = chain.run("--keep-going")
    last = stopped.stderr.splitlines()[-len(damages) :]
    wrong = [] if stopped.returncode else ["a chain on corrupted bytes succeeded"]
    for damage in damages:
        path = chain.results / damage.output
        lines = [line for line in last if line.startswith(f"espalier: error: {path}")]
        if not any(line.endswith("delete it and run again") for line in lines):
            wrong.append(f"no line on {damage.output}: {last}")
        remove(path)
    return wrong


def completed(chain: Chain) -> list[str]:
    """Run the chain to its end; what went wrong."""
    return ended(chain, chain.run())


def ended(chain: Chain, finished: subprocess.CompletedProcess[str]) -> list[str]:
    """What went wrong in a run that should have ended well."""
    if finished.returncode:
        return [f"not completed: {finished.stderr[-2000:]}"]
    return [f"left behind: {name}" for name in leftovers(chain.results)]
