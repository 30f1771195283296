"""Writing files so that they are whole or absent, and naming their content."""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from espalier.errors import EspalierError

SIDECAR = ".ir_metadata.yaml"
"""End of the name of a run's description."""


def temporary_name(path: Path) -> Path:
    """The name beside `path` under which it is written first; it keeps the suffixes."""
    return path.with_name(f".tmp.{os.getpid()}.{path.name}")


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what a killed process left under temporary names of `path`."""
    if path.parent.is_dir():
        for leftover in path.parent.iterdir():
            if leftover.name.startswith(".tmp.") and leftover.name.endswith(f".{path.name}"):
                remove(leftover)


def publish(temporary: Path, path: Path) -> None:
    """Give a finished file or folder its name, replacing what stood there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    temporary.replace(path)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; rename it to `path` only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    temporary = temporary_name(path)
    try:
        yield temporary
        publish(temporary, path)
    finally:
        remove(temporary)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the exclusive lock of `path` (a file made for it); the system frees it with the process.

    Without `wait`, BlockingIOError when another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def members(folder: Path) -> list[Path]:
    """All files below a folder that are its content, sorted.

    Left out are the mark that Snakemake leaves in its outputs, and the descriptions of runs, which
    tell times and the machine.
    """
    return sorted(
        p for p in folder.rglob("*")
        if p.is_file() and p.name != ".snakemake_timestamp" and not p.name.endswith(SIDECAR)
    )  # fmt: skip


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_dir():
        return sum(member.stat().st_size for member in members(path))
    return path.stat().st_size


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; of a folder, that of its sorted relative paths and their digests."""
    if path.is_dir():
        digest = hashlib.sha256()
        for member in members(path):
            line = f"{member.relative_to(path).as_posix()} {sha256_of(member)}\n"
            digest.update(line.encode())
        return digest.hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a folder by its relative path: what `altered` holds them to."""
    return {p.relative_to(folder).as_posix(): sha256_of(p) for p in members(folder)}


def altered(folder: Path, digests: Mapping[str, str]) -> Path | None:
    """The first file that is missing or not as it was for `digests_of`; None where all are."""
    for name, digest in digests.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != digest:
            return path
    return None


def reserve(path: Path) -> None:
    """Give a file with holes its blocks; OSError at once where the disk is too small.

    A file that is mapped for writing is made with holes: a full disk would end the process by a
    signal (SIGBUS) when a page is written.
    """
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with path.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)


FULL = 1 << 20
"""Free bytes below which a disk on which something failed counts as full."""


def no_space(error: BaseException, folder: Path) -> bool:
    """Whether an error came from a full disk, as far as the error or the disk of `folder` tells.

    Libraries that write by themselves (FAISS, safetensors) raise errors of their own kinds.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left" in str(error) or shutil.disk_usage(folder).free < FULL


def disk_full(folder: Path) -> EspalierError:
    """The error that a full disk under a results folder ends with."""
    return EspalierError(
        f"{folder}: the disk is full; free some space and run again: what is finished is kept"
    )
