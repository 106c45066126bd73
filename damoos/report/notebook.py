"""Long calls in a notebook: a progress bar that stays when they have ended. Elsewhere there is none.

It is an element of HTML of its own, shown once and updated in place: it needs no widgets, and stays in a rendered page.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from damoos.common import html
from damoos.model.trial import Run, Score, best_of
from damoos.study.progress import Count
from damoos.study.steps import Watcher
from damoos.units import show_clock, show_count, show_score

if TYPE_CHECKING:
    from damoos.study.study import EvaluationStudy, Study
    from damoos.sweeps.events import Event


def in_notebook() -> bool:
    """Whether this Python runs the cells of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and getattr(shell, "kernel", None) is not None


@contextmanager
def watching(given: Watcher | None) -> Iterator[Watcher | None]:
    """What a study tells how it goes: who was given, or a bar in a notebook."""
    if given is not None or not in_notebook():
        yield given
        return
    watcher = BarWatcher()
    yield watcher
    watcher.ended()


def event() -> Event | None:
    """What a sweep tells how it goes; None where this is no notebook."""
    return BarEvents() if in_notebook() else None


@contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show that something is under way of which nobody can say how much is done; yields what is told the news."""
    if not in_notebook():
        yield lambda _: None
        return
    bar, begun = Bar(), time.monotonic()
    bar.show(text)
    try:
        yield lambda news: bar.show(text, news=news)
    except BaseException:
        bar.show(f"{text}: stopped", done=0)
        raise
    bar.show(f"{text}: {time.monotonic() - begun:.0f} s", done=1, total=1)


class Bar:
    """One line of a notebook's output: a bar, words beside it, the last news below."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: int | None = None, total: int = 1, news: str = "") -> None:
        """Draw it, or draw it anew.

        Parameters
        ----------
        done : int or None
            Of ``total``; None where nobody knows.
        """
        from IPython.display import HTML, display

        shown = HTML(bar(text, done, total, news))  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def bar(text: str, done: int | None = None, total: int = 1, news: str = "") -> html.Html:
    """The element."""
    value = "" if done is None else f' value="{min(done, total)}" max="{total}"'
    below = f"<br><small>{html.escaped(news)}</small>" if news else ""
    return html.Html(f"<div><progress{value}></progress> {html.escaped(text)}{below}</div>")


class BarWatcher(Watcher):
    """How many of how many runs of a study, the best score so far, the time left."""

    def __init__(self, show: Callable[..., None] | None = None) -> None:
        self._show = show or Bar().show
        self._name, self._count, self._has_ended = "study", Count(), False
        self._best: float | None = None
        self._direction, self._unit = "maximize", ""
        self._left_s: float | None = None
        self._news = ""

    def say(self, text: str) -> None:
        """Show the news."""
        self._news = text
        self._draw()

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """Take in what an earlier go has finished."""
        self._name = study.name
        self._count.begin(total, done)
        from damoos.report.study.rows import unit_of_scores  # late: it needs what runs studies

        self._direction = study.direction
        self._unit = unit_of_scores(study)
        for trial in study.trials():
            self._take(trial.score)
        self._news = study.setting.note
        self._draw()

    def skipped(self, nr_runs: int) -> None:
        """Count fewer."""
        self._count.skip(nr_runs)

    def started(self, run: Run, left_s: float | None) -> None:
        """Say how long it will take."""
        self._left_s = left_s
        self._draw()

    def finished(self, run: Run, score: Score | None) -> None:
        """Count it."""
        self._count.end()
        self._take(score)
        self._draw()

    def ended(self) -> None:
        """Fill the bar: not all of the runs that were planned need have been made."""
        self._left_s, self._has_ended = None, True
        self._draw()

    def _take(self, score: Score | None) -> None:
        if score and score.feasible and score.value is not None:
            self._best = best_of((value for value in (score.value, self._best) if value is not None), self._direction)

    def _draw(self) -> None:
        best = "" if self._best is None else f", best score {show_score(self._best, self._unit)}"
        left = f", about {show_clock(self._left_s)} left" if self._left_s else ""
        done = self._count.done
        total = done if self._has_ended else self._count.total(max(done, 1))
        text = f"{self._name}: {done} of {show_count(total, 'run')}{best}{left}"
        self._show(text, done, total, self._news)


class BarEvents:
    """How many of how many studies of a sweep, and of their trials; what went wrong last."""

    def __init__(self, show: Callable[..., None] | None = None) -> None:
        self._show = show or Bar().show
        self._rows: dict[str, Any] = {}
        self._name, self._news = "sweep", ""

    def __call__(self, kind: str, said: dict[str, Any]) -> None:
        """Take in one event."""
        if kind == "sweep":
            self._name = said["sweep"]
        elif kind == "say":
            self._news = f"{said['study']}: {said['text']}" if said["study"] else said["text"]
        elif kind in ("retry", "machine", "study") and said.get("error"):
            self._news = f"{said['machine']}: {said['error']}"
        elif kind == "rows":
            self._rows = said
        else:
            return
        self._draw()

    def _draw(self) -> None:
        rows = self._rows.values()
        total = sum(row["nr_samples"] for row in rows)
        trials = sum(row["nr_samples"] if row["state"] in ("done", "failed") else row["trials"] for row in rows)
        done = sum(row["state"] == "done" for row in rows)
        text = f"{self._name}: {done} of {show_count(len(rows), 'study')}, {trials} of {show_count(total, 'trial')}"
        self._show(text, trials if total else None, max(total, 1), self._news)
