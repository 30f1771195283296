"""What the config says of views is checked before any work."""

from pathlib import Path

import pytest

from espalier import config as configuration
from espalier.errors import EspalierError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def corpus(tmp_path):
    """The id of a folder with two splits and a run."""
    (tmp_path / "docs.tsv").write_text("d1\tred\nd2\tgreen\n")
    (tmp_path / "queries.tsv").write_text("q1\tred\ttrain\nq2\tgreen\ttest\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 9.5 x\nq2 Q0 d2 1 9.5 x\n")
    return f"folder:{tmp_path}"


@pytest.fixture
def config(corpus):
    """The default config, for one paper, with the view `documents` replaced and changed."""

    def config(**changes):
        found = configuration.load(ROOT)
        view = {"docs": corpus, "splits": {"test": f"{corpus}:test", "train": None}, **changes}
        found["papers"] = ["best"]
        found["collections"]["documents"] = view
        configuration.check_schema(found, ROOT)
        return found

    return config


def test_a_view_with_everything_passes(config, corpus):
    passages = {"docs": corpus, "splits": {"test": corpus}, "relevance": {"test": 2}}
    found = config(
        candidates="scoreddocs",
        query_field="text",
        passages=passages,
        max_queries={"test": 5, "train": None},
    )
    configuration.check_collections(found)
    view = configuration.view_of(found, "documents")
    assert view["splits"] == {"test": f"{corpus}:test"}
    assert view["max_queries"] == {"test": 5}
    assert found["collections"]["documents"]["splits"]["train"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_queries": {"dev": 5}}, r"documents.max_queries.dev': this view has no such split"),
        ({"query_field": "title"}, r"queries have no field 'title'; name one of text"),
        ({"splits": {"test": "folder:none/such"}}, r"'folder:none/such': no such folder"),
        (
            {"passages": {"docs": "vaswani", "splits": {"dev": "vaswani"}}},
            r"documents.passages.splits.dev': this view has no such split; name one of test",
        ),
        (
            {"splits": {"test": "espalier/pydocs-mini"}, "candidates": "scoreddocs"},
            r"'espalier/pydocs-mini' has no scoreddocs; set its view's candidates to bm25",
        ),
    ],
)
def test_what_is_wrong_is_named(config, changes, message):
    found = config(**changes)
    with pytest.raises(EspalierError, match=message) as caught:
        configuration.check_collections(found)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"candidates": "bm42"}, "collections.documents.candidates"),
        ({"passages": {"docs": "vaswani"}}, "collections.documents.passages.splits"),
        ({"max_queries": {"test": 0}}, "collections.documents.max_queries.test"),
    ],
)
def test_schema_errors_name_the_key(config, changes, key):
    with pytest.raises(EspalierError, match=f"config key '{key}'"):
        config(**changes)
