"""A real MLflow server: tracked to over HTTP, and looked at in headless Chromium."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import mlflow
import pytest

from tests.report import synthetic
from tests.tracking.stores import active_runs, copied, model_versions, shown, track

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ["best"]


@pytest.fixture(scope="module")
def remote(made, server, tmp_path_factory):
    """Experiment folder, client and counts of results that are tracked to the server."""
    folder = copied(made, tmp_path_factory.mktemp("remote") / "remote")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", server)
        counts = track(folder, PAPERS)
    return folder, mlflow.MlflowClient(tracking_uri=server), counts


def test_a_remote_store_is_idempotent(remote, server, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    folder, client, counts = remote
    before = shown(client, "remote")
    assert len(before) == counts["added"] == len(active_runs(client, "remote"))
    _, artifacts, _ = before["best theta2"]
    assert {"per_query.csv", "config.yaml", "claims.json", "theta2.run.gz", "figures"} <= set(
        artifacts
    )
    assert track(folder, PAPERS) == {
        "added": 0, "replaced": 0, "kept": counts["added"], "removed": 0,
    }  # fmt: skip
    assert shown(client, "remote") == before
    assert not (folder.parent / "mlflow.db").exists()


def test_an_interrupted_track_step_ends_complete_and_nothing_twice(made, tmp_path, server):
    folder = copied(made, tmp_path / "killed")
    client = mlflow.MlflowClient(tracking_uri=server)
    arguments = synthetic.track_arguments(folder, PAPERS)
    command = [sys.executable, "-m", "espalier", *arguments]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while len(active_runs(client, "killed")) < 5:
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (folder / "tracked.json").exists()
    half = len(active_runs(client, "killed"))
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stderr=subprocess.DEVNULL)
    counts = json.loads((folder / "tracked.json").read_text())
    after = active_runs(client, "killed")
    assert half < len(after) == counts["added"] + counts["replaced"] + counts["kept"]
    assert counts["kept"] > 0
    assert set(Counter(run.data.tags["espalier.key"] for run in after).values()) == {1}
    assert {run.info.status for run in after} == {"FINISHED"}
    assert all(run.data.tags["espalier.digest"] for run in after)
    assert set(model_versions(client, "killed").values()) == {1}


class Visitor:
    """Opens pages of the server and waits for what should be read there."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address
        driver.get(address)
        # The assistant's panel, which opens by itself once, would take a fourth of every page.
        driver.execute_script(
            "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');"
            "localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false')"
        )

    def open(self, page, *texts):
        """Open a page; its text once it holds all that is expected."""
        self.driver.get(f"{self.address}/#/{page}")
        self.driver.refresh()
        return self.wait(*texts)

    def wait(self, *texts):
        from selenium.webdriver.support.ui import WebDriverWait

        def text(driver):
            return driver.execute_script("return document.body.innerText")

        WebDriverWait(self.driver, 90).until(
            lambda driver: all(t in text(driver) for t in texts), f"not all of {texts} in the page"
        )
        return text(self.driver)

    def click(self, label):
        """Click what has this text, once it has stopped moving."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        def clicked(driver):
            driver.find_element(By.XPATH, f"//*[text()='{label}']").click()
            return True

        WebDriverWait(self.driver, 60, ignored_exceptions=[WebDriverException]).until(clicked)

    def screenshot(self, path):
        assert self.driver.save_screenshot(str(path))
        assert path.stat().st_size > 20_000


def test_the_pages_read_as_they_should_in_a_browser(remote, server, browser, tmp_path):
    folder, client, _ = remote
    visitor = Visitor(browser, server)
    rows = json.loads((folder / "claims.json").read_text())
    reproduced = sum(row["verdict"] == "reproduced" for row in rows)

    visitor.open("experiments", "espalier/remote", f"{reproduced} reproduced")
    visitor.screenshot(tmp_path / "experiments.png")

    experiment = client.get_experiment_by_name("espalier/remote").experiment_id
    view = "viewStateShareKey=systems&workflowType=machine_learning"
    values = json.loads((folder / "evaluation" / "best.summary.json").read_text())["systems"]
    text = visitor.open(
        f"experiments/{experiment}/runs?{view}",
        "Systems: quality and cost", f"{reproduced} reproduced", "verdict", "quality/nDCG_10",
        "quality/RR_10", "best theta2", f"{round(values['theta2']['nDCG@10'], 4)}",
    )  # fmt: skip
    assert "stage " not in text  # the view shows systems alone
    assert f"{len(values)} matching runs" in text
    visitor.screenshot(tmp_path / "runs.png")

    (run,) = (r for r in active_runs(client, "remote") if r.info.run_name == "best theta2")
    page = f"experiments/{experiment}/runs/{run.info.run_id}"
    visitor.open(
        page, "best theta2", "made-up/docs/test", "60 documents, 39 queries", "quality/nDCG_10"
    )
    visitor.open(f"{page}/artifacts", "per_query.csv", "theta2.run.gz", "figures")
    visitor.click("figures")
    visitor.wait("best-queries-theta2.svg")
    visitor.click("best-queries-theta2.svg")
    image = shown_image(visitor)
    assert image["width"] > 300 < image["height"]
    visitor.screenshot(tmp_path / "figure.png")


def shown_image(visitor):
    """Natural size of the figure that the page shows."""
    from selenium.webdriver.support.ui import WebDriverWait

    script = """
        const found = [...document.images].filter(i => i.naturalWidth > 200);
        return found.length ? {width: found[0].naturalWidth, height: found[0].naturalHeight} : null
    """
    return WebDriverWait(visitor.driver, 60).until(lambda driver: driver.execute_script(script))
