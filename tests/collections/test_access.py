import errno
from pathlib import Path
from typing import NamedTuple

import ir_datasets
import pytest
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseDocs

from espalier.collections import access, availability
from espalier.collections.availability import obstacle
from espalier.errors import EspalierError


class Article(NamedTuple):
    doc_id: str
    url: str
    headline: str | None
    body: str


class Failing(BaseDocs):
    def __init__(self, error):
        self.error = error

    def docs_iter(self):
        yield Article("1", "", None, "one")
        raise self.error


@pytest.fixture
def registered(monkeypatch):
    def register(name, *parts):
        monkeypatch.setitem(ir_datasets.registry._registered, name, Dataset(*parts))
        return name

    return register


def test_unknown_id():
    with pytest.raises(EspalierError, match=r"'espalier/nothing' is unknown to ir_datasets"):
        access.check("espalier/nothing")


def test_licensed_corpus_names_id_place_and_remedy():
    if Path(ir_datasets.load("disks45/nocr").docs_path(force=False)).exists():
        pytest.skip("this machine has the licensed corpus of disks45")
    with pytest.raises(
        EspalierError, match=r"^collection 'disks45/nocr', docs: \S+/disks45/corpus .*put it there$"
    ):
        access.check("disks45/nocr")


def test_unreachable_host_names_file_and_url(monkeypatch):
    if Path(ir_datasets.load("cranfield").docs_path(force=False)).exists():
        pytest.skip("this machine has cranfield")
    monkeypatch.setattr(availability, "answers", lambda host: False)
    with pytest.raises(EspalierError, match=r"cran\.tar\.gz is not there, and \S+ does not answer"):
        list(access.docs("cranfield"))


def test_reachable_host_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(availability, "answers", lambda host: True)
    assert obstacle(ir_datasets.load("cranfield").docs_handler()) is None


def test_built_in_ids_pass_without_being_made(tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    access.check("espalier/pydocs/documents/test")
    assert not list(tmp_path.iterdir())


def test_a_dataset_without_queries():
    with pytest.raises(EspalierError, match="has no queries; name one of its subsets"):
        list(access.queries("espalier/pydocs/passages"))


def test_a_failing_file_is_one_error(registered):
    name = registered("failing", Failing(OSError("broken\nfile")))
    with pytest.raises(EspalierError, match=r"'failing', docs: cannot be read \(OSError: broken f"):
        list(access.docs(name))


def test_a_full_disk_stays_what_it_is(registered):
    name = registered("full", Failing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        list(access.docs(name))


def test_slices(pydocs_mini):
    everything = list(access.docs(f"{pydocs_mini}/documents"))
    assert list(access.docs(f"{pydocs_mini}/documents", 5, 9)) == everything[5:9]
    assert list(access.docs(f"{pydocs_mini}/documents", 600)) == everything[600:]


def test_field_names_of_other_collections():
    assert access.as_doc(Article("1", "u", None, "one")) == access.Doc("1", "", "one")
    assert access.as_doc(Article("2", "u", "Two", "2")) == access.Doc("2", "Two", "2")
