"""Every wrong config stops before any work, with one line that names the key and the remedy."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espalier import config as configuration
from espalier.errors import EspalierError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checked(tmp_path):
    """The message of the check on the default config with some changes."""

    def checked(**changes):
        overlay = tmp_path / "overlay.yaml"
        overlay.write_text(yaml.safe_dump({"results": str(tmp_path / "results"), **changes}))
        config = configuration.load(ROOT, [overlay])
        with pytest.raises(EspalierError) as caught:
            configuration.check(config, ROOT)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return checked


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "config").glob("*.yaml")))
def test_every_config_of_the_project_is_valid(name):
    overlays = [] if name == "default.yaml" else [ROOT / "config" / name]
    configuration.check_schema(configuration.load(ROOT, overlays), ROOT)


def test_every_key_of_the_default_config_is_explained():
    """A comment stands directly above each key, but for lists of one-line settings."""
    lines = (ROOT / "config" / "default.yaml").read_text().splitlines()
    keys = [
        i
        for i, line in enumerate(lines)
        if line.strip() and not line.strip().startswith(("#", "-"))
    ]
    explained_with_parent = (
        "train:",
        "dev:",
        "test:",
        "docs:",
        "splits:",
        "max_queries:",
        "msmarco",
        "baseline:",
        "systems:",
        "measures:",
    )
    bare = [
        lines[i] for i in keys
        if not lines[i - 1].strip().startswith("#")
        and not lines[i].strip().startswith(explained_with_parent)
    ]  # fmt: skip
    assert bare == []


def test_a_wrong_key_is_named_with_its_neighbour(checked):
    message = checked(bm25={"k": 0.9})
    assert message.startswith("config key 'bm25.k' is not known; did you mean 'k1'?")
    assert "config/default.yaml" in message


def test_a_wrong_type_is_named(checked):
    assert "config key 'bm25.k1': 'high' is not of type 'number'" in checked(bm25={"k1": "high"})


def test_a_wrong_value_deep_in_a_list_is_named(checked):
    setting = {"name": "x", "algorithm": "taat", "beta": 2}
    message = checked(sparse={"settings": [setting]})
    assert "config key 'sparse.settings.0.beta'" in message


def test_an_unknown_collection_is_named(checked):
    view = {"docs": "vaswanni", "splits": {"test": "vaswanni"}}
    assert "vaswanni" in checked(papers=["sparse"], collections={"passages": view})


def test_an_absent_licensed_corpus_is_named(checked, monkeypatch, tmp_path):
    name = "disks45/nocr/trec-robust-2004"
    view = {"docs": name, "splits": {"test": name}}
    assert "disks45" in checked(papers=["sparse"], collections={"passages": view})


def test_an_absent_model_is_named(checked):
    for changed in (
        {"models": {"ranker": "package:no-such-package:model"}},
        {"sparse": {"weightings": {"splade": {"model": "package:no-such-package:model"}}}},
    ):
        message = checked(**changed)
        assert "no-such-package" in message
        assert "pip install" in message


def test_systems_without_embeddings_or_index_are_named(checked):
    message = checked(colbert={"latency": {"systems": ["icf-p33"]}})
    assert "'colbert.latency.systems': 'icf-p33' searches more embeddings than the 32" in message
    message = checked(colbert={"static": {"systems": ["icf-p40"]}})
    assert "'colbert.static.systems': 'icf-p40' searches more" in message
    message = checked(colbert={"static": {"kept": []}, "latency": {"systems": ["icf-s0.5-d0.5"]}})
    assert "'icf-s0.5-d0.5' has no index; add 0.5 to static.kept" in message


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"retrieval": {"selective": [1.5]}}, "colbert.retrieval.selective.0"),
        ({"static": {"kept": [0]}}, "colbert.static.kept.0"),
        ({"static": {"systems": ["icf-p03-d0.5"]}}, "colbert.static.systems.0"),
        ({"latency": {"systems": ["icf-p3"]}}, "colbert.latency.systems.0"),
    ],
)
def test_a_wrong_value_of_pruning_is_named(checked, change, key):
    assert checked(colbert=change).startswith(f"config key '{key}'")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"folds": ["one", "two", "three"]}, "collections.documents.splits.one"),
        ({"arms": ["best"]}, "evaluation.families.best"),
        ({"seeds": [1, 1]}, "best.seeds"),
        ({"folds": ["train", "dev"]}, "best.folds"),
        ({"arms": ["firstp"]}, "best.arms"),
    ],
)
def test_a_wrong_value_of_best_is_named(checked, change, key):
    assert key in checked(best=change, papers=["best"])


def test_faults_of_weightings_are_named(checked, tmp_path):
    files = {
        "kind": "vectors",
        "documents": str(tmp_path / "gone"),
        "queries": "q",
        "tokens": "words",
    }
    message = checked(sparse={"weightings": {"mine": files}})
    assert "'sparse.weightings.mine.documents'" in message
    assert "gone is missing" in message
    own = {"kind": "own-terms", "of": "nobody"}
    message = checked(sparse={"weightings": {"own": own}})
    assert "'sparse.weightings.own.of': 'nobody' is no weighting" in message
    assert "splade" in message


def test_a_weighting_set_to_null_is_left_out(checked):
    message = checked(sparse={"weightings": {"splade": None}})
    assert "'sparse.weightings.unicoil-style.of': 'splade' is no weighting" in message
    message = checked(sparse={"weightings": {"splade": None, "unicoil-style": None}})
    assert "'sparse.weightings': none is left" in message


def test_without_training_the_encoder_must_be_a_checkpoint(checked):
    message = checked(colbert={"training": None})
    assert message.startswith("config key 'colbert.training': null, but ")
    assert "name a late-interaction checkpoint in models.encoder" in message


def test_without_training_no_training_view_is_made():
    config = configuration.load(ROOT)
    assert configuration.views_of(config) == ["documents", "passages", "training"]
    config["colbert"]["training"] = None
    configuration.check_schema(config, ROOT)
    assert configuration.views_of(config) == ["documents", "passages"]


def test_two_systems_of_one_name_are_named(checked):
    settings = [{"name": "x", "algorithm": name, "beta": 0} for name in ("taat", "wand")]
    assert "two systems would be named 'splade-x'" in checked(sparse={"settings": settings})


@pytest.mark.parametrize("overlays", [[], [ROOT / "config/msmarco-passage.yaml"]])
def test_scaled_guidance_is_guidance_by_scaled_weights(overlays):
    settings = {s["name"]: s for s in configuration.load(ROOT, overlays)["sparse"]["settings"]}
    scales = [float(name[len("dths-x") :]) for name in settings if name.startswith("dths-x")]
    assert scales == [0.25, 0.5, 2, 4]
    for scale in scales:
        scaled = settings[f"dths-x{scale:g}"]
        for share in ("alpha", "beta"):
            bm25, learned = scale * settings["dths"][share], 1 - settings["dths"][share]
            assert scaled[share] == pytest.approx(bm25 / (bm25 + learned), abs=0.0005)
        assert {**scaled, "name": "", "alpha": 0, "beta": 0} == {
            **settings["dths"], "name": "", "alpha": 0, "beta": 0
        }  # fmt: skip


def test_shares_are_thousandths(checked):
    config = configuration.load(ROOT)
    original, plain = config["sparse"]["settings"], {"algorithm": "wand"}
    for name in range(1001):
        config["sparse"]["settings"] = [{**plain, "name": "x", "beta": name / 1000}, *original]
        if name % 50 == 0 or name == 692:
            configuration.check_schema(config, ROOT)
        configuration.check_sparse_settings(config)
    settings = [{**plain, "name": "x", "beta": 0.6925}]
    message = checked(sparse={"settings": settings})
    assert message == (
        "config key 'sparse.settings': 'x' has beta: 0.6925; round it to three decimals"
    )


def test_a_baseline_that_no_setting_runs_is_named(checked):
    settings = [{"name": "original", "algorithm": "vbmw", "beta": 0}]
    assert checked(sparse={"settings": settings}).startswith(
        "config key 'evaluation.latencies.sparse': 'splade-original-union', the baseline of "
        "'{weighting}', does not run"
    )
    families = {"sparse": [{"name": "x", "baseline": "splade-none", "systems": ["*"]}]}
    families["sparse"][0]["measures"] = ["RR@10"]
    assert checked(evaluation={"families": families}).startswith(
        "config key 'evaluation.families.sparse': 'splade-none', the baseline of 'x', does not run"
    )


def test_an_unwritable_results_folder_is_named(checked, tmp_path):
    blocker = tmp_path / "file"
    blocker.touch()
    message = checked(results=str(blocker))
    assert message.startswith(f"results folder {blocker}/demo: cannot write there")
    assert "'results'" in message


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "not valid YAML"), ("- a", "keys and values")]
)
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(EspalierError, match=rf"broken\.yaml: .*{message}"):
        configuration.load(ROOT, [path])


def test_merging_is_snakemake_s(tmp_path):
    from snakemake.utils import update_config

    layers = [{"a": {"b": 1, "c": [1, 2]}, "d": 1}, {"a": {"c": [3], "e": {"f": 2}}, "d": {"g": 3}}]
    ours, theirs = {}, {}
    for layer in layers:
        configuration.merge(ours, layer)
        update_config(theirs, layer)
    assert ours == theirs


@pytest.mark.parametrize("command", [["espalier.cli", "run"], ["snakemake", "--cores", "1"]])
def test_both_ways_to_run_stop_before_any_work(tmp_path, command):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump({"results": str(tmp_path / "r"), "bm25": {"k": 1}}))
    option = "--config" if command[0] == "espalier.cli" else "--configfile"
    stopped = subprocess.run(
        [sys.executable, "-m", *command, option, str(overlay)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert stopped.returncode == 1
    assert stopped.stderr.splitlines()[-1].startswith("espalier: error: config key 'bm25.k'")
    assert not (tmp_path / "r").exists()
