"""uniCOIL and DeepImpact against plain BERT on single texts, and words."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, BertTokenizerFast

from espalier.errors import EspalierError
from espalier.sparse import deepimpact, unicoil
from espalier.sparse.words import words

LEXICON = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "fox", "dog", "##s", "runs", "."]
CLS, SEP = 2, 3
HIDDEN = 16


def folder_of(folder, head, prefix=""):
    """A model's folder with a random trunk, the tensors `head` and names under `prefix`."""
    (folder / "vocab.txt").write_text("\n".join(LEXICON) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(LEXICON), hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, initializer_range=1.0,
    )  # fmt: skip
    config.save_pretrained(folder)
    torch.manual_seed(5)
    trunk = {f"bert.{name}": value for name, value in BertModel(config).state_dict().items()}
    named = {f"{prefix}{name}": value for name, value in (trunk | head).items()}
    save_file(named, folder / "model.safetensors")
    return folder


def projection():
    torch.manual_seed(1)
    return {"tok_proj.weight": torch.randn(1, HIDDEN), "tok_proj.bias": torch.randn(1)}


def two_layers():
    torch.manual_seed(6)
    return {
        "impact_score_encoder.0.weight": torch.randn(HIDDEN, HIDDEN),
        "impact_score_encoder.0.bias": torch.randn(HIDDEN),
        "impact_score_encoder.3.weight": torch.randn(1, HIDDEN),
        "impact_score_encoder.3.bias": torch.randn(1),
    }


@pytest.fixture(scope="module")
def coil(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("unicoil"), projection())


@pytest.fixture(scope="module")
def impact(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("deepimpact"), two_layers())


