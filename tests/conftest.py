"""Fixtures that several rooms' tests share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Imported before any fixture runs: ir_datasets fixes the place of its own collections at import,
# so that tests on real data find what the user has; ours are looked up at each call.
import ir_datasets
import pytest
from hypothesis import settings

from espalier import cli
from tests.report import synthetic

# A busy machine is no failure.
settings.register_profile("espalier", deadline=None)
settings.load_profile("espalier")


@pytest.fixture(scope="session")
def collections_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this session's own for the built-in collections."""
    home = tmp_path_factory.mktemp("ir_datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def pydocs_mini(collections_home: Path) -> str:
    """`espalier/pydocs-mini`, made and registered: the id that its views' ids begin with."""
    from espalier.collections import access

    access.load("espalier/pydocs-mini").docs_count()
    return "espalier/pydocs-mini"


@pytest.fixture(scope="session")
def real_collection_home() -> Path:
    """Where ir_datasets looks for its own collections in this session."""
    return Path(os.fspath(ir_datasets.load("vaswani").docs_path(force=False))).parents[1]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up results folder with ledger and report, made by the verbs themselves."""
    folder = tmp_path_factory.mktemp("results") / "made-up"
    for arguments in synthetic.results(folder):
        assert cli.main(arguments) == 0
    assert cli.main(synthetic.claims_arguments(folder)) == 0
    assert cli.main(synthetic.report_arguments(folder)) == 0
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium: the system's own, with its driver."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    paths = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    absent = [name for name, path in paths.items() if path is None]
    if absent:
        pytest.skip(f"no {' nor '.join(absent)} here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = paths["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1800,1000"):  # fmt: skip
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(paths["chromedriver"]))
    yield driver
    driver.quit()
