"""Benchmarks run by hand alone: what they take from the project has to be there all the same."""

import importlib

import pytest


@pytest.mark.parametrize("name", ["best", "colbert", "growth", "sparse"])
def test_a_benchmark_finds_all_that_it_uses(name):
    assert callable(importlib.import_module(f"benchmarks.{name}").main)
