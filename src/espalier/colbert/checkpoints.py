"""What a folder holds: a published late-interaction checkpoint, or a BERT without projection.

Two layouts are known; of both only safetensors are read:

- ColBERT's: BERT's tensors under `bert.` and the projection `linear.weight` are one file;
  `artifact.metadata` beside it, which may be absent, says how texts are laid out;
- PyLate's: `modules.json` lists a Transformer and a Dense, whose folder has the projection in a
  file of its own; `config_sentence_transformers.json` says how texts are laid out.

Any other folder, also that of a model whose `modules.json` pools tokens, is a plain BERT's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from espalier.errors import EspalierError
from espalier.models.locate import WEIGHTS, modules, transformer

WEIGHT = "linear.weight"
"""The projection's tensor [dimensions, hidden size], by one name in both layouts."""

METADATA = "artifact.metadata"
SETTINGS = "config_sentence_transformers.json"

COLBERT = {
    "dim": ("dimensions", int),
    "query_maxlen": ("query_length", int),
    "doc_maxlen": ("doc_maxlen", int),
    "mask_punctuation": ("drop_punctuation", bool),
    "attend_to_mask_tokens": ("attend_to_masks", bool),
}
"""Keys of artifact.metadata: our name of each, an argument of `tokens.Layout` but for the first,
and its type."""

PYLATE = {
    "query_length": ("query_length", int),
    "document_length": ("doc_maxlen", int),
    "attend_to_expansion_tokens": ("attend_to_masks", bool),
    "skiplist_words": ("skiplist", list),
}
"""The same for config_sentence_transformers.json."""

BOUNDS = {"query_length": range(4, 100), "doc_maxlen": range(4, 513)}
"""Of lengths, as the config's schema has them: names of systems have two digits for p."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a model's parts are, and what it says of itself."""

    trunk: Path
    """Folder of BERT and tokenizer."""
    projection: Path | None = None
    """File with the tensor `WEIGHT`; None for a plain BERT, of which nothing else is known."""
    layers: int = 0
    dimensions: int = 0
    """Length of an embedding."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `tokens.Layout` that it was trained with, as far as it says."""


def read(folder: Path) -> Checkpoint:
    """What `folder` holds; EspalierError for a late-interaction checkpoint that is not whole.

    No tensor is read, only their names and shapes.
    """
    trunk = transformer(folder)
    config = json_of(trunk / "config.json")
    kinds = [kind for kind, _ in modules(folder)]
    if "Dense" in kinds and "Pooling" not in kinds:
        projection, layout = of_pylate(folder)
    elif is_colbert(folder, config):
        projection, layout = folder / WEIGHTS, of_colbert(folder)
    else:
        return Checkpoint(trunk)
    shape = shape_of(projection)
    hidden = number(trunk, config, "hidden_size")
    if len(shape) != 2 or shape[1] != hidden:
        raise EspalierError(
            f"{projection}: tensor '{WEIGHT}' is {shape}, but {trunk / 'config.json'} has "
            f"hidden_size {hidden}; take both files from the same model"
        )
    if layout.pop("dimensions", shape[0]) != shape[0]:
        raise EspalierError(
            f"{folder / METADATA}: dim is not that of '{WEIGHT}' {shape} in {projection}; "
            "take both files from the same model"
        )
    layers = number(trunk, config, "num_hidden_layers")
    return Checkpoint(trunk, projection, layers, shape[0], layout)


def check(found: Checkpoint, *, trained: bool, layers: int, dimensions: int) -> None:
    """EspalierError where the config contradicts a checkpoint in what cannot be reconciled.

    A checkpoint's layers were trained together with its projection, so `layers` must not leave
    any out; `dimensions`, on which the index depends, must be its own. A plain BERT has to be
    `trained`, for its projection starts at random.
    """
    if found.projection is None:
        if not trained:
            raise EspalierError(
                f"config key 'colbert.training': null, but {found.trunk} has no projection "
                f"'{WEIGHT}'; train it, or name a late-interaction checkpoint in models.encoder"
            )
        return
    if layers < found.layers:
        raise EspalierError(
            f"config key 'colbert.encoder.layers': {layers}, but the checkpoint {found.trunk} was "
            f"trained with {found.layers}; set it to {found.layers}"
        )
    if dimensions != found.dimensions:
        raise EspalierError(
            f"config key 'colbert.encoder.dimensions': {dimensions}, but '{WEIGHT}' of "
            f"{found.projection} has {found.dimensions}; set it to {found.dimensions}"
        )


