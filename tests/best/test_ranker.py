"""Scores against the transformers library's own forward, for small random models of each type."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel
from transformers import CONFIG_MAPPING, AutoModel, AutoTokenizer, BertTokenizer, RobertaTokenizer

from espalier.best import ranker
from espalier.best.inputs import OFFSET, Input, Layout
from espalier.best.scoring import score
from espalier.errors import EspalierError
from espalier.models import devices
from tests.best.conftest import VOCABULARY

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "initializer_range": 0.2,  # apart enough for scores to differ
}  # fmt: skip
KINDS = {
    "bert": {"max_position_embeddings": 40},
    "electra": {"max_position_embeddings": 40, "embedding_size": 16},
    "distilbert": {
        "max_position_embeddings": 40, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2,
        "initializer_range": 0.2,
    },
    # Positions begin after the padding's id, which is 1.
    "roberta": {"max_position_embeddings": 42, "type_vocab_size": 1},
    "longformer": {
        "max_position_embeddings": 42, "type_vocab_size": 1, "attention_window": [4, 8],
        "sep_token_id": 2,
    },
}  # fmt: skip
BYTES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
QUERIES = ["ab", "a b c"]
TEXTS = ["x y z but this one is longer", "w"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model of a type and its tokenizer, into characters or bytes."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param in OFFSET:
        tokenizer = RobertaTokenizer(vocab={t: i for i, t in enumerate(BYTES)}, merges=[])
        special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    else:
        tokenizer = BertTokenizer(vocab={t: i for i, t in enumerate(VOCABULARY)})
        special = {"pad_token_id": 0}
    tokenizer.save_pretrained(folder)
    shape = {} if request.param == "distilbert" else SMALL
    config = CONFIG_MAPPING[request.param](
        vocab_size=len(tokenizer), **shape, **special, **KINDS[request.param]
    )
    torch.manual_seed(1)
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def layout(checkpoint: Path) -> Layout:
    return Layout.of(AutoTokenizer.from_pretrained(checkpoint))


def pair(query: list[int], segment: list[int]) -> Input:
    return Input(np.array(query, dtype=np.int32), np.array(segment, dtype=np.int32))


def made(checkpoint: Path, *, mark: bool = False) -> ranker.Ranker:
    devices.seeded(3, 1)  # no kernel may be one that is not deterministic
    return ranker.new(checkpoint, mark=mark).eval()


def inputs(tokenizer, queries: list[str], texts: list[str]) -> list[Input]:
    ids = [tokenizer(side, add_special_tokens=False)["input_ids"] for side in (queries, texts)]
    return [pair(*both) for both in zip(*ids, strict=True)]


def plain(model, tokenizer) -> torch.Tensor:
    """[CLS] of the pairs, padded, by the library's model alone."""
    encoded = tokenizer(QUERIES, TEXTS, padding=True, return_tensors="pt")
    if model.config.model_type == "longformer":
        owners = [encoded.sequence_ids(row) for row in range(len(QUERIES))]
        query = torch.tensor([[owner == 0 for owner in row] for row in owners])
        query[:, 0] = True
        encoded["global_attention_mask"] = query.long()
    return model(**encoded).last_hidden_state[:, 0]


