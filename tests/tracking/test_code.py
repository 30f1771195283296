import pytest

from espalier.tracking.code import PACKAGE_ROOT, files_behind


def names(*modules):
    return {p.removeprefix(f"{PACKAGE_ROOT}/espalier/") for p in files_behind(*modules)}


def test_imports_are_followed_through_functions_too():
    # config imports models.locate inside a function; files is imported by the records it needs.
    assert "models/locate.py" in names("espalier.config")
    assert {"tracking/records.py", "files.py"} <= names("espalier.tracking.records")


def test_plumbing_re_runs_nothing():
    assert not {"cli.py", "stage.py", "errors.py"} & names("espalier.config")


def test_an_unknown_module_is_an_error():
    with pytest.raises(ValueError, match=r"espalier\.nothing"):
        files_behind("espalier.nothing")
