"""How a scheme and a trial show themselves in a notebook."""

from __future__ import annotations

import subprocess
import sys

import pytest

from damoos.damon.quotas import Quotas
from damoos.damon.scheme import Scheme
from damoos.model.trial import Score
from damoos.report.tables import limits_text
from tests.unit.conftest import html


def test_a_scheme_shows_itself() -> None:
    scheme = Scheme.parse("4K max  min 5%  5s max  pageout")
    text = html(scheme)
    assert "4K max  min 5%  5s max  pageout" in text
    assert "<td>5s to max</td>" in text
    assert "quotas" not in text
    assert "quotas.time</th><td>10ms" in html(Scheme("pageout", quotas=Quotas(time_ms=10, reset_interval_ms=1000)))


@pytest.mark.parametrize(
    ("score", "is_bound", "text"),
    [
        (Score(0.1, True), False, "kept"),
        (Score(None, False), True, "broken"),
        (Score(0.1, True, {"a<=1": 0.5, "b<=1": 0.25}), False, "b<=1 kept by 25.0%, a<=1 kept by 50.0%"),
        (Score(None, False, {"a<=1": 0.5, "b<=1": -0.125}), False, "b<=1 broken by 12.5%, a<=1 kept by 50.0%"),
        (Score(None, False, {"a<=1": 0.5, "b<=1": -0.125}), True, "b<=1 broken by 12.5% or more"),
        # A limit that no margin tells of.
        (Score(None, False, {"a<=1": 0.5}), False, "broken"),
    ],
)
def test_limits_are_told_with_their_margins(score: Score, is_bound: bool, text: str) -> None:
    assert limits_text(score, is_bound) == text


def test_a_notebook_finds_the_tables_of_schemes_and_trials() -> None:
    shown = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import damoos
from damoos.model.trial import Score, Trial
scheme, trial = damoos.Scheme.parse("4K max  min 5%  5s max  pageout"), Trial(7, {}, "complete", Score(0.5, True))
for value in scheme, trial:
    print(shell.display_formatter.format(value)[0]["text/html"])
"""
    ran = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert "<td>5s to max</td>" in ran.stdout
    assert "<h4>trial 7</h4>" in ran.stdout
