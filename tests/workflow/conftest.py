"""The chain that the workflow's tests look at, run once."""

import pytest

from tests.faults.chain import Chain


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The smoke chain after a run without faults, and how that run ended."""
    chain = Chain(tmp_path_factory.mktemp("undisturbed"))
    finished = chain.run()
    assert finished.returncode == 0, finished.stderr[-5000:]
    return chain, finished
