"""Weights of the transformers library's checkpoints, whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers.utils import logging

from espalier.errors import EspalierError
from espalier.models.locate import WEIGHTS


def load(kind: Any, folder: Path, **options: Any) -> Any:
    """A model of the transformers class `kind` with the weights in `folder`; `options` are its.

    Tensors that the model has no place for, such as another task's head, are left alone.
    EspalierError for one that is missing, which the library would draw at random, or that has
    another shape than config.json says.
    """
    with unreported():
        model, loading = kind.from_pretrained(
            folder,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, in one line
            output_loading_info=True,
            **options,
        )
    for name, *shapes in sorted(loading["mismatched_keys"]):
        kept, wanted = map(tuple, shapes)
        raise EspalierError(
            f"{folder / WEIGHTS}: tensor '{name}' is {kept}, by config.json it is {wanted}; "
            "take both files from the same model"
        )
    for name in sorted(loading["missing_keys"]):
        raise EspalierError(
            f"{folder / WEIGHTS}: tensor '{name}' is missing; name a folder with all of "
            f"{kind.__name__}'s"
        )
    return model


@contextmanager
def unreported() -> Iterator[None]:
    """Without the library's tables of tensors and its progress bars, which say no more."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
