"""A stage: the only shape that a step of the chain has.

A stage is a function of named input paths and a settings dictionary that writes named output
paths. The `stage` decorator turns it into a verb of the command line. Around the function it

- writes every output to a temporary name and renames them only when all are complete;
- measures wall time, CPU time and peak memory, and writes the record beside the outputs;
- sends the log to a file as well as to the terminal.

Of several processes that torchrun starts for one stage, the first does all this; the others take
part in the work, and what they write is dropped.
"""

import argparse
import hashlib
import json
import logging
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier import files
from espalier.errors import EspalierError
from espalier.tracking import ir_metadata, provenance, records

if TYPE_CHECKING:
    from espalier.models.checkpoints import Checkpoint

log = logging.getLogger("espalier")


@dataclass(frozen=True)
class Job:
    """What a stage function gets: its inputs, temporary names for its outputs, its settings."""

    settings: Mapping[str, Any]
    threads: int
    inputs: Mapping[str, list[Path]]
    outputs: Mapping[str, Path]
    record: Path
    """Where the record will be."""
    key: str
    """Digest of settings, inputs and our sources: what a checkpoint belongs to."""

    @property
    def seed(self) -> int:
        """The experiment's seed."""
        return int(self.settings["seed"])

    def path(self, name: str) -> Path:
        """The one path of input `name`."""
        (path,) = self.inputs[name]
        return path

    def paths(self, name: str) -> list[Path]:
        """All paths of input `name` (declared `name+` or `name?`); empty when left out."""
        return self.inputs[name]

    def out(self, name: str) -> Path:
        """Where to write output `name`: a temporary name, with its folder made."""
        return self.outputs[name]

    def checkpoint(self, seconds: float) -> "Checkpoint":
        """Where this stage keeps its state every `seconds`, until its record is written."""
        from espalier.models.checkpoints import Checkpoint

        return Checkpoint(checkpoint_of(self.record), self.key, seconds)


