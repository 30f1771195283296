"""Scoring in batches of one length, and in int8."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from espalier.best import ranker
from espalier.best.inputs import Input, Layout
from espalier.best.scoring import quantized, score


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> ranker.Ranker:
    torch.manual_seed(3)
    made = ranker.new(checkpoint, mark=True)
    with torch.no_grad():  # scores that differ
        made.head.weight *= 50
    return made


@pytest.fixture(scope="module")
def layout(checkpoint: Path) -> Layout:
    return Layout.of(AutoTokenizer.from_pretrained(checkpoint))


@pytest.fixture(scope="module")
def pairs() -> list[Input]:
    generator = np.random.default_rng(0)
    sizes = generator.integers([1, 0], [6, 60], size=(200, 2))
    return [Input(*(generator.integers(5, 60, n).astype(np.int32) for n in s)) for s in sizes]


def test_scores_stand_where_the_pairs_stood(
    model: ranker.Ranker, layout: Layout, pairs: list[Input]
) -> None:
    scores = score(model, layout, pairs, 500)
    backwards = score(model, layout, pairs[::-1], 500)[::-1]
    np.testing.assert_allclose(scores, backwards, atol=1e-5)
    assert scores.std() > 1e-2


def test_scoring_leaves_the_mode_and_needs_no_gradient(
    model: ranker.Ranker, layout: Layout, pairs: list[Input]
) -> None:
    for training in (True, False):
        model.train(training)
        score(model, layout, pairs[:2], 500)
        assert model.training == training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_no_pairs_give_no_scores(model: ranker.Ranker, layout: Layout) -> None:
    assert score(model, layout, [], 500).shape == (0,)


def test_int8_scores_stay_near_and_the_ranker_as_it_was(
    model: ranker.Ranker, layout: Layout, pairs: list[Input]
) -> None:
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    exact = score(model, layout, pairs, 500)
    near = score(quantized(model), layout, pairs, 500)
    assert np.abs(near - exact).max() > 0
    assert np.corrcoef(near, exact)[0, 1] > 0.98
    assert all(torch.equal(weights, before[name]) for name, weights in model.state_dict().items())
