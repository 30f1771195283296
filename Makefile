# Two commands to begin with: `make reproduce` and `make test`. Each sets up what it needs.
# CONFIG=config/<overlay>.yaml chooses another experiment for reproduce, mlflow, report, claims;
# PROFILE=slurm runs reproduce on a cluster.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PYTHON ?= python3
CONFIG ?=
CORES ?= all
PROFILE ?= default
BIN := $(VENV)/bin
OVERLAY := $(if $(CONFIG),--config $(CONFIG))
export PATH := $(CURDIR)/$(BIN):$(PATH)
export HF_HUB_DISABLE_TELEMETRY := 1
export MLFLOW_DISABLE_TELEMETRY := true

.PHONY: help setup reproduce smoke test check mlflow report claims bench-sparse bench-colbert bench-best bench-growth faults plan lock clean-venv

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready  ## the locked environment in .venv (reused when unchanged)

# The lock is installed by hash. torch comes last and by version alone: its CPU and CUDA wheels
# are different files, and either may be what this machine's index serves.
$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 15) else f"Espalier needs Python 3.11 to 3.14; this is {sys.version.split()[0]}: name another with PYTHON=…")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt-get install python3-venv (or your system's like)" >&2; exit 1; }
	@echo "Setting up the environment in $(VENV): some minutes the first time" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --progress-bar off --require-hashes --no-deps -r requirements.lock >&2
	$(BIN)/python -m pip install --progress-bar off torch==2.13.0 >&2
	$(BIN)/python -m pip install --progress-bar off -q --no-build-isolation --no-deps -e . >&2
	@touch $@

reproduce: setup  ## the demo, or the experiment that CONFIG names
	@$(BIN)/espalier run --cores $(CORES) --profile $(PROFILE) $(OVERLAY)

smoke: setup  ## the smallest whole chain (about 3 minutes)
	@$(BIN)/espalier run --cores $(CORES) --config config/smoke.yaml

test: setup  ## all tests, the smoke chain among them
	@$(BIN)/python -m pytest

check: setup  ## style, types and workflow checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

mlflow: setup  ## serve the tracked runs on 127.0.0.1:5000 (PORT=… for another)
	@$(BIN)/espalier serve $(OVERLAY) --port $(or $(PORT),5000)

report: setup  ## the report, and Snakemake's own; both paths are printed
	@$(BIN)/espalier pages --cores $(CORES) $(OVERLAY)

claims: setup  ## the claims ledger as JSON on standard output
	@$(BIN)/espalier claims $(OVERLAY)

bench-sparse: setup  ## sparse retrieval against PISA (about 15 minutes; writes benchmarks/results/sparse.json)
	@OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks.sparse

bench-colbert: setup  ## late interaction, pruned and whole, and its kernels (PEERS=python of an environment with pylate, maxsim-cpu)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.colbert $(if $(PEERS),--peers $(PEERS))

bench-best: setup  ## training and scoring of segment rankers (PEERS=python of an environment with sentence-transformers)
	@OMP_NUM_THREADS=2 $(BIN)/python -W ignore -m benchmarks.best $(if $(PEERS),--peers $(PEERS))

bench-growth: setup  ## how each stage's time and memory grow with the collection (about 25 minutes; writes benchmarks/results/growth.json)
	@$(BIN)/python -m benchmarks.growth

faults: setup  ## the smoke chain killed in 20 stages, damaged, crowded, its disk filled (about 20 minutes)
	@$(BIN)/python -m tests.faults

plan: setup  ## what CONFIG's experiment will cost in disk, memory, time and money (about 7 minutes)
	@$(BIN)/espalier plan --cores $(CORES) $(OVERLAY)

lock: setup  ## resolve pyproject.toml anew into requirements.lock (needs uv)
	uv pip compile pyproject.toml --extra dev --extra cluster --universal --generate-hashes --python-version 3.11 \
		--fork-strategy fewest --no-emit-package torch --no-header -o requirements.lock

clean-venv:  ## remove the environment
	rm -rf $(VENV)
