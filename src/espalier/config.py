"""The experiment's configuration: defaults, overlays, and checks made before any work.

Every check raises EspalierError with one line that names the key or path and the remedy.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from espalier.errors import EspalierError

DEFAULT = Path("config/default.yaml")
SCHEMAS = Path("workflow/schemas")

VIEWS = {"best": ("documents",), "colbert": ("passages", "training"), "sparse": ("passages",)}
"""The views of collections that each paper's part reads."""

MODELS = {"best": "ranker", "colbert": "encoder"}
"""The model that a paper's part starts from; `sparse.weightings` name their own."""


def load(root: Path, overlays: Sequence[Path] = ()) -> dict[str, Any]:
    """The default config of the project at `root`, changed by each overlay in turn."""
    config: dict[str, Any] = {}
    for path in (root / DEFAULT, *overlays):
        try:
            layer = yaml.safe_load(path.read_text())
        except OSError as error:
            raise EspalierError(
                f"{path}: cannot read this config file: {error.strerror}"
            ) from error
        except yaml.YAMLError as error:
            line = " ".join(str(error).split())
            raise EspalierError(f"{path}: not valid YAML: {line}") from error
        if not isinstance(layer, dict):
            raise EspalierError(f"{path}: a config file holds keys and values, as {DEFAULT} does")
        merge(config, layer)
    return config


