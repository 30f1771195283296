"""docT5query's samples: the distribution they come from, and what they may depend on."""

import re
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from espalier.errors import EspalierError
from espalier.sparse.doct5query import DocT5Query

SPECIALS = ["<pad>", "</s>", "<unk>"]
LEXICON = [*SPECIALS, *(f"w{i}" for i in range(27))]
ID = {word: i for i, word in enumerate(LEXICON)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny T5 with random weights, and a tokenizer of whole words."""
    path = tmp_path_factory.mktemp("t5")
    tokenizer = Tokenizer(WordLevel(ID, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(LEXICON), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0, initializer_factor=1.0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    # What a folder says about sampling must not count.
    model.generation_config.update(do_sample=True, top_k=2, temperature=0.1, min_new_tokens=7)
    model.save_pretrained(path)
    return path


def next_probabilities(folder, text, begun=()):
    """Plain T5's distribution of the token after `begun`, float64[vocabulary]."""
    model = T5ForConditionalGeneration.from_pretrained(folder).eval()
    ids = torch.tensor([[*(ID[w] for w in text.split()), 1]])
    with torch.no_grad():
        decoded = torch.tensor([[0, *(ID[w] for w in begun)]])
        logits = model(input_ids=ids, decoder_input_ids=decoded).logits[0, -1].double()
    return torch.softmax(logits, dim=0)


def test_first_tokens_follow_the_ten_likeliest(folder):
    samples = 4000
    model = DocT5Query(folder, samples, max_new_tokens=1, seed=3)
    (found,) = model.expansions(["w1 w5 w5 w20"], 0, "test")
    assert len(found) == samples
    probabilities = next_probabilities(folder, "w1 w5 w5 w20")
    likeliest = probabilities.topk(10)
    share = dict(
        zip(
            likeliest.indices.tolist(),
            (likeliest.values / likeliest.values.sum()).tolist(),
            strict=True,
        )
    )
    # The cut matters here: much probability lies outside, and some of the ten are rare.
    assert likeliest.values.sum() < 0.9
    expected = Counter()
    for token, p in share.items():
        expected["" if LEXICON[token] in SPECIALS else LEXICON[token]] += p
    counted = Counter(found)
    assert set(counted) <= set(expected)
    for word, p in expected.items():
        # Five standard deviations of a binomial share.
        assert abs(counted[word] / samples - p) < 5 * (p * (1 - p) / samples) ** 0.5


def test_later_tokens_are_among_the_ten_likeliest_after_what_came_before(folder):
    model = DocT5Query(folder, 20, max_new_tokens=4, seed=3)
    (found,) = model.expansions(["w2 w3"], 0, "test")
    checked = 0
    for question in found:
        sampled = question.split()
        if len(sampled) < 4:
            continue  # ended early, or a special token fell out of the text
        for at in range(1, 4):
            allowed = next_probabilities(folder, "w2 w3", sampled[:at]).topk(10).indices.tolist()
            assert ID[sampled[at]] in allowed
            checked += 1
    assert checked >= 9
    assert max(len(question.split()) for question in found) == 4


TEXTS = ["w1 w2 w3", "w4", "", "w1 w2 w3", "w9 " * 40, "w7 w8"]


def sampler(folder, seed=3):
    return DocT5Query(folder, 5, max_new_tokens=6, seed=seed)


def test_expansions_depend_on_no_shard_company_or_earlier_draw(folder):
    model = sampler(folder)
    whole = model.expansions(TEXTS, 100, "test")
    assert [len(questions) for questions in whole] == [5] * len(TEXTS)
    torch.manual_seed(99)
    assert model.expansions(TEXTS, 100, "test") == whole
    again = sampler(folder)
    for cut in range(len(TEXTS) + 1):
        parts = again.expansions(TEXTS[:cut], 100, "x") + again.expansions(
            TEXTS[cut:], 100 + cut, "x"
        )
        assert parts == whole


def test_seed_and_document_number_each_change_the_draw(folder):
    whole = sampler(folder).expansions(TEXTS, 0, "test")
    assert whole[0] != whole[3]  # the same text
    assert sampler(folder, seed=4).expansions(TEXTS, 0, "test") != whole
    # Not the same generator one document later.
    same = ["w1 w2 w3"] * 3
    assert (
        sampler(folder, 4).expansions(same, 0, "x")[:2]
        != sampler(folder, 3).expansions(same, 0, "x")[1:]
    )


def test_the_samples_of_a_document_differ(folder):
    assert len(set(sampler(folder).expansions(["w1 w2 w3"], 0, "test")[0])) > 1


def test_torchs_generator_is_left_as_it_was(folder):
    model = sampler(folder)
    torch.manual_seed(8)
    expected = torch.rand(3)
    torch.manual_seed(8)
    model.expansions(TEXTS[:2], 0, "test")
    assert torch.equal(torch.rand(3), expected)


def test_a_document_is_cut_at_512_tokens_with_its_end_mark(folder, monkeypatch):
    model = sampler(folder)
    seen = []
    generate = model.model.generate

    def spied(**inputs):
        seen.append(inputs["input_ids"].tolist())
        return generate(**inputs)

    monkeypatch.setattr(model.model, "generate", spied)
    kept, beyond = "w1 w2 w3 w4 w5 w6 w7 " * 73, "w20 w21 " * 50
    cut, whole = model.expansions([kept + beyond], 0, "x"), model.expansions([kept], 0, "x")
    assert cut == whole
    assert seen == [[[*[4, 5, 6, 7, 8, 9, 10] * 73, 1]]] * 2
    assert len(seen[0][0]) == 512


def test_expansions_depend_on_the_text(folder):
    model = sampler(folder)
    assert model.expansions(["w1 w2 w3"], 0, "x") != model.expansions(["w20 w14"], 0, "x")


def copied(folder, path):
    for file in folder.iterdir():
        (path / file.name).write_bytes(file.read_bytes())


def test_pickled_weights_missing_tensors_and_other_models_are_refused(folder, tmp_path):
    copied(folder, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "decoder.final_layer_norm.weight"
    save_file({k: v for k, v in tensors.items() if k != name}, tmp_path / "model.safetensors")
    with pytest.raises(EspalierError, match=rf"tensor '{re.escape(name)}' is missing"):
        sampler(tmp_path)

    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(EspalierError, match=r"pytorch_model\.bin: not read.*save_file"):
        sampler(tmp_path)

    copied(folder, tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"t5"', '"bert"'))
    with pytest.raises(EspalierError, match=r"config\.json: model_type is bert"):
        sampler(tmp_path)
