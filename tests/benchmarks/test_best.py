import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertForSequenceClassification

from benchmarks import best
from espalier.best import ranker
from espalier.best.inputs import Layout
from espalier.best.scoring import score
from tests.best.conftest import checkpoint  # noqa: F401


def test_documents_are_as_long_as_stated():
    lengths = best.document_lengths(50_000, np.random.default_rng(1))
    assert np.median(lengths) == pytest.approx(best.MEDIAN, rel=0.03)
    assert np.percentile(lengths, 90) == pytest.approx(best.P90, rel=0.03)


def test_leading_segments_are_randomised_and_end_with_the_document():
    limit = 192 - 3 - best.RESERVED - best.TITLE
    assert best.segment_lengths(10, 192, 3) == [10]
    drawn = [best.segment_lengths(5000, 192, number) for number in range(300)]
    assert {len(lengths) for lengths in drawn} == {best.LEADING}
    flat = np.concatenate(drawn)
    assert flat.min() == -(-limit // 3) and flat.max() == limit
    assert sum(best.segment_lengths(limit, 192, 3)) == limit


def test_the_rival_is_given_the_same_word_pieces_and_the_same_model(tmp_path, checkpoint):  # noqa: F811
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    layout = Layout.of(tokenizer)
    words = best.whole_words(tokenizer)
    assert sorted(tokenizer.convert_ids_to_tokens(words)) == list("abcdefghijklmnopqrstuvwxyz")
    pairs = best.drawn_pairs(words, 80, 7)
    texts = [[tokenizer.decode(side) for side in pair] for pair in pairs]
    encoded = tokenizer(*zip(*texts, strict=True), padding=True, return_tensors="pt")
    torch.manual_seed(3)
    model = ranker.new(checkpoint, mark=False)
    best.exported(model, tokenizer, tmp_path)
    whole = BertForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        theirs = whole(**encoded).logits[:, 0].numpy()
    assert theirs.std() > 0
    np.testing.assert_allclose(score(model, layout, pairs, 500), theirs, rtol=1e-3, atol=1e-4)


def test_a_step_is_one_of_the_learner(checkpoint):  # noqa: F811
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model, layout = ranker.new(checkpoint, mark=False), Layout.of(tokenizer)
    learner = best.learner_of(model, layout)
    before = model.head.weight.clone()
    best.update(learner, best.triples(best.whole_words(tokenizer), 80, 3))
    assert not torch.equal(model.head.weight, before) and len(learner.losses) == 1


def test_turns_alternate_and_leave_the_first_out():
    seen = []
    times = best.turns(
        {name: lambda i, name=name: seen.append((name, i)) or float(i) for name in "ab"}, 3
    )
    assert seen == [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert {name: values.tolist() for name, values in times.items()} == {"a": [1, 2], "b": [1, 2]}