def merge(config: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Change `config` in place as Snakemake does: mappings key by key, all else replaced."""
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            merge(config[key], value)
        else:
            config[key] = dict(value) if isinstance(value, Mapping) else value


def experiment_folder(config: Mapping[str, Any]) -> Path:
    """Where this experiment's results are."""
    return Path(config["results"], config["experiment"])


def views_of(config: Mapping[str, Any]) -> list[str]:
    """Names of the views that the experiment's papers read, sorted."""
    views = {view for paper in config["papers"] for view in VIEWS[paper]}
    return sorted(views if trains_encoder(config) else views - {"training"})


def view_of(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A view's config without the splits and sizes that an overlay set to null."""
    view = dict(config["collections"][name])
    for key in ("splits", "max_queries"):
        if key in view:
            view[key] = {split: value for split, value in view[key].items() if value is not None}
    return view


def trains_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the late-interaction encoder is trained, or a checkpoint used as it is."""
    return config["colbert"]["training"] is not None


def check(config: Mapping[str, Any], root: Path) -> None:
    """Everything that can be known to fail before any work: raises EspalierError."""
    check_schema(config, root)
    check_writable(experiment_folder(config))
    check_pruning(config)
    check_best(config)
    check_sparse_settings(config)
    check_given_files(config)
    check_models(config)
    check_collections(config)


def check_schema(config: Mapping[str, Any], root: Path) -> None:
    """Check keys and types against `workflow/schemas/config.schema.json`."""
    folder = root / SCHEMAS
    documents = {p.name: json.loads(p.read_text()) for p in sorted(folder.glob("*.schema.json"))}
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(document, default_specification=DRAFT202012))
        for name, document in documents.items()
    )
    validator = Draft202012Validator(documents["config.schema.json"], registry=registry)
    errors = sorted(
        validator.iter_errors(dict(config)), key=lambda error: list(map(str, error.path))
    )
    if errors:
        raise EspalierError(explain(errors[0]))


def explain(error: ValidationError) -> str:
    """One line for a schema error: the key, what is wrong, what would be right."""
    while error.context:
        error = max(
            error.context, key=lambda e: (len(e.path), e.validator != "additionalProperties")
        )
    where = ".".join(str(part) for part in error.absolute_path)
    remedy = f"every key is explained in {DEFAULT}"
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = list(dict(error.schema).get("properties", {}))  # type: ignore[arg-type]
        unknown = [key for key in error.instance if key not in known]
        near = get_close_matches(str(unknown[0]), known, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        key = ".".join(part for part in (where, str(unknown[0])) if part)
        return f"config key '{key}' is not known; {hint}{remedy}"
    if error.validator == "required" and isinstance(error.instance, Mapping):
        required: Any = error.validator_value
        missing = [key for key in required if key not in error.instance]
        key = ".".join(part for part in (where, str(missing[0])) if part)
        return f"config key '{key}' is missing; {remedy}"
    return f"config key '{where}': {error.message}; {remedy}"


def check_writable(folder: Path) -> None:
    """Check that files can be made in the results folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EspalierError(
            f"results folder {folder}: cannot write there ({os.strerror(error.errno or 0)}); "
            "set the config key 'results' to a folder of yours"
        ) from error


def check_pruning(config: Mapping[str, Any]) -> None:
    """Check that the systems of query embedding pruning have their embeddings and indexes."""
    from espalier.colbert.systems import parsed

    colbert = config["colbert"]
    length, kept = colbert["encoder"]["query_length"], colbert["static"]["kept"]
    for key in ("static", "latency"):
        for name in colbert[key]["systems"]:
            system = parsed(name)
            where = f"config key 'colbert.{key}.systems': '{name}'"
            if system.p is not None and system.p > length:
                raise EspalierError(
                    f"{where} searches more embeddings than the {length} that a query has; "
                    "lower p or raise encoder.query_length"
                )
            if system.kept not in (1, *kept):
                raise EspalierError(f"{where} has no index; add {system.kept:g} to static.kept")


def check_best(config: Mapping[str, Any]) -> None:
    """Check that BeST's queries have splits, and that what its systems are compared to runs."""
    from espalier.best import parts

    if "best" not in config["papers"]:
        return
    (view,) = VIEWS["best"]
    splits = view_of(config, view)["splits"] if view in config["collections"] else {}
    for name in dict.fromkeys([*(config["best"]["folds"] or parts.ROLES), "test"]):
        if not splits.get(name):
            raise EspalierError(
                f"config key 'collections.{view}.splits.{name}' is missing; BeST needs its queries"
            )
    own = config["evaluation"]["own_runs"].get("best", {})
    systems = {system for ranker in parts.ranked(config) for system in parts.systems(ranker)}
    for family in config["evaluation"]["families"]["best"]:
        if family["baseline"] not in {*systems, "bm25", "scoreddocs", *own}:
            raise EspalierError(
                f"config key 'evaluation.families.best': '{family['baseline']}', the baseline of "
                f"'{family['name']}', does not run; there are {', '.join(sorted(systems))}"
            )


def check_given_files(config: Mapping[str, Any]) -> None:
    """Check that the run files and judgments that the evaluation names are there."""
    evaluation = config["evaluation"]
    named = {
        f"{kind}.{paper}.{system}": path
        for kind in ("own_runs", "original_runs")
        for paper, files in evaluation[kind].items()
        for system, path in files.items()
    }
    named |= {f"own_qrels.{paper}": path for paper, path in evaluation["own_qrels"].items()}
    for key, path in named.items():
        if not Path(path).is_file():
            raise EspalierError(
                f"config key 'evaluation.{key}': {path} is no file; name an existing one"
            )


def check_models(config: Mapping[str, Any]) -> None:
    """Check that the models of the papers that run are in place."""
    from espalier.colbert import checkpoints
    from espalier.models.locate import locate

    for paper in config["papers"]:
        if paper in MODELS:
            folder = locate(config["models"][MODELS[paper]], nested=paper == "colbert")
            if paper == "colbert":
                shape = {key: config["colbert"]["encoder"][key] for key in ("layers", "dimensions")}
                found = checkpoints.read(folder)
                checkpoints.check(found, trained=trains_encoder(config), **shape)
    if "sparse" in config["papers"]:
        check_weightings(config)


def weightings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The weightings that run: those that no overlay set to null."""
    return {name: spec for name, spec in config["sparse"]["weightings"].items() if spec}


def check_weightings(config: Mapping[str, Any]) -> None:
    """Check that what weightings name is in place."""
    from espalier.models.locate import locate

    weightings = weightings_of(config)
    if not weightings:
        raise EspalierError("config key 'sparse.weightings': none is left; name one")
    for name, spec in weightings.items():
        key = f"config key 'sparse.weightings.{name}"
        expansion = spec.get("expansion", {})
        for part, model in (("model", spec.get("model")), ("tokens", spec.get("tokens"))):
            if model is not None and not (part == "tokens" and model == "words"):
                locate(model)
        if "model" in expansion:
            locate(expansion["model"])
        for part, path in (
            ("documents", spec.get("documents")),
            ("queries", spec.get("queries")),
            ("segments.texts", spec.get("segments", {}).get("texts")),
            ("expansion.questions", expansion.get("questions")),
        ):
            if path is not None and not Path(path).exists():
                raise EspalierError(f"{key}.{part}': {path} is missing; name an existing file")
        if "of" in spec and weightings.get(spec["of"], spec)["kind"] == "own-terms":
            raise EspalierError(
                f"{key}.of': '{spec['of']}' is no weighting of documents; "
                f"name one of {', '.join(n for n, s in weightings.items() if 'of' not in s)}"
            )


def check_sparse_settings(config: Mapping[str, Any]) -> None:
    """Check shares, that every system has its own name, and that what it is compared to runs."""
    if "sparse" not in config["papers"]:
        return
    settings, evaluation = config["sparse"]["settings"], config["evaluation"]
    for setting in settings:
        for key in ("alpha", "beta"):
            # A schema's multipleOf divides, by which 0.692 is no multiple of 0.001.
            if key in setting and round(setting[key], 3) != setting[key]:
                raise EspalierError(
                    f"config key 'sparse.settings': '{setting['name']}' has {key}: {setting[key]}; "
                    "round it to three decimals"
                )
    systems = [f"{name}-{each['name']}" for name in weightings_of(config) for each in settings]
    for system in systems:
        if systems.count(system) > 1:
            raise EspalierError(
                f"config key 'sparse.settings': two systems would be named '{system}'; "
                "give every setting a name of its own"
            )
    own = evaluation["own_runs"].get("sparse", {})
    others = {"bm25", "scoreddocs", *own}
    for kind, known in (("families", {*systems, *others}), ("latencies", {*systems})):
        for family in evaluation[kind]["sparse"]:
            if family["systems"] == ["{own}"] and not own:
                continue
            for name in weightings_of(config):
                baseline = family["baseline"].replace("{weighting}", name)
                if baseline not in known:
                    raise EspalierError(
                        f"config key 'evaluation.{kind}.sparse': '{baseline}', the baseline of "
                        f"'{family['name']}', does not run; name a system of 'sparse.settings'"
                    )


def check_collections(config: Mapping[str, Any]) -> None:
    """Check that the collections of the papers that run can be had."""
    from espalier.collections import access

    for name in views_of(config):
        if name not in config["collections"]:
            raise EspalierError(f"config key 'collections.{name}' is missing; a paper needs it")
        view = view_of(config, name)
        check_splits(name, view)
        for dataset_id in dict.fromkeys([view["docs"], *view["splits"].values()]):
            access.check(dataset_id)
        if "passages" in view:
            # Only their texts and judgments are read: the queries are the documents' own.
            access.check(view["passages"]["docs"], ["docs"])
            for dataset_id in view["passages"]["splits"].values():
                access.check(dataset_id, ["qrels"])
        for dataset_id in view["splits"].values():
            if view.get("candidates") == "scoreddocs":
                access.check_scoreddocs(dataset_id)
            if "query_field" in view:
                access.check_field(dataset_id, view["query_field"])


def check_splits(name: str, view: Mapping[str, Any]) -> None:
    """Check that what a view says of splits, it says of splits that it has."""
    passages = view.get("passages", {})
    for key, splits in (
        ("max_queries", view.get("max_queries", {})),
        ("passages.splits", passages.get("splits", {})),
        ("passages.relevance", passages.get("relevance", {})),
    ):
        for split in splits:
            if split not in view["splits"]:
                raise EspalierError(
                    f"config key 'collections.{name}.{key}.{split}': this view has no such split; "
                    f"name one of {', '.join(view['splits'])}"
                )
