"""A real MLflow server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from espalier.tracking.mlflow_view import synchronise


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An empty SQLite store: making one takes seconds, copying it none."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        synchronise(folder, "other", "", [])
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def server(tmp_path_factory, empty_store):
    """Address of a server with a store and artifacts of its own."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address, process, folder / "log.txt")
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(address, process, log):
    """Until the server answers, two minutes at most."""
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])
