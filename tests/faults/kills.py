"""A chain that is killed again and again, each time in another stage, and goes on."""

import itertools
import json
import random
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from tests.faults.chain import Chain, kill

POLL = 0.02
"""Seconds between two looks at a stage's log."""


class Moment(NamedTuple):
    """When a chain is killed: some seconds after a stage has begun."""

    stage: str
    seconds: float


def moments(results: Path, count: int, seed: int) -> list[Moment]:
    """Seeded moments in `count` stages of a finished chain, in the order in which they ran.

    The stages are drawn one from each of `count` stretches of the chain; the moment is anywhere
    between a stage's beginning and a little after its end, when its outputs get their names.
    """
    draw = random.Random(seed)
    costs = {
        p.stem: json.loads(p.read_text())["cost"] for p in (results / "records").glob("*.json")
    }
    order = sorted(costs, key=lambda name: costs[name]["started"])
    bounds = [len(order) * i // count for i in range(count + 1)]
    chosen = [draw.choice(order[a:b]) for a, b in itertools.pairwise(bounds)]
    return [Moment(name, draw.uniform(0, 1.1) * costs[name]["wall_seconds"]) for name in chosen]


def killed(chain: Chain, planned: list[Moment]) -> list[Moment]:
    """Start the chain and kill it at each moment in turn; the moments at which it was killed.

    A stage that was finished beside one that was killed before does not run again: its moment
    has passed.
    """
    hit = []
    for moment in planned:
        if chain.record(moment.stage).exists():
            continue
        log = chain.results / "logs" / f"{moment.stage}.log"
        before = log.stat().st_mtime_ns if log.exists() else 0
        process = chain.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (log.exists() and log.stat().st_mtime_ns > before):
            time.sleep(POLL)
        try:
            process.wait(timeout=moment.seconds)
        except subprocess.TimeoutExpired:
            kill(process)
            hit.append(moment)
    return hit
