"""Where weights come from, on checkpoints whose every weight can be worked out by hand."""

import json
import re
from math import log
from pathlib import Path

import pytest
import torch
from google.protobuf.proto import serialize_length_prefixed
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from espalier.errors import EspalierError
from espalier.sparse import weightings
from espalier.sparse.ciff import DocRecord, Header, PostingsList
from espalier.sparse.shards import Text

LEXICON = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "fox", "wolf", "dog", "##s", "hue"]
# Rows of a Hadamard matrix but the constant one: mean 0, deviation 1, orthogonal. So layer
# normalisation changes none of them, and the product of two is 8 or 0.
SIGNS = {
    "red": "+-+-+-+-", "fox": "++--++--", "wolf": "++--++--", "dog": "+--++--+", "##s": "++++----",
}  # fmt: skip
HIDDEN = 8


def vector(word):
    """A word's embedding; [CLS], [SEP], [UNK] and hue have none."""
    return torch.tensor([1.0 if sign == "+" else -1.0 for sign in SIGNS[word]])


def folder_of(folder, tensors):
    """A BERT without layers, so that a position's vector is its word's, and tensors beside it."""
    (folder / "vocab.txt").write_text("\n".join(LEXICON) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(LEXICON), hidden_size=HIDDEN, num_hidden_layers=0, num_attention_heads=2,
        max_position_embeddings=24, hidden_act="linear", layer_norm_eps=1e-12,
    )  # fmt: skip
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        for word in SIGNS:
            model.bert.embeddings.word_embeddings.weight[LEXICON.index(word)] = vector(word)
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(HIDDEN))
        for word, bias in {"red": -2, "wolf": -4, "dog": -7, "##s": -9, "hue": 1}.items():
            model.cls.predictions.bias[LEXICON.index(word)] = bias
    model.save_pretrained(folder)
    if tensors:
        own = {name: t for name, t in model.state_dict().items() if name.startswith("bert.")}
        save_file(own | tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    """Logits: 8 where the word stands (wolf: or fox), 0 elsewhere, and the biases above."""
    return folder_of(tmp_path_factory.mktemp("splade"), {})


@pytest.fixture(scope="module")
def unicoil(tmp_path_factory):
    """Impacts: red 1.5, fox 0.25, dog −0.5, and 0.5 for what has no vector or another one."""
    weight = (vector("red") - 0.25 * vector("fox") - vector("dog")) / HIDDEN
    tensors = {"tok_proj.weight": weight[None], "tok_proj.bias": torch.tensor([0.5])}
    return folder_of(tmp_path_factory.mktemp("unicoil"), tensors)


@pytest.fixture(scope="module")
def deepimpact(tmp_path_factory):
    """Impacts: red 1.5, fox −1, dog 2, and 0 for others."""
    words, impacts = ("red", "fox", "dog"), (1.5, -1.0, 2.0)
    first, second = torch.zeros(HIDDEN, HIDDEN), torch.zeros(1, HIDDEN)
    for i, (word, impact) in enumerate(zip(words, impacts, strict=True)):
        first[i], second[0, i] = vector(word) / HIDDEN, impact
    tensors = {
        "impact_score_encoder.0.weight": first,
        "impact_score_encoder.0.bias": torch.zeros(HIDDEN),
        "impact_score_encoder.3.weight": second,
        "impact_score_encoder.3.bias": torch.zeros(1),
    }
    return folder_of(tmp_path_factory.mktemp("deepimpact"), tensors)


def near(frequency, learned):
    """Such a text, but for the last bits of its learned weights."""
    return Text(frequency, pytest.approx(learned, rel=1e-5))


def both(encoder, texts, expected):
    """Check texts as documents and as queries, whose ids are not in order."""
    names = [f"t{9 - i}" for i in range(len(texts))]
    assert encoder.documents(names, texts) == expected
    found = encoder.queries(dict(zip(names, texts, strict=True)))
    assert found == dict(zip(names, expected, strict=True))
    assert list(found) == names


def test_splade_weighs_word_pieces_and_expands(splade):
    spec = {"kind": "splade", "model": f"folder:{splade}", "max_length": 5}
    texts = ["Red foxs red", "dog dog dog zebra red", "", "##s zebra"]
    # `##s` weighs nothing anywhere; the third text is void, what follows a third piece is not read.
    expected = [
        near(
            {"red": 2, "fox": 1, "##s": 1},
            {"red": log(7), "fox": log(9), "wolf": log(5), "hue": log(2)},
        ),
        near({"dog": 3, "[UNK]": 1, "red": 1}, {"dog": log(2), "hue": log(2)}),
        near({}, {"hue": log(2)}),
        near({"[UNK]": 4}, {"hue": log(2)}),
    ]
    both(weightings.encoder(spec), texts, expected)


def test_unicoil_weighs_word_pieces_of_the_text_alone(unicoil):
    spec = {"kind": "unicoil", "model": f"folder:{unicoil}", "max_length": 6}
    texts = ["Red foxs red", "dog zebra fox fox red wolf", "", "dog"]
    expected = [
        near({"red": 2, "fox": 1, "##s": 1}, {"red": 1.5, "fox": 0.25, "##s": 0.5}),
        near({"dog": 1, "[UNK]": 1, "fox": 2, "red": 1, "wolf": 1}, {"[UNK]": 0.5, "fox": 0.25}),
        near({}, {}),
        near({"dog": 1}, {}),
    ]
    both(weightings.encoder(spec), texts, expected)


def test_deepimpact_weighs_words_and_a_querys_words_weigh_1(deepimpact):
    spec = {"kind": "deepimpact", "model": f"folder:{deepimpact}", "max_length": 6}
    encoder = weightings.encoder(spec)
    texts = ["Red, red foxs! (red)", "zebra dogs; zebra dog", "...", "hue dog red-red dogs"]
    frequencies = [
        {"red": 3, "foxs": 1}, {"zebra": 2, "dogs": 1, "dog": 1}, {},
        {"hue": 1, "dog": 1, "red": 2, "dogs": 1},
    ]  # fmt: skip
    # `dogs` is known by its first piece; the second text's last word is its fifth piece.
    learned = [{"red": 1.5}, {"dogs": 2.0}, {}, {"dog": 2.0, "red": 1.5}]
    expected = [near(*pair) for pair in zip(frequencies, learned, strict=True)]
    assert encoder.documents(["a", "b", "c", "d"], texts) == expected
    found = encoder.queries(dict(zip("zyxw", texts, strict=True)))
    ones = [Text(counts, dict.fromkeys(counts, 1.0)) for counts in frequencies]
    assert found == dict(zip("zyxw", ones, strict=True))
    assert list(found) == [*"zyxw"]


def lines(path, *records):
    """A file of JSON lines."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def vectors_file(path, documents):
    return lines(path, *({"id": i, "contents": "", "vector": v} for i, v in documents.items()))


def ciff_file(path, documents):
    """The documents' weights, zeros too, as protobuf writes them."""
    terms = sorted({term for weights in documents.values() for term in weights})
    header = Header(version=1, num_postings_lists=len(terms), num_docs=len(documents))
    with path.open("wb") as stream:
        serialize_length_prefixed(header, stream)
        for term in terms:
            message, last = PostingsList(term=term), 0
            for doc, weights in enumerate(documents.values()):
                if term in weights:
                    message.postings.add(docid=doc - last, tf=weights[term])
                    last = doc
            message.df = len(message.postings)
            serialize_length_prefixed(message, stream)
        for doc, doc_id in enumerate(documents):
            record = DocRecord(docid=doc, collection_docid=doc_id, doclength=1)
            serialize_length_prefixed(record, stream)
    return path


FILES = {"vectors": vectors_file, "ciff": ciff_file}

TEXTS = ["Red, foxs red", "dog", "zebra red-dogs", ""]
BY_WORDS = [{"red": 2, "foxs": 1}, {"dog": 1}, {"zebra": 1, "red": 1, "dogs": 1}, {}]
BY_PIECES = [
    {"red": 2, "[UNK]": 1, "fox": 1, "##s": 1}, {"dog": 1},
    {"[UNK]": 2, "red": 1, "dog": 1, "##s": 1}, {},
]  # fmt: skip


@pytest.fixture
def spec(splade, tmp_path):
    """A function from the kind of files and the tokens to a weighting of a few documents."""
    documents = {
        "d3": {}, "other": {"red": 9}, "d2": {"wolf": 3, "hue": 0, "red": 250}, "d0": {"wolf": 1},
    }  # fmt: skip

    def made(kind, tokens="words"):
        path = FILES[kind](tmp_path / f"documents.{kind}", documents)
        queries = tmp_path / "queries.tsv"
        queries.write_text("q7\tred wolf red\nq1\t\nq5\thue\n")
        named = tokens.replace("model", f"folder:{splade}")
        return {"kind": kind, "documents": str(path), "queries": str(queries), "tokens": named}

    return made


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(("tokens", "counted"), [("words", BY_WORDS), ("model", BY_PIECES)])
def test_files_give_the_learned_weights_and_texts_the_counts(spec, kind, tokens, counted):
    encoder = weightings.encoder(spec(kind, tokens))
    # In the collection's order; d1 is not in the file, d3 has no terms.
    found = encoder.documents(["d0", "d1", "d2", "d3"], TEXTS)
    learned = [{"wolf": 1.0}, {}, {"wolf": 3.0, "red": 250.0}, {}]
    assert found == [Text(*pair) for pair in zip(counted, learned, strict=True)]
    assert all(type(weight) is float for text in found for weight in text.learned.values())

    # q5 is not asked for; q1 has no terms.
    asked = encoder.queries({"q1": TEXTS[0], "q7": TEXTS[2]})
    assert asked == {
        "q1": Text(counted[0], {}),
        "q7": Text(counted[2], {"red": 2.0, "wolf": 1.0}),
    }
    assert list(asked) == ["q1", "q7"]


def test_encoded_queries_may_have_any_weights(spec, tmp_path):
    queries = vectors_file(tmp_path / "queries.jsonl", {"q": {"red": 0.375, "dog": 0}})
    encoder = weightings.encoder({**spec("ciff"), "queries": str(queries)})
    assert encoder.queries({"q": "dog"}) == {"q": Text({"dog": 1}, {"red": 0.375})}


def one_line(*parts):
    """A pattern: an error of one line that begins with the first part and has the others."""
    return "^" + "[^\n]*".join(re.escape(str(part)) for part in parts) + "[^\n]*$"


@pytest.mark.parametrize("kind", FILES)
def test_a_query_that_the_file_lacks_is_an_error(spec, kind):
    made = spec(kind)
    encoder = weightings.encoder(made)
    with pytest.raises(EspalierError, match=one_line(made["queries"], "'q4' and 1 other")):
        encoder.queries({"q7": "", "q4": "", "q1": "", "q9": ""})


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_another_collection_is_an_error(spec, kind):
    made = spec(kind)
    encoder = weightings.encoder(made)
    with pytest.raises(EspalierError, match=one_line(made["documents"], "'x1'", "'documents'")):
        encoder.documents(["x1", "x2"], ["red", "dog"])


def test_a_document_twice_is_an_error(spec):
    made = spec("vectors")
    with Path(made["documents"]).open("a") as stream:
        stream.write('{"id": "d2", "vector": {}}\n')
    with pytest.raises(EspalierError, match=one_line(made["documents"], "'d2'", "twice")):
        weightings.encoder(made).documents(["d1", "d2"], ["", ""])


@pytest.mark.parametrize("kind", ["splade", "unicoil", "deepimpact", "vectors", "ciff"])
def test_a_slice_may_be_empty(spec, request, kind):
    made = {"kind": kind, "max_length": 5}
    made |= spec(kind) if kind in FILES else {"model": f"folder:{request.getfixturevalue(kind)}"}
    encoder = weightings.encoder(made)
    assert encoder.documents([], []) == []
    assert encoder.queries({}) == {}


def test_own_terms_keeps_the_weights_of_terms_that_stand_in_the_text():
    text = Text({"red": 2, "dog": 1}, {"red": 0.5, "wolf": 3.0})
    assert weightings.own_terms(text) == Text({"red": 2, "dog": 1}, {"red": 0.5})
    assert weightings.own_terms(Text({}, {"wolf": 3.0})) == Text({}, {})
    assert text.learned == {"red": 0.5, "wolf": 3.0}


def questions_file(path, questions):
    return lines(path, *({"id": i, "predicted_queries": q} for i, q in questions.items()))


def test_documents_are_expanded_by_the_questions_of_all_files(tmp_path):
    paths = [
        questions_file(
            tmp_path / "1.jsonl", {"c": ["what is c", "why c?"], "other": ["no"], "a": []}
        ),
        questions_file(tmp_path / "2.jsonl", {"d": ["who"], "c": ["more c"]}),
    ]
    texts = ["text a", "text b", "text c", ""]
    found = weightings.expanded(["a", "b", "c", "d"], texts, paths)
    assert found == ["text a", "text b", "text c what is c why c? more c", "who"]
    assert weightings.expanded([], [], paths) == []


def test_questions_for_another_collection_are_an_error(tmp_path):
    paths = [questions_file(tmp_path / f"{i}.jsonl", {"other": ["no"]}) for i in (1, 2)]
    with pytest.raises(EspalierError, match=one_line(*paths, "'a'", "'expansion'")):
        weightings.expanded(["a", "b"], ["", ""], paths)
