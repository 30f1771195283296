"""What a job asks of the machine: memory and minutes by the collection's size and the attempt.

`memory` and `minutes` make functions as Snakemake calls them for `resources:`, with the job's
wildcards, inputs and attempt. Each attempt after the first asks for as much again. The rules'
figures are peaks and times measured on 900 to 10,000 documents, with a margin of two or more.
Files that are mapped count in a stage's peak memory, but their pages can be dropped, so the share
of an input that a stage asks for is less than what was measured.
"""

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Needed = Callable[[Any, Any, int], int]

TEXT_KB = {"documents": 40, "passages": 8, "training": 8}
"""Memory of BM25's index for one document, by view: long texts, short ones."""


def documents(view: str) -> int:
    """How many documents a view's snapshot counted.

    FileNotFoundError before it is taken, which a dry run of Snakemake shows as <TBD>.
    """
    if not Path(view).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(view))
    manifest = json.loads((Path(view) / "manifest.json").read_text())
    return int(manifest["docs_count"])


def memory(
    fixed: float,
    *,
    document_kb: float | Mapping[str, float] = 0,
    shards: int = 1,
    input_share: float = 0,
) -> Needed:
    """MB: `fixed`, so much for a document of this job's shard, and a share of the inputs' size.

    `document_kb` may depend on the view that is a wildcard of the rule.
    """

    def needed(wildcards: Any, input: Any, attempt: int) -> int:  # noqa: A002
        rate = document_kb[wildcards.view] if isinstance(document_kb, Mapping) else document_kb
        size = fixed
        if rate:
            size += rate * documents(input.view) / shards / 1000
        if input_share:
            size += input_share * input.size_mb
        return round(size * attempt)

    return needed


def minutes(
    fixed: float, *, document_ms: float = 0, shards: int = 1, mb_seconds: float = 0
) -> Needed:
    """Minutes: `fixed`, so much for a document of this job's shard, and for a MB of the inputs."""

    def needed(wildcards: Any, input: Any, attempt: int) -> int:  # noqa: A002
        seconds = 60 * fixed
        if document_ms:
            seconds += document_ms * documents(input.view) / shards / 1000
        if mb_seconds:
            seconds += mb_seconds * input.size_mb
        return round(seconds / 60 * attempt)

    return needed