StageFunction = Callable[[Job], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Verb:
    """A stage function with its command-line name, inputs and outputs."""

    name: str
    function: StageFunction
    inputs: Sequence[str]
    outputs: Sequence[str]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options: its inputs, its outputs, and what all stages share."""
        for declared in self.inputs:
            name, kind = split_kind(declared)
            nargs = {"+": "+", "?": "*", "": None}[kind]
            parser.add_argument(option(name), nargs=nargs, required=kind != "?", type=Path)
        for name in self.outputs:
            parser.add_argument(option(name), required=True, type=Path)
        parser.add_argument("--settings", required=True, help="settings as a JSON object")
        parser.add_argument("--record", required=True, type=Path, help="where the record goes")
        parser.add_argument("--log", type=Path, help="file that keeps the log")
        parser.add_argument("--threads", type=int, default=1)

    def run(self, arguments: argparse.Namespace) -> None:
        """Run the stage; on return every output and the record are in place."""
        given = vars(arguments)
        inputs = {n: as_list(given[n]) for n, _ in map(split_kind, self.inputs)}
        final = {name: given[name] for name in self.outputs}
        for path in (p for paths in inputs.values() for p in paths):
            if not path.exists():
                raise EspalierError(f"{path}: input of '{self.name}' is missing; run the chain")
        limit_threads(arguments.threads)
        if os.environ.get("RANK", "0") != "0":
            self.assist(json.loads(arguments.settings), inputs, arguments)
            return
        to_file(arguments.log)
        lock = arguments.record.with_name(f".{arguments.record.name}.lock")
        # A killed chain can leave this stage working: wait for it rather than mix its files in.
        with files.locked(lock):
            self.write(json.loads(arguments.settings), inputs, final, arguments)

    def command(self, arguments: argparse.Namespace) -> list[str]:
        """The command line that does the same again."""
        given = vars(arguments)
        words = ["espalier", *self.name.split()]
        for name in [*(n for n, _ in map(split_kind, self.inputs)), *self.outputs, "record", "log"]:
            if values := as_list(given[name]):
                words += [option(name), *map(str, values)]
        return [*words, "--settings", arguments.settings, "--threads", str(arguments.threads)]

    def assist(
        self,
        settings: Mapping[str, Any],
        inputs: Mapping[str, list[Path]],
        arguments: argparse.Namespace,
    ) -> None:
        """Run the function beside the process that writes; drop the outputs."""
        with tempfile.TemporaryDirectory() as folder:
            dropped = {name: Path(folder) / name for name in self.outputs}
            key = key_of(settings, records.described(inputs, arguments.record))
            self.function(Job(settings, arguments.threads, inputs, dropped, arguments.record, key))

    def write(
        self,
        settings: Mapping[str, Any],
        inputs: Mapping[str, list[Path]],
        final: Mapping[str, Path],
        arguments: argparse.Namespace,
    ) -> None:
        """Run the function on temporary names, publish what it wrote, then the record."""
        chain = provenance.Chain(records.root_of(arguments.record))
        for path in final.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.remove_leftovers(path)
        temporary = {name: files.temporary_name(path) for name, path in final.items()}
        read = records.described(inputs, arguments.record)
        key = key_of(settings, read)
        job = Job(settings, arguments.threads, inputs, temporary, arguments.record, key)
        started, cpu = time.time(), time.process_time()
        try:
            metrics = dict(self.function(job) or {})
            cost = {
                "started": started,
                "wall_seconds": time.time() - started,
                "cpu_seconds": time.process_time() - cpu,
                "peak_memory_bytes": peak_memory_bytes(),
                "threads": arguments.threads,
                "processes": int(os.environ.get("WORLD_SIZE", "1")),
            }
            ir_metadata.complete(
                temporary.values(),
                chain=chain,
                stage=self.name,
                command=self.command(arguments),
                inputs=inputs,
                cost=cost,
            )
            for name, path in final.items():
                files.publish(temporary[name], path)
            records.write(
                arguments.record,
                stage=self.name,
                command=self.command(arguments),
                settings=settings,
                inputs=read,
                outputs={name: [path] for name, path in final.items()},
                metrics=metrics,
                cost=cost,
            )
        except Exception as error:
            if files.no_space(error, arguments.record.parent):
                raise files.disk_full(arguments.record.parent.parent) from error
            raise
        finally:
            for path in temporary.values():
                files.remove(path)
        files.remove(checkpoint_of(arguments.record))


@dataclass
class Room:
    """The verbs of one room of the house, e.g. `espalier colbert …`."""

    name: str
    verbs: dict[str, Verb] = field(default_factory=dict)

    def stage(
        self, *, inputs: Sequence[str] = (), outputs: Sequence[str]
    ) -> Callable[[StageFunction], StageFunction]:
        """Register a function as a verb named after it (underscores become dashes).

        An input `name` is one path, `name+` one or more, `name?` none or more.
        """

        def register(function: StageFunction) -> StageFunction:
            name = function.__name__.replace("_", "-")
            self.verbs[name] = Verb(f"{self.name} {name}", function, inputs, outputs)
            return function

        return register


def split_kind(declared: str) -> tuple[str, str]:
    """'runs+' → ('runs', '+'); 'queries' → ('queries', '')."""
    return (declared[:-1], declared[-1]) if declared[-1] in "+?" else (declared, "")


def option(name: str) -> str:
    """The command-line option of an input or output."""
    return "--" + name.replace("_", "-")


def as_list(value: Path | list[Path] | None) -> list[Path]:
    """One path, several or none, as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def key_of(settings: Mapping[str, Any], read: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Digest of a stage's settings, of its inputs as described, and of our sources."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in (file for name in sorted(read) for file in read[name]):
        digest.update(file["sha256"].encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def checkpoint_of(record: Path) -> Path:
    """The file with the state of a stage that is under way."""
    return record.with_name(f".{record.stem}.checkpoint")


def peak_memory_bytes() -> int:
    """Peak resident memory of this process.

    On Linux from /proc: what getrusage says there is never less than the peak of the process that
    started this one. By getrusage elsewhere, and in a sandbox whose /proc does not tell the peak.
    """
    status = Path("/proc/self/status")
    told = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if told:
        return int(told[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def to_file(path: Path | None) -> None:
    """Keep the log in `path` too, from its beginning."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="w")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logging.getLogger().addHandler(handler)


def limit_threads(threads: int) -> None:
    """Bind the numerical libraries to `threads`; they read these when first imported."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
