"""A chain that is killed again and again, each time in another stage, and goes on."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.chain import Chain, kill

POLL = 0.02
"""Seconds between two looks at the stages' logs."""


class Moment(NamedTuple):
    """When a chain was killed: some seconds after a job had begun."""

    job: str
    seconds: float
    beside: list[str]
    """Other jobs that ran then."""


def recorded(reference: Path) -> dict[str, Mapping[str, Any]]:
    """The records of a finished chain's jobs by name."""
    paths = sorted((reference / "records").glob("[!.]*.json"))
    return {path.stem: json.loads(path.read_text()) for path in paths}


def drawn(reference: Path, count: int, seed: int) -> list[str]:
    """Names of `count` jobs to kill: of each stage one, before any stage has a second."""
    records = recorded(reference)
    order = sorted(records)
    random.Random(seed).shuffle(order)
    seen: Counter[str] = Counter()
    turns = {}
    for job in order:
        turns[job] = seen[records[job]["stage"]]
        seen[records[job]["stage"]] += 1
    return sorted(order, key=lambda job: turns[job])[:count]


def killed(chain: Chain, reference: Path, wanted: Sequence[str], seed: int) -> list[Moment]:
    """Start the chain, kill it in the first wanted job that begins, and so on; the moments.

    A moment is anywhere between a job's beginning and a little after its end, when its outputs get
    their names. A wanted job that ran to its end while another was waited for is not among them.
    """
    seconds = {job: record["cost"]["wall_seconds"] for job, record in recorded(reference).items()}
    hit: list[Moment] = []
    while True:
        done = {moment.job for moment in hit}
        waiting = [job for job in wanted if job not in done and not chain.record(job).exists()]
        if not waiting:
            return hit
        after = {
            job: random.Random(f"{seed} {job}").uniform(0, 1.1) * seconds[job] for job in waiting
        }
        moment = killed_once(chain, after)
        if moment:
            hit.append(moment)


def killed_once(chain: Chain, after: Mapping[str, float]) -> Moment | None:
    """Start the chain and kill it some seconds `after` a job began; None if it ended before."""
    started = time.time_ns()
    process = chain.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (begun := [job for job in running(chain, started) if job in after]):
        if process.poll() is not None:
            break
        time.sleep(POLL)
    try:
        status = process.wait(timeout=after[begun[0]] if begun else None)
    except subprocess.TimeoutExpired:
        beside = [job for job in running(chain, started) if job != begun[0]]
        kill(process)
        return Moment(begun[0], after[begun[0]], beside)
    if status:
        raise RuntimeError(f"the chain ended by itself with status {status} before {begun}")
    return None


def running(chain: Chain, started: int) -> list[str]:
    """Jobs that began since `started` (nanoseconds) and have not ended."""
    logs = (chain.results / "logs").glob("*.log")
    begun = [path.stem for path in logs if path.stat().st_mtime_ns > started]
    return sorted(job for job in begun if not chain.record(job).exists())
