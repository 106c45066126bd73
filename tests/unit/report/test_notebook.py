"""A notebook's bar of a study and of a sweep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from damoos.errors import WorkloadError
from damoos.report import notebook
from damoos.testing.fake import FakeMachine
from tests.unit.conftest import Wellformed, swept, tune


class Page:
    """Takes what a bar would draw."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, done: int | None = None, total: int = 1, news: str = "") -> None:
        Wellformed(notebook.bar(text, done, total, news))
        self.texts.append(text)


def test_a_bar_tells_how_a_study_goes(machines, tmp_path: Path) -> None:
    page = Page()
    told = notebook.BarWatcher(page)
    found = tune(tmp_path, watcher=told)
    total = len(found.study.runs())
    counts = [int(re.search(r": (\d+) of \d+ runs", text)[1]) for text in page.texts]  # type: ignore[index]
    assert counts[0] == 0
    assert counts[-1] == total
    assert counts == sorted(counts)
    best = max(one.score.value for one in found.trials if one.score.value is not None and one.score.feasible)
    told.ended()
    assert page.texts[-1] == f"{found.name}: {total} of {total} runs, best score {best:+.3f}"


def test_a_bar_tells_how_a_sweep_goes(machines, tmp_path: Path) -> None:
    page = Page()
    machines["b"] = FakeMachine(failures={0: WorkloadError("no")})
    swept(tmp_path, event=notebook.BarEvents(page))
    assert page.texts[-1] == "sweep-1: 3 of 4 studies, 12 of 12 trials"


def test_no_bar_where_there_is_no_notebook(machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert notebook.event() is None
    tune(tmp_path)
    assert capfd.readouterr() == ("", "")
