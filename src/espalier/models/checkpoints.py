"""The state of a training that is under way, so that a killed one goes on where it stood."""

import logging
import os
import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from espalier import files
from espalier.errors import EspalierError

log = logging.getLogger("espalier")


class Checkpoint:
    """One file, always replaced as a whole.

    `key` names what the state belongs to (settings, inputs, code): a file with another key is not
    gone on from. `seconds` is how long work may be lost for when the process is killed.
    """

    def __init__(self, file: Path, key: str, seconds: float) -> None:
        self.file, self.key, self.seconds = file, key, seconds
        self.saved = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether `seconds` have passed since the state was last saved, or this was opened."""
        return time.monotonic() - self.saved >= self.seconds

    def load(self) -> dict[str, Any] | None:
        """The state that was saved; None when there is none for this key.

        Raises EspalierError when the file is damaged.
        """
        if not self.file.exists():
            return None
        try:
            found = torch.load(self.file, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise EspalierError(
                f"{self.file}: a damaged checkpoint; delete it and run again: this stage starts "
                "from its beginning"
            ) from error
        if found["key"] != self.key:
            log.warning("%s: of other settings, inputs or code: starting anew", self.file)
            return None
        log.info("going on from %s", self.file)
        state: dict[str, Any] = found["state"]
        return state

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep `state`: tensors, numbers, strings, and lists and dicts of these."""
        with files.written_whole(self.file) as temporary, temporary.open("wb") as stream:
            torch.save({"key": self.key, "state": dict(state)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        self.saved = time.monotonic()
