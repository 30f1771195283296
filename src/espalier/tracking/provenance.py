"""Where a result comes from: the steps from the collection to a file, and what changed since.

Records name each step's inputs and outputs with their digests. Following inputs to the step that
wrote them, and so on, leads back to the collection. Digests are computed anew: an input that is
no longer what the step read, or that is gone, is named.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from espalier import files
from espalier.errors import EspalierError
from espalier.tracking import records

UNCHANGED, CHANGED, MISSING = "unchanged", "changed", "missing"


@dataclass(frozen=True)
class Item:
    """A file or folder that a step read or wrote."""

    name: str
    """The option that it was given as, e.g. 'model'."""
    path: str
    """Relative to the results folder, or as given for what lies outside."""
    bytes: int
    sha256: str
    """As recorded."""
    sha256_now: str | None
    """As it is now; None when it is gone."""
    made_by: str | None = None
    """The step that wrote it; None for what comes from outside."""

    @property
    def state(self) -> str:
        """'unchanged', 'changed' or 'missing'."""
        if self.sha256_now is None:
            return MISSING
        return UNCHANGED if self.sha256_now == self.sha256 else CHANGED


@dataclass(frozen=True)
class Step:
    """One stage that ran."""

    name: str
    """The record's name, e.g. 'colbert-sweep'."""
    stage: str
    command: str
    seed: int | None
    settings: Mapping[str, Any]
    inputs: Sequence[Item]
    outputs: Sequence[Item]
    cost: Mapping[str, Any]
    packages: Mapping[str, str]
    commit: str
    machine: Mapping[str, Any]


@dataclass
class Provenance:
    """Everything behind one file."""

    file: str
    """Relative to the results folder."""
    made: Item
    """The output that the file is, or lies in."""
    collections: list[dict[str, Any]]
    """The collections at the beginning: view, ir_datasets id, documents, SHA-256."""
    steps: list[Step] = field(default_factory=list)
    """From the collection to the file."""

    @property
    def problems(self) -> list[str]:
        """One line for each input that changed or is gone, and for the file itself."""
        read = [(step.name, item) for step in self.steps for item in step.inputs]
        return [
            *(trouble(item, f"which {name} read as --{item.name}") for name, item in read
              if item.state != UNCHANGED),
            *([trouble(self.made, "the result itself")] if self.made.state != UNCHANGED else []),
        ]  # fmt: skip


def trouble(item: Item, what: str) -> str:
    """One line that names what changed or is gone."""
    if item.state == MISSING:
        return f"missing: {item.path}, {what} (sha256 {item.sha256})"
    return f"changed: {item.path}, {what} (sha256 {item.sha256}, now {item.sha256_now})"