def plain_vectors(folder, ids):
    """BERT's vectors of one text, from the tensors by name, without padding."""
    tensors = load_file(folder / "model.safetensors")
    bert = BertModel(BertConfig.from_pretrained(folder)).eval()
    bert.load_state_dict({n.removeprefix("bert."): t for n, t in tensors.items() if "bert." in n})
    with torch.no_grad():
        return bert(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy(), tensors


def expected_coil(folder, pieces):
    """Term → weight of one text of word pieces."""
    vectors, tensors = plain_vectors(folder, [CLS, *pieces, SEP])
    impacts = vectors @ tensors["tok_proj.weight"][0].numpy() + tensors["tok_proj.bias"].item()
    found = {}
    for piece, value in zip(pieces, impacts[1:-1], strict=True):
        if value > 0:
            found[piece] = max(value, found.get(piece, 0))
    return found, impacts


TEXTS = [
    "red fox", "", "dogs runs red. foxs red dogs", "red", "zebra dog dog dog", "runs fox.",
    "red red red fox fox dog runs dog red",
]  # fmt: skip


def test_unicoil_weighs_each_term_by_the_largest_of_its_positions(coil):
    model = unicoil.UniCoil(coil, max_length=24)
    pieces = model.word_pieces(TEXTS)
    assert pieces[2] == [7, 8, 9, 5, 10, 6, 8, 5, 7, 8]
    found = model.weights(pieces, "test")
    assert len(found) == len(TEXTS)
    largest_is_not_first, dropped, specials_positive = 0, 0, 0
    for text, (terms, weights) in zip(pieces, found, strict=True):
        expected, impacts = expected_coil(coil, text)
        assert terms.dtype == np.int32 and weights.dtype == np.float32
        assert terms.tolist() == sorted(expected)
        np.testing.assert_allclose(weights, [expected[t] for t in terms.tolist()], rtol=1e-4)
        firsts = {t: impacts[1 + text.index(t)] for t in expected}
        largest_is_not_first += sum(firsts[t] < expected[t] for t in expected)
        dropped += len(set(text)) - len(expected)
        specials_positive += (impacts[0] > 0) + (impacts[-1] > 0)
    # The texts do show what they are to show.
    assert largest_is_not_first and dropped and specials_positive


def test_unicoil_weighs_a_text_alike_alone_and_in_every_company(coil, monkeypatch):
    model = unicoil.UniCoil(coil, max_length=24)
    pieces = model.word_pieces(TEXTS)
    together = model.weights(pieces, "test")
    monkeypatch.setattr(unicoil, "BATCH_TOKENS", 1)
    for (terms, weights), (alone, weighed) in zip(
        together, model.weights(pieces, "test"), strict=True
    ):
        assert terms.tolist() == alone.tolist()
        np.testing.assert_allclose(weights, weighed, rtol=1e-4)


def test_unicoil_cuts_texts_with_their_special_tokens_at_max_length(coil):
    model = unicoil.UniCoil(coil, max_length=5)
    (pieces,) = model.word_pieces(["red dog runs fox fox"])
    ((terms, weights),) = model.weights([pieces], "test")
    expected, _ = expected_coil(coil, pieces[:3])
    assert dict(zip(terms.tolist(), weights.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-4
    )
    with pytest.raises(EspalierError, match=r"max_length 25.*takes 3 to 24 tokens"):
        unicoil.UniCoil(coil, max_length=25)


def test_unicoil_leaves_out_separators_inside_a_text(coil):
    """As between a document and its expansion."""
    model = unicoil.UniCoil(coil, max_length=24)
    for text in ([5, SEP, 6], [6, 5, SEP, 9, 7]):
        ((terms, _),) = model.weights([text], "test")
        expected, _ = expected_coil(coil, text)
        assert terms.tolist() == sorted(set(expected) - {SEP})


def test_unicoil_reads_names_as_pyserini_writes_them(coil, tmp_path):
    prefixed = unicoil.UniCoil(folder_of(tmp_path, projection(), "coil_encoder."), max_length=24)
    plain = unicoil.UniCoil(coil, max_length=24)
    pieces = plain.word_pieces(TEXTS)
    for a, b in zip(prefixed.weights(pieces, "x"), plain.weights(pieces, "x"), strict=True):
        assert a[0].tolist() == b[0].tolist() and a[1].tolist() == b[1].tolist()


def test_unicoils_lexicon_names_the_vocabulary_ids(coil):
    model = unicoil.UniCoil(coil, max_length=24)
    assert model.lexicon == LEXICON
    assert [model.lexicon[i] for i in model.word_pieces(["foxs"])[0]] == ["fox", "##s"]
    assert model.word_pieces([]) == []
    assert model.weights([], "test") == []


positions = st.lists(st.tuples(st.integers(0, 6), st.floats(-4, 4, width=32)), max_size=30)


@given(positions, st.sets(st.integers(0, 6)))
def test_pooling_is_the_maximum_by_brute_force(text, left_out):
    ids = np.array([i for i, _ in text], np.int32)
    impacts = np.array([x for _, x in text], np.float32)
    terms, weights = unicoil.pooled(ids, impacts, sorted(left_out))
    expected = {
        i: max(x for j, x in text if j == i)
        for i in {i for i, _ in text} - left_out
        if max(x for j, x in text if j == i) > 0
    }
    assert terms.tolist() == sorted(expected)
    assert weights.tolist() == [expected[i] for i in sorted(expected)]
    assert terms.dtype == np.int32 and weights.dtype == np.float32


def expected_impacts(folder, pieces, first):
    """Word → impact of one text of word pieces, and where among them each word first begins."""
    vectors, tensors = plain_vectors(folder, [CLS, *pieces, SEP])
    w, b, v, c = (t.numpy() for t in two_layers().values())
    assert (tensors["impact_score_encoder.3.weight"].numpy() == v).all()
    impacts = {
        word: max(0.0, (v @ np.maximum(w @ vectors[1 + at] + b, 0) + c).item())
        for word, at in first.items()
    }
    return {word: value for word, value in impacts.items() if value > 0}


RED, FOX, DOG, S, RUNS, UNKNOWN = 5, 6, 7, 8, 9, 1
DOCUMENTS = [
    ("Red foxs, dogs.", [RED, FOX, S, DOG, S], {"red": 0, "foxs": 1, "dogs": 3}),
    ("", [], {}),
    ("dog. Dog! runs... DOG red", [DOG, DOG, RUNS, DOG, RED], {"dog": 0, "runs": 2, "red": 4}),
    ("zebra fox zebra", [UNKNOWN, FOX, UNKNOWN], {"zebra": 0, "fox": 1}),
    ("dogs dog fox runs", [DOG, S, DOG, FOX, RUNS], {"dogs": 0, "dog": 2, "fox": 3, "runs": 4}),
    ("?!", [], {}),
]


def test_deepimpact_takes_the_first_piece_of_a_words_first_occurrence(impact):
    model = deepimpact.DeepImpact(impact, max_length=24)
    found = model.weights([text for text, _, _ in DOCUMENTS], "test")
    dropped = 0
    for weights, (_, pieces, first) in zip(found, DOCUMENTS, strict=True):
        expected = expected_impacts(impact, pieces, first)
        assert weights == pytest.approx(expected, rel=1e-4)
        assert list(weights) == list(expected)
        dropped += len(first) - len(expected)
    assert any(found) and dropped


def test_deepimpact_weighs_a_document_alike_alone_and_in_every_company(impact):
    model = deepimpact.DeepImpact(impact, max_length=24)
    texts = [text for text, _, _ in DOCUMENTS]
    together = model.weights(texts, "test")
    for text, weights in zip(texts, together, strict=True):
        assert model.weights([text], "test")[0] == pytest.approx(weights, rel=1e-4)
    for a, b in zip(model.weights(texts[::-1], "test"), together[::-1], strict=True):
        assert a == pytest.approx(b, rel=1e-4)


def test_words_beyond_max_length_have_no_impact(impact):
    model = deepimpact.DeepImpact(impact, max_length=5)
    (found,) = model.weights(["dogs fox runs red"], "test")
    expected = expected_impacts(impact, [DOG, S, FOX], {"dogs": 0, "fox": 2})
    assert found == pytest.approx(expected, rel=1e-4)
    (longer,) = deepimpact.DeepImpact(impact, max_length=24).weights(["dogs fox runs red"], "test")
    assert set(longer) & {"runs", "red"}


def test_a_deepimpact_query_is_a_set_of_words():
    assert deepimpact.query("Dog, dog! the DOGS?") == {"dog": 1.0, "the": 1.0, "dogs": 1.0}
    assert deepimpact.query("") == {}


MODELS = [
    (unicoil.UniCoil, projection, "tok_proj.weight"),
    (unicoil.UniCoil, projection, "tok_proj.bias"),
    (deepimpact.DeepImpact, two_layers, "impact_score_encoder.0.bias"),
    (deepimpact.DeepImpact, two_layers, "impact_score_encoder.3.weight"),
]


@pytest.mark.parametrize(("kind", "head", "name"), MODELS)
def test_a_missing_or_misshapen_tensor_is_named_with_its_folder(kind, head, name, tmp_path):
    tensors = head()
    del tensors[name]
    folder_of(tmp_path, tensors)
    missing = f"^{re.escape(str(tmp_path))}.*tensor {re.escape(name)} is missing[^\n]*$"
    with pytest.raises(EspalierError, match=missing):
        kind(tmp_path, 24)
    tensors[name] = torch.zeros(7)
    folder_of(tmp_path, tensors)
    misshapen = f"^{re.escape(str(tmp_path))}.*tensor {re.escape(name)} is .7. and not [^\n]*$"
    with pytest.raises(EspalierError, match=misshapen):
        kind(tmp_path, 24)


@pytest.mark.parametrize(("kind", "head", "name"), [MODELS[0], MODELS[2]])
def test_a_missing_trunk_tensor_is_named(kind, head, name, tmp_path):
    folder_of(tmp_path, head())
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["bert.embeddings.word_embeddings.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(EspalierError, match=r"tensor bert\.embeddings\.word_embeddings\.weight is"):
        kind(tmp_path, 24)


def test_another_kind_of_model_is_refused(coil, tmp_path):
    folder_of(tmp_path, projection())
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"bert"', '"distilbert"'))
    with pytest.raises(EspalierError, match=r"config\.json: model_type is distilbert"):
        unicoil.UniCoil(tmp_path, 24)


def test_pickled_weights_are_not_read_and_the_remedy_works(coil, tmp_path):
    folder_of(tmp_path, projection())
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(EspalierError, match=r"model\.safetensors: missing"):
        unicoil.UniCoil(tmp_path, 24)

    # Tensors that share memory, as tied weights do, and one that is not contiguous.
    tensors["tied"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["turned"] = torch.arange(6).reshape(2, 3).T
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(EspalierError, match=r"pytorch_model\.bin: not read") as caught:
        unicoil.UniCoil(tmp_path, 24)
    message = str(caught.value)
    assert "\n" not in message
    python, *arguments = shlex.split(message.partition("in that folder: ")[2])
    assert python == "python"
    subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)
    converted = unicoil.UniCoil(tmp_path, 24)
    ours = unicoil.UniCoil(coil, 24)
    pieces = ours.word_pieces(TEXTS)
    for a, b in zip(converted.weights(pieces, "x"), ours.weights(pieces, "x"), strict=True):
        assert a[0].tolist() == b[0].tolist() and a[1].tolist() == b[1].tolist()


def test_words_by_hand():
    assert words("The U.S. isn't far: e-mail_me, 3.5km; naïve Ünï") == [
        "the", "u", "s", "isn", "t", "far", "e", "mail", "me", "3", "5km", "naïve", "ünï",
    ]  # fmt: skip
    assert words(" ...\n\t'_' ") == []


@given(st.text(max_size=60))
def test_words_are_the_maximal_alphanumeric_runs(text):
    runs = "".join(c if c.isalnum() else " " for c in text.lower()).split(" ")
    assert words(text) == [run for run in runs if run]
