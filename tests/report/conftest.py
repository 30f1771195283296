from pathlib import Path

import pytest

from espalier import cli
from tests.report import synthetic


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A made-up results folder with ledger and report, made by the verbs themselves."""
    folder = tmp_path_factory.mktemp("results")
    for arguments in synthetic.results(folder):
        assert cli.main(arguments) == 0
    assert cli.main(synthetic.claims_arguments(folder)) == 0
    assert cli.main(synthetic.report_arguments(folder)) == 0
    return folder