def is_colbert(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether anything in the folder says that it is in ColBERT's layout."""
    return (
        "HF_ColBERT" in (config.get("architectures") or [])
        or (folder / METADATA).is_file()
        or WEIGHT in tensor_shapes(folder / WEIGHTS)
    )


def of_colbert(folder: Path) -> dict[str, Any]:
    """What artifact.metadata says of the input format."""
    path = folder / METADATA
    if not path.is_file():
        return {}
    metadata = json_of(path)
    layout = stated(path, metadata, COLBERT)
    layout["markers"] = markers(
        path, metadata, {"query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    )
    return layout


def of_pylate(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The projection's file and what config_sentence_transformers.json says of the format."""
    parts = modules(folder)
    if [kind for kind, _ in parts] != ["Transformer", "Dense"]:
        raise EspalierError(
            f"{folder / 'modules.json'}: {', '.join(kind for kind, _ in parts)}; "
            "only one Transformer and then one Dense can be read"
        )
    dense = parts[1][1]
    shape = json_of(dense / "config.json")
    identity = str(shape.get("activation_function", "Identity")).rpartition(".")[2] == "Identity"
    if shape.get("bias") or shape.get("use_residual") or not identity:
        raise EspalierError(
            f"{dense / 'config.json'}: bias, use_residual or an activation_function, but only a "
            "bare projection can be read; name another checkpoint"
        )
    path = folder / SETTINGS
    settings = json_of(path)
    if settings.get("do_query_expansion") is False:
        raise EspalierError(
            f"{path}: do_query_expansion is false, but queries are filled with masks here; "
            "name a checkpoint that was trained with them"
        )
    if settings.get("default_prompt_name"):
        raise EspalierError(
            f"{path}: default_prompt_name is set, but texts get no prompt here; "
            "name a checkpoint that was trained without"
        )
    layout = stated(path, settings, PYLATE)
    if "skiplist" in layout:
        layout["drop_punctuation"] = bool(layout["skiplist"])
    layout["markers"] = markers(path, settings, {"query_prefix": "[Q] ", "document_prefix": "[D] "})
    return dense / WEIGHTS, layout


def stated(
    path: Path, given: Mapping[str, Any], known: Mapping[str, tuple[str, type]]
) -> dict[str, Any]:
    """The values of `known` keys under the names of our own; EspalierError for wrong ones."""
    layout = {}
    for key, (ours, kind) in known.items():
        if (value := given.get(key)) is None:
            continue
        if type(value) is not kind:
            raise EspalierError(
                f"{path}: {key} is {value!r}; make it of type {kind.__name__}, as it was published"
            )
        if ours in BOUNDS and value not in BOUNDS[ours]:
            least, most = BOUNDS[ours][0], BOUNDS[ours][-1]
            raise EspalierError(
                f"{path}: {key} is {value}; only {least} to {most} can be used, so change it there"
            )
        layout[ours] = value
    return layout


def markers(path: Path, given: Mapping[str, Any], defaults: Mapping[str, str]) -> tuple[str, ...]:
    """The two vocabulary entries that mark queries and documents."""
    found = tuple(given.get(key, default) for key, default in defaults.items())
    if not all(isinstance(marker, str) and marker for marker in found):
        raise EspalierError(
            f"{path}: {' and '.join(defaults)} are {found}; only checkpoints with markers can be "
            "read, each an entry of the vocabulary"
        )
    return found


def shape_of(file: Path) -> tuple[int, ...]:
    """The shape of the projection in a file; EspalierError when it is not there."""
    shapes = tensor_shapes(file)
    if WEIGHT not in shapes:
        raise EspalierError(
            f"{file}: tensor '{WEIGHT}' is missing; name a late-interaction checkpoint with its "
            "projection"
        )
    return shapes[WEIGHT]


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of a safetensors file's tensors by name."""
    if not file.is_file():
        raise EspalierError(
            f"{file} is missing; only safetensors are read: save the model again in that format"
        )
    try:
        with safe_open(file, framework="numpy") as tensors:
            names = list(tensors.keys())
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
    except SafetensorError as error:
        raise EspalierError(f"{file}: not safetensors ({error}); copy the model again") from error


def json_of(path: Path) -> dict[str, Any]:
    """An object in JSON; EspalierError when there is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise EspalierError(f"{path}: cannot be read ({error}); copy the model again") from error
    if not isinstance(found, dict):
        raise EspalierError(f"{path}: not a JSON object; copy the model again")
    return found


def number(trunk: Path, config: Mapping[str, Any], key: str) -> int:
    """A positive number of config.json."""
    value = config.get(key)
    if not isinstance(value, int):
        raise EspalierError(f"{trunk / 'config.json'}: {key} is {value!r}; name a BERT model")
    return value
