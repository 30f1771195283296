"""A chain that is killed again and again, each time in another stage, and goes on."""

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
    """When a chain was killed: some seconds after a stage had begun."""

    stage: str
    seconds: float


def killed(chain: Chain, reference: Path, count: int, seed: int) -> list[Moment]:
    """Start the chain and kill it, `count` times if it has so many stages; the moments.

    The stages that have not yet run, in the order in which they did in the results `reference`,
    are cut into as many stretches as kills are left; a stage is drawn from the first. The moment
    is anywhere between its beginning and a little after its end, when its outputs get their names.
    """
    draw = random.Random(seed)
    paths = (reference / "records").glob("[!.]*.json")
    costs = {path.stem: json.loads(path.read_text())["cost"] for path in paths}
    order = sorted(costs, key=lambda name: costs[name]["started"])
    hit: list[Moment] = []
    while len(hit) < count:
        waiting = [name for name in order if not chain.record(name).exists()]
        if not waiting:
            break
        stage = draw.choice(waiting[: max(1, len(waiting) // (count - len(hit)))])
        moment = Moment(stage, draw.uniform(0, 1.1) * costs[stage]["wall_seconds"])
        if killed_at(chain, moment):
            hit.append(moment)
    return hit


def killed_at(chain: Chain, moment: Moment) -> bool:
    """Start the chain and kill it at one moment; whether it had not ended before."""
    log = chain.results / "logs" / f"{moment.stage}.log"
    before = log.stat().st_mtime_ns if log.exists() else 0
    process = chain.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (log.exists() and log.stat().st_mtime_ns > before):
        time.sleep(POLL)
    try:
        status = process.wait(timeout=moment.seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        return True
    if status:
        raise RuntimeError(f"the chain ended by itself with status {status} before {moment}")
    return False