class Chain:
    """The records of a results folder, and who wrote what."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records: dict[str, dict[str, Any]] = {}
        for path in sorted((root / records.FOLDER).glob("*.json")):
            # Snakemake removes a record when it runs that stage again, maybe just now.
            with suppress(FileNotFoundError):
                self.records[path.stem] = records.read(path)
        self.writers = {
            PurePosixPath(item["path"]): name
            for name, record in self.records.items()
            for items in record["outputs"].values()
            for item in items
        }
        self.digests: dict[Path, str | None] = {}

    def writer_of(self, path: str) -> str | None:
        """The step that wrote a path or the folder that it lies in."""
        place = PurePosixPath(path)
        return next((self.writers[p] for p in (place, *place.parents) if p in self.writers), None)

    def digest(self, path: str) -> str | None:
        """SHA-256 of a file or folder as it is now, computed once; None when it is gone."""
        place = self.root / path  # an absolute path stays itself
        if not place.exists() and Path(path).exists():
            place = Path(path)
        if place not in self.digests:
            self.digests[place] = files.sha256_of(place) if place.exists() else None
        return self.digests[place]

    def item(self, name: str, described: Mapping[str, Any]) -> Item:
        """What a record says of a path, and how it is now."""
        path = described["path"]
        return Item(
            name, path, described["bytes"], described["sha256"], self.digest(path),
            self.writer_of(path),
        )  # fmt: skip

    def items(self, named: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Item]:
        """All inputs, or all outputs, of a record."""
        return [self.item(name, d) for name, described in named.items() for d in described]

    def step(self, name: str) -> Step:
        """A record as a step."""
        record = self.records[name]
        return Step(
            name=name,
            stage=record["stage"],
            command=shlex.join(record["command"]),
            seed=record["settings"].get("seed"),
            settings={k: v for k, v in record["settings"].items() if k != "seed"},
            inputs=self.items(record["inputs"]),
            outputs=self.items(record["outputs"]),
            cost=record["cost"],
            packages=record["packages"],
            commit=record["commit"],
            machine=record["machine"],
        )

    def inputs_of(self, name: str) -> Iterator[str]:
        """Paths that a step read."""
        for described in self.records[name]["inputs"].values():
            yield from (d["path"] for d in described)

    def behind(self, paths: Sequence[str]) -> list[str]:
        """Names of the steps that led to some paths, each after those that it needs."""
        ordered: dict[str, None] = {}

        def visit(path: str) -> None:
            name = self.writer_of(path)
            if name is not None and name not in ordered:
                for needed in self.inputs_of(name):
                    visit(needed)
                ordered[name] = None

        for path in paths:
            visit(path)
        return list(ordered)

    def collections(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        """The collections that the snapshots among some steps were taken of."""
        found = []
        for name in steps:
            for described in self.records[name]["outputs"].get("view", []):
                manifest = self.root / described["path"] / "manifest.json"
                if manifest.exists():
                    about = json.loads(manifest.read_text())
                    found.append(
                        {
                            "view": Path(described["path"]).name,
                            "docs": about["docs"],
                            "docs_count": about["docs_count"],
                            "docs_sha256": about["docs_sha256"],
                            "splits": {k: v["id"] for k, v in about["splits"].items()},
                        }
                    )
        return found


def explain(path: Path) -> Provenance:
    """Everything behind a result; EspalierError for a file that no step of a chain wrote."""
    if not path.exists():
        raise EspalierError(f"{path}: no such file; name one in a results folder")
    place = path.resolve()
    root = next((p for p in place.parents if (p / records.FOLDER).is_dir()), None)
    if root is None:
        raise EspalierError(f"{path}: in no results folder (one with a folder '{records.FOLDER}')")
    chain = Chain(root)
    name = place.relative_to(root).as_posix()
    if place.parent == root / records.FOLDER and place.stem in chain.records:
        name = next(iter(chain.records[place.stem]["outputs"].values()))[0]["path"]
    writer = chain.writer_of(name)
    if writer is None:
        raise EspalierError(
            f"{path}: no record in {root / records.FOLDER} says what wrote it; name a step's output"
        )
    steps = chain.behind([name])
    return Provenance(
        file=name,
        made=next(
            item for item in chain.items(chain.records[writer]["outputs"])
            if PurePosixPath(name).is_relative_to(item.path)
        ),
        collections=chain.collections(steps),
        steps=[chain.step(step) for step in steps],
    )  # fmt: skip


def as_json(found: Provenance) -> str:
    """All of it, for programs."""

    def item(about: Item) -> dict[str, Any]:
        return {**asdict(about), "state": about.state}

    steps = [
        {
            **asdict(step),
            "started": moment(step.cost["started"]),
            "inputs": [item(i) for i in step.inputs],
            "outputs": [item(i) for i in step.outputs],
        }
        for step in found.steps
    ]
    document = {
        "file": found.file,
        "made": item(found.made),
        "collections": found.collections,
        "steps": steps,
        "problems": found.problems,
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def as_text(found: Provenance) -> str:
    """All of it, to read: collections, then each step, then what changed."""
    lines = [f"{found.file}: {found.made.state}, {len(found.steps)} steps from"]
    lines += [
        f"  {c['view']}: {c['docs']} ({c['docs_count']:,} documents, sha256 {c['docs_sha256']})"
        for c in found.collections
    ]
    packages: Mapping[str, str] = {}
    for number, step in enumerate(found.steps, start=1):
        lines += ["", f"{number}. {step.stage} ({step.name})", *step_lines(step)]
        same = step.packages == packages
        packages = step.packages
        listed = ", ".join(f"{name} {version}" for name, version in packages.items())
        lines.append(f"   packages  {'as before' if same else listed}")
        lines += [item_line("reads", item) for item in step.inputs]
        lines += [item_line("writes", item) for item in step.outputs]
    ending = found.problems or ["Every input is what its step read."]
    return "\n".join([*lines, "", *ending, ""])


def step_lines(step: Step) -> list[str]:
    """When, how, with what."""
    cost = step.cost
    flat = ", ".join(f"{name}={value}" for name, value in flattened(step.settings))
    return [
        f"   when      {moment(cost['started'])}, {cost['wall_seconds']:,.1f} s "
        f"(CPU {cost['cpu_seconds']:,.1f} s), {cost['peak_memory_bytes'] / 2**20:,.0f} MiB, "
        f"threads: {cost['threads']}",
        f"   command   {step.command}",
        f"   seed      {step.seed}",
        f"   settings  {flat or '–'}",
        f"   commit    {step.commit}",
    ]


def item_line(verb: str, item: Item) -> str:
    """One input or output."""
    maker = f", from {item.made_by}" if verb == "reads" and item.made_by else ""
    state = "" if item.state == UNCHANGED else f"  {item.state.upper()}"
    return f"   {verb:<9} {item.path} ({item.bytes:,} bytes, sha256 {item.sha256}{maker}){state}"


def flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """{'a': {'b': 7}} → ('a.b', 7)."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def moment(seconds: float) -> str:
    """Seconds since the epoch, as a date and time (UTC)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
