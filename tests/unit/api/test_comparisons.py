"""Evaluations and comparisons at a Python prompt and in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

import damoos
from damoos.api import comparisons
from damoos.report.comparison import over_time
from tests.unit.conftest import WORKLOADS, html, swept

from .conftest import assert_tidy


def test_configurations_and_schemes_side_by_side(machines, tmp_path: Path) -> None:
    evaluated = damoos.evaluate(WORKLOADS[:1], ["a"], ["baseline", "prcl"], repeats=3, results=tmp_path)
    assert isinstance(evaluated, comparisons.Evaluated)
    prcl = evaluated.table.set_index("config").loc["prcl"]
    assert f"<td>{prcl['runtime_s']:.2f} s</td>" in html(evaluated)
    assert_tidy(evaluated.runs)
    compared = damoos.compare([swept(tmp_path).name], results=tmp_path)
    assert html(compared).count("<td>tuned</td>") == 2 * 3  # two workloads and their average on two machines


@pytest.mark.slow
def test_a_configuration_on_several_machines_has_a_figure_over_time(machines, tmp_path: Path) -> None:
    evaluated = damoos.evaluate(WORKLOADS[:1], ["a", "b"], ["prcl"], repeats=3, results=tmp_path)
    drawn = dict(over_time.charts(evaluated._studies))
    assert len(drawn) == 2  # the baseline and prcl
    table = drawn[next(name for name in drawn if name.endswith("prcl"))].table
    assert set(table["series"]) == {"a", "b"}
    assert set(table["quantity"]) == {"faults", "pressure", "net memory"}
    assert {path.stem for path in evaluated.write()} >= {f"over-time-{name}" for name in drawn}


def test_one_machine_has_no_figure_over_time(machines, tmp_path: Path) -> None:
    evaluated = damoos.evaluate(WORKLOADS[:1], ["a"], ["prcl"], repeats=3, results=tmp_path)
    assert list(over_time.charts(evaluated._studies)) == []
