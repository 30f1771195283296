from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from espalier.best import ranker
from espalier.best.inputs import Input, Layout
from espalier.best.scoring import score


@pytest.fixture(scope="module")
def layout(checkpoint: Path) -> Layout:
    return Layout.of(AutoTokenizer.from_pretrained(checkpoint))


def pair(query: list[int], segment: list[int]) -> Input:
    return Input(np.array(query, dtype=np.int32), np.array(segment, dtype=np.int32))


def made(checkpoint: Path, *, mark: bool = False) -> ranker.Ranker:
    torch.manual_seed(3)
    return ranker.new(checkpoint, mark=mark).eval()


def test_batches_look_as_the_tokenizer_makes_them(checkpoint: Path, layout: Layout) -> None:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    queries, texts = ["ab", "a b c"], ["x y z", "w"]
    expected = tokenizer(queries, texts, padding=True, return_tensors="pt")
    ids = tokenizer([*queries, *texts], add_special_tokens=False)["input_ids"]
    batch = layout.collate([pair(ids[0], ids[2]), pair(ids[1], ids[3])], mark=False)
    assert batch.ids.tolist() == expected["input_ids"].tolist()
    assert batch.mask.tolist() == expected["attention_mask"].bool().tolist()
    assert batch.types.tolist() == expected["token_type_ids"].tolist()


def test_marks_are_the_shared_pieces(layout: Layout) -> None:
    batch = layout.collate([pair([7, 8], [9, 8, 8]), pair([7], [])], mark=True)
    assert batch.types.tolist() == [[0, 0, 2, 0, 1, 2, 2, 1], [0, 0, 0, 1, 0, 0, 0, 0]]


def test_scores_are_those_of_the_whole_model(checkpoint: Path, layout: Layout) -> None:
    model = made(checkpoint)
    trunk = AutoModel.from_pretrained(checkpoint, add_pooling_layer=False).eval()
    batch = layout.collate([pair([6, 7], [8, 9, 10]), pair([6], [11] * 9)], mark=False)
    whole = trunk(
        input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.mask
    ).last_hidden_state[:, 0]
    torch.testing.assert_close(model(batch), model.head(whole).squeeze(-1))


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
