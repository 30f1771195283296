import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertModel

from espalier.colbert import encoder
from espalier.errors import EspalierError
from tests.colbert.conftest import ID

SHAPE = {"layers": 2, "dimensions": 16, "query_length": 8, "doc_maxlen": 10}


@pytest.fixture
def model(bert):
    torch.manual_seed(1)
    return encoder.new(bert, **SHAPE, drop_punctuation=True)


def ids(*tokens):
    return [ID[token] for token in tokens]


def test_layout_of_a_query(model):
    short, long, empty = model.layout.queries(["pruned graph", "sparse " * 200, ""])
    masks = ["[MASK]"] * 2
    assert short.tolist() == ids("[CLS]", "[unused0]", "prune", "##d", "graph", "[SEP]", *masks)
    assert long.tolist() == ids("[CLS]", "[unused0]", *["sparse"] * 5, "[SEP]")
    assert empty.tolist() == ids("[CLS]", "[unused0]", "[SEP]", *["[MASK]"] * 5)


def test_layout_of_a_document(model):
    tokens = model.layout.docs(["graph, tree (edge).", "sparse " * 200, "", "(.,)", "node"])
    assert tokens[0].tolist() == ids(
        "[CLS]", "[unused1]", "graph", ",", "tree", "(", "edge", ")", ".", "[SEP]"
    )
    assert tokens[1].tolist() == ids("[CLS]", "[unused1]", *["sparse"] * 7, "[SEP]")
    assert [len(t) for t in tokens[2:]] == [0, 0, 4]
    kept = tokens[0][model.layout.kept(tokens[0])]
    assert kept.tolist() == ids("[CLS]", "[unused1]", "graph", "tree", "edge", "[SEP]")


def test_punctuation_stays_when_asked(bert):
    layout = encoder.new(bert, **SHAPE, drop_punctuation=False).layout
    (tokens,) = layout.docs(["(.,)"])
    assert layout.kept(tokens).all()
    assert len(tokens) == 7


def test_names_of_special_tokens_in_a_text_are_text(model):
    (tokens,) = model.layout.docs(["a [MASK] and [PAD]"])
    assert tokens.tolist()[2:6] == ids("a", "[", "mask", "]")
    assert ID["[PAD]"] not in tokens


def test_masks_attend_but_nothing_attends_to_them(model, bert):
    """The embeddings of the real tokens are those of the query without its masks."""
    query = model.layout.queries(["sparse graph"])
    embeddings = model.encode(query)[0]
    assert embeddings.shape == (8, 16)
    trunk = BertModel.from_pretrained(bert, add_pooling_layer=False).eval()
    with torch.no_grad():
        hidden = trunk(input_ids=torch.tensor(query[:, :5])).last_hidden_state[0]
        bare = torch.nn.functional.normalize(hidden @ model.projection.weight.T, dim=-1)
    np.testing.assert_allclose(embeddings[:5], bare.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_documents_are_encoded_alike_alone_and_among_others(model):
    texts = ["graph, tree", "", "sparse matrix norm of the tree", "node", "."]
    tokens = model.layout.docs(texts)
    together = dict(model.encode_docs(tokens))
    assert sorted(together) == [0, 2, 3]
    for i, embeddings in together.items():
        ((_, alone),) = model.encode_docs([tokens[i]])
        assert embeddings.dtype == np.float16
        assert len(embeddings) == model.layout.kept(tokens[i]).sum()
        np.testing.assert_allclose(embeddings, alone, atol=2e-3)


def test_layers_are_the_first_of_the_trunk(bert):
    shallow = encoder.new(bert, **{**SHAPE, "layers": 1}, drop_punctuation=True)
    weights = load_file(bert / "model.safetensors")
    state = shallow.trunk.state_dict()
    assert not any("layer.1." in name for name in state)
    words = "embeddings.word_embeddings.weight"
    weights[words][ID["[MASK]"]] = weights[words][ID["[CLS]"]]
    assert all(torch.equal(value, weights[name]) for name, value in state.items())


def test_saved_and_loaded_it_encodes_the_same(model, tmp_path):
    with torch.no_grad():  # as after training, when [MASK] is no longer what it began as
        for weights in model.parameters():
            weights.add_(0.01 * torch.randn(weights.shape))
    encoder.save(tmp_path, model)
    again = encoder.load(tmp_path)
    query = model.layout.queries(["dense vector", "graph of a tree", ""])
    np.testing.assert_allclose(model.encode(query), again.encode(query), atol=2e-6)
    if torch.backends.mkldnn.is_available():
        assert not any(type(part) is torch.nn.Linear for part in again.trunk.modules())
        for refused in (encoder.with_int8, lambda loaded: encoder.save(tmp_path / "x", loaded)):
            with pytest.raises(ValueError, match="loaded for inference"):
                refused(again)
        assert not (tmp_path / "x").exists()
    rounded = encoder.load(tmp_path, int8=True).encode(query)
    np.testing.assert_allclose(rounded, encoder.with_int8(model).encode(query), atol=0.02)
    assert not np.allclose(rounded, again.encode(query), atol=1e-5)
    assert again.layout.doc_maxlen == 10
    assert again.dimensions == 16


def test_eight_bit_queries_are_close_and_leave_the_encoder_as_it_is(model):
    query = model.layout.queries(["dense vector", "graph of a tree"])
    before = model.encode(query)
    rounded = encoder.with_int8(model)
    after = rounded.encode(query)
    assert (before * after).sum(axis=-1).min() > 0.99
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(np.linalg.norm(after, axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal(model.encode(query), before)
    alone = np.concatenate([rounded.encode(row[None]) for row in query])
    np.testing.assert_array_equal(alone, after)


def test_eight_bit_queries_are_refused_on_a_gpu(model, monkeypatch):
    monkeypatch.setattr(encoder, "device", lambda: torch.device("cuda"))
    with pytest.raises(EspalierError, match=r"colbert\.retrieval\.int8_queries"):
        encoder.with_int8(model)


def test_a_vocabulary_without_markers_is_refused(bert, tmp_path):
    from transformers import BertTokenizer

    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((bert / file).read_bytes())
    vocabulary = (bert / "vocab.txt").read_text().replace("[unused0]", "other")
    (tmp_path / "vocab.txt").write_text(vocabulary)
    BertTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    with pytest.raises(EspalierError, match=r"\[unused0\]"):
        encoder.new(tmp_path, **SHAPE, drop_punctuation=True)
