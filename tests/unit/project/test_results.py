"""The documentation shows what the curated results say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from damoos.statistics.arms import TUNED
from damoos.statistics.limits import TOLERANCE
from damoos.study.course import outcome

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
        run
        for run in curated["runs"]
        if run["kind"] != "baseline"
        and run["params"]
        and "p99_ms" in run["metrics"]
        and not run["arm"].startswith("rejected")  # nobody is advised to use it
    ]
    assert shown == len(whole)


def test_what_the_pages_say_of_the_figures_holds(results: ModuleType) -> None:
    figures = results.figures
    search = figures.search_chart(*figures.example(figures.SEARCHED)).table
    assert {round(10**at, 3) for at in search[search.series == "asked next"].log10_min_age_s} == {0.3}
    worth = search[search.series == "worth of a trial"]
    assert 10 ** worth.log10_min_age_s[worth.expected_gain_times_chance.idxmax()] == pytest.approx(0.2)
    _, study, runs = figures.example(figures.VALIDATED)
    arms = outcome(study, runs).arms
    assert {name: len(arm.runs) for name, arm in arms.items()} == {
        "baseline": 4, "manual": 5, "rejected": 3, "tuned": 3,
    }  # fmt: skip
    looks = figures.validation_chart(study, runs).table
    lowest = looks[looks.series == "candidate-2"].dropna(subset=["margin"]).set_index("round").margin_low
    assert list(lowest.index) == [5, 6]
    assert lowest[5] < -TOLERANCE
    assert lowest[6] > 0
    unclear = looks[looks.series == "candidate-1"].dropna(subset=["margin"]).set_index("round")
    assert list(unclear.margin > 0) == [False, True]
    assert (unclear.margin_low < -TOLERANCE).all()
    rejected = outcome(study, [run for run in runs if run.kind != "validation" or run.number < 3]).arms["tuned"]
    assert rejected.is_hopeless
    assert [run.arm for run in runs if run.kind == "validation" and run.number == 2] == ["candidate-1"]
    assert sum(run.kind == "validation" for run in runs) == 15
    assert outcome(study, runs).verdict().best == TUNED
