"""What a result was made with: packages, commit, machine."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from espalier import __version__

RECORDED_PACKAGES = (
    "snakemake", "torch", "transformers", "faiss-cpu", "numba", "numpy", "scipy", "pandas",
    "ir-datasets", "ir-measures", "bm25s", "mlflow",
)  # fmt: skip
"""Packages that can change a result."""

CPUINFO = Path("/proc/cpuinfo")


@cache
def package_versions() -> dict[str, str]:
    """Versions of the packages that can change a result, and of Espalier."""
    versions = {"espalier": __version__}
    for name in RECORDED_PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


@cache
def git_commit() -> str:
    """The commit of the working tree, with '-dirty' when it was edited; 'unknown' outside git."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"


@cache
def machine() -> dict[str, Any]:
    """Python, operating system, processor (`cores` is what the system has), memory in bytes."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": distribution(),
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def distribution() -> str:
    """The operating system's name as it states it."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # not Linux
        return platform.system()


def cpu_model() -> str:
    """The processor's name; its architecture where the system does not tell."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
