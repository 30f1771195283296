"""Whether a dataset's files are here, or can be fetched, without opening or fetching them.

ir_datasets answers this only by reading. Its handlers hold their sources as attributes, so those
are looked through for downloads whose file is missing.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ir_datasets
from ir_datasets.util.download import Download, LocalDownload

PLACES = ("_path", "_extract_path", "_output_file", "_cache_path")
"""Attributes under which ir_datasets keeps where a source's content is stored."""

PATIENCE = 5.0
"""Seconds that a host has to answer."""


def obstacle(handler: Any) -> str | None:
    """Why a handler's content cannot be had, and what to do; None when it can."""
    reason = next(filter(None, map(explain, missing(handler, set()))), None)
    return None if reason is None or is_stored(handler) else reason


def is_stored(handler: Any) -> bool:
    """Whether the handler's documents were read before, into ir_datasets' own store."""
    if not hasattr(handler, "docs_store"):
        return False
    try:
        return bool(handler.docs_store().built())
    except (AttributeError, OSError, RuntimeError, TypeError):
        return False


def missing(source: Any, seen: set[int]) -> Iterator[Download]:
    """Downloads behind a source whose files are not here."""
    if id(source) in seen or is_here(source):
        return
    seen.add(id(source))
    if isinstance(source, Download):
        yield source
    elif isinstance(source, list | tuple):
        for part in source:
            yield from missing(part, seen)
    elif type(source).__module__.startswith("ir_datasets."):
        for part in vars(source).values():
            yield from missing(part, seen)


def is_here(source: Any) -> bool:
    """Whether a source's content is on this machine already."""
    places = [vars(source).get(name) for name in PLACES] if hasattr(source, "__dict__") else []
    if isinstance(source, Download):
        places += [m.path(force=False) for m in source.mirrors if isinstance(m, LocalDownload)]
    paths = [Path(place) for place in places if isinstance(place, str | Path)]
    return any(path.is_absolute() and path.exists() for path in paths)


def explain(download: Download) -> str | None:
    """What stands in the way of a missing file; None when it can be downloaded."""
    urls = [mirror.url for mirror in download.mirrors if hasattr(mirror, "url")]
    if any(map(answers, map(host, urls))):
        return None
    local = [mirror for mirror in download.mirrors if isinstance(mirror, LocalDownload)]
    stored = vars(download)["_cache_path"]
    place = stored or next((mirror.path(force=False) for mirror in local), "its file")
    if urls:
        return (
            f"{place} is not there, and {urlsplit(urls[0]).netloc} does not answer: connect to "
            f"the network, or put the file of {urls[0]} there"
        )
    source = re.search(r"https?://[^\s>]+", " ".join(str(vars(m)["_message"]) for m in local))
    return (
        f"{place} is not there, and it is not free to download (a licence or an agreement governs "
        f"it): obtain it{f' as {source.group()} says' if source else ''}, and put it there"
    )


def host(url: str) -> str:
    """Scheme and host of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


@cache
def answers(url: str) -> bool:
    """Whether a web server can be reached, whatever it says."""
    requests = ir_datasets.lazy_libs.requests()
    try:
        requests.head(url, timeout=PATIENCE)
    except requests.exceptions.RequestException:
        return False
    return True
