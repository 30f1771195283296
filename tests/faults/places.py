"""A results folder that is locked, shared or full."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from espalier.files import size_of
from tests.faults.chain import ROOT, Chain, contents, differences, kill, leftovers
from tests.faults.damage import completed, remove

HOLDER = """
import sys, time
from pathlib import Path
from espalier.files import locked
with locked(Path(sys.argv[1]), wait=False):
    print("held", flush=True)
    time.sleep(600)
"""


def lock_files(chain: Chain) -> list[Path]:
    """Every kind of lock that a chain takes: its folder's, a stage's, the store's."""
    results = chain.results
    stage = results / "records" / ".colbert-sweep.json.lock"
    return [results / ".lock", stage, results.parent / ".mlflow.lock"]


def leave_locks(chain: Chain) -> None:
    """Leave every lock to a holder that was killed."""
    for path in lock_files(chain):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        kill(holder)
        holder.stdout.close()


def two_at_once(chain: Chain) -> list[str]:
    """Start two chains on a folder with work to do: one does it, the other says why it does not.

    Returns what went wrong.
    """
    both = [chain.start(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    with ThreadPoolExecutor() as readers:
        said = list(readers.map(lambda process: process.communicate()[1], both))
    statuses = sorted(process.returncode for process in both)
    line = f"espalier: error: {chain.results}: another chain is working there; wait for it"
    refused = [text for text in said if text.splitlines()[-1].startswith(line)]
    if statuses != [0, 1] or len(refused) != 1:
        return [f"two chains: exit {statuses}, {[text[-1000:] for text in said]}"]
    return [f"left behind: {name}" for name in leftovers(chain.results)]


@contextmanager
def small_disk(size: int) -> Iterator[Path]:
    """A folder on a disk of its own of so many bytes; PermissionError where that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if mounted.returncode:
            raise PermissionError(f"no small disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def resize(folder: Path, size: int) -> None:
    """Give a small disk another size in bytes."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


FILLED = ("colbert/model", "colbert/shards", "colbert/indexes", "colbert/runs")
"""What is written when a disk fills: by safetensors, to a mapped file, by FAISS, by gzip."""


def full_disk(finished: Chain, outputs: Sequence[str], reference: dict[str, Any]) -> list[str]:
    """Fill the disk while each output (in the chain's order) is written, then make room.

    Works on a copy of a finished chain that lacks these outputs. Every run but the last must end
    with one line that names the folder, and leave nothing half-written. Returns what went wrong.
    """
    whole = size_of(finished.results)
    with small_disk(4 * whole) as folder:
        chain, wrong = Chain(folder), []
        shutil.copytree(finished.results, chain.results)
        for record in (chain.results / "records").glob("[!.]*.json"):
            text = record.read_text().replace(str(finished.results), str(chain.results))
            times = record.stat()
            record.write_text(text)
            os.utime(record, ns=(times.st_atime_ns, times.st_mtime_ns))
        sizes = [size_of(chain.results / output) for output in outputs]
        for output in outputs:
            remove(chain.results / output)
        room = shutil.disk_usage(folder).used
        for output, size in zip(outputs, sizes, strict=True):
            resize(folder, room + size // 4)
            stopped = chain.run()
            line = f"espalier: error: {chain.results}: the disk is full; free some space and run"
            if not (stopped.returncode and stopped.stderr.splitlines()[-1].startswith(line)):
                wrong.append(f"full disk at {output}: {stopped.stderr[-1000:]}")
            wrong += [f"left behind: {name}" for name in leftovers(chain.results)]
            room += size
        resize(folder, 4 * whole)
        wrong += completed(chain)
        return wrong + differences(reference, contents(chain.results))
