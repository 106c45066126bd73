"""The documentation shows what the curated results say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[3]


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOP / "docs")
    return importlib.import_module("generate.results")


def test_the_readme_has_the_table_of_its_result(results: ModuleType) -> None:
    page = (TOP / "README.md").read_text()
    assert results.readme(page) == page, "run make docs-figures"


def test_a_curated_result_has_its_provenance_and_all_runs(results: ModuleType) -> None:
    for file in results.CURATED.glob("*.json"):
        assert file.stat().st_size < 1 << 20
        curated = json.loads(file.read_text())
        assert curated["result"]["provenance"]["damoos"]
        assert curated["result"]["machine"]["kernel"]
        assert {run["kind"] for run in curated["runs"]} >= {"baseline", "trial", "validation"}


def test_the_figure_has_every_run_that_was_not_stopped(results: ModuleType) -> None:
    curated = json.loads(results.REDIS.read_text())
    shown = sum(len(layer.x) for layer in results.redis_chart(curated).panels[1].layers if hasattr(layer, "x"))
    whole = [
        run for run in curated["runs"] if run["kind"] != "baseline" and run["params"] and "p99_ms" in run["metrics"]
    ]
    assert shown == len(whole)