def test_batches_look_as_the_tokenizer_makes_them(kind: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(kind)
    expected = [tokenizer(*both) for both in zip(QUERIES, TEXTS, strict=True)]
    batch = Layout.of(tokenizer).collate(inputs(tokenizer, QUERIES, TEXTS), mark=False)
    assert batch.ids.tolist() == [i for each in expected for i in each["input_ids"]]
    assert batch.lengths == [len(each["input_ids"]) for each in expected]
    assert batch.pad == tokenizer.pad_token_id
    if "token_type_ids" in expected[0]:
        assert batch.types.tolist() == [t for each in expected for t in each["token_type_ids"]]


def test_marks_are_the_shared_pieces(layout: Layout) -> None:
    batch = layout.collate([pair([7, 8], [9, 8, 8]), pair([7], [])], mark=True)
    assert batch.types.tolist() == [0, 0, 2, 0, 1, 2, 2, 1, 0, 0, 0, 1]
    assert batch.lengths == [8, 4]


def test_scores_are_those_of_the_whole_model(kind: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(kind)
    model, layout = made(kind), Layout.of(tokenizer)
    whole = AutoModel.from_pretrained(kind).eval()
    with torch.inference_mode():
        expected = model.head(plain(whole, tokenizer)).squeeze(-1).numpy()
    assert abs(expected[0] - expected[1]) > 1e-2
    pairs = inputs(tokenizer, QUERIES, TEXTS)
    for tokens in (1, 1000):  # each alone, both together
        np.testing.assert_allclose(score(model, layout, pairs, tokens), expected, atol=1e-5)
    with torch.inference_mode():  # as on a GPU
        cls = ranker.whole_cls(model.trunk, layout.collate(pairs, mark=False))
        np.testing.assert_allclose(model.head(cls)[:, 0].numpy(), expected, atol=1e-5)


def test_gradients_are_those_of_the_whole_model(kind: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(kind)
    model, whole = made(kind), AutoModel.from_pretrained(kind).eval()
    model(
        Layout.of(tokenizer).collate(inputs(tokenizer, QUERIES, TEXTS), mark=False)
    ).sum().backward()
    model.head(plain(whole, tokenizer)).sum().backward()
    expected = dict(whole.named_parameters())
    for name, parameter in model.trunk.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, atol=1e-4, rtol=1e-4)


def test_recomputed_activations_change_no_gradient(checkpoint: Path, layout: Layout) -> None:
    batch = layout.collate([pair([6, 7], [8, 9, 10]), pair([6], [11] * 9)], mark=False)
    gradients = []
    for recompute in (False, True):
        model = made(checkpoint).train()
        if recompute:
            model.trunk.activation_checkpointing_enable()
        torch.manual_seed(5)  # the same dropout
        model(batch).sum().backward()
        gradients.append(model.trunk.embeddings.word_embeddings.weight.grad)
    assert torch.equal(*gradients) and gradients[0].abs().max() > 0


def test_a_type_that_is_no_bert_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(EspalierError, match=r"config.json: model_type 'gpt2' .*models\.ranker"):
        ranker.new(tmp_path, mark=False)


def test_marking_needs_token_types(kind: Path) -> None:
    if kind.name.startswith(("bert", "electra")):
        assert made(kind, mark=True).marks
    else:
        with pytest.raises(EspalierError, match=r"has no token types .*exact_match_marking"):
            ranker.new(kind, mark=True)


def test_the_longest_pair_is_scored_and_a_longer_one_refused(kind: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(kind)
    model, layout = made(kind), Layout.of(tokenizer)
    room = 40 - layout.special - 1
    assert np.isfinite(score(model, layout, [pair([9], [11] * room)], 100)).all()
    with pytest.raises(EspalierError, match=r"41 word pieces, the model takes 40: .*max_length"):
        score(model, layout, [pair([9], [11] * (room + 1))], 100)


def test_marking_changes_nothing_before_training_but_the_query(
    checkpoint: Path, layout: Layout
) -> None:
    plain, marked = made(checkpoint), made(checkpoint, mark=True)
    apart = [pair([6, 7], [8, 9])]
    np.testing.assert_array_equal(
        score(plain, layout, apart, 100), score(marked, layout, apart, 100)
    )
    assert marked.trunk.embeddings.token_type_embeddings.weight.shape == (3, 32)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=25))
def test_bucketing_does_not_change_scores(
    checkpoint: Path, layout: Layout, sizes: list[tuple[int, int]]
) -> None:
    model = made(checkpoint)
    generator = np.random.default_rng(0)
    pairs = [Input(*(generator.integers(5, 60, n).astype(np.int32) for n in s)) for s in sizes]
    alone = [score(model, layout, [each], 1)[0] for each in pairs]
    np.testing.assert_allclose(score(model, layout, pairs, 200), alone, rtol=1e-4, atol=1e-5)


def test_a_saved_ranker_scores_alike_and_saves_alike(
    checkpoint: Path, layout: Layout, tmp_path: Path
) -> None:
    model = made(checkpoint, mark=True)
    pairs = [pair([6, 7], [7, 9]), pair([6], [8])]
    for name in ("one", "two"):
        ranker.save(tmp_path / name, model)
    again = ranker.load(tmp_path / "one")
    assert again.marks
    np.testing.assert_array_equal(score(again, layout, pairs, 99), score(model, layout, pairs, 99))
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
