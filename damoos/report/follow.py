"""Watching a study or a sweep that another process runs: its store is read now and then, never written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from damoos.model.trial import Run
from damoos.study.damage import names_damage
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, Study
from damoos.sweeps.events import Event
from damoos.sweeps.sweep import Sweep

EVERY_S = 1.0
# A study is locked while it runs; between two of its processes it is nobody's for a moment.
ALONE_S = 5.0


class _Company:
    """Says once when nobody runs it any more, and once when somebody does again."""

    def __init__(self, in_use: Callable[[], bool], name: str, say: Callable[[str], None]) -> None:
        self._in_use = in_use
        self._name = name
        self._say = say
        self._since: float | None = None
        self._alone = False

    def look(self) -> None:
        """Look once."""
        if self._in_use():
            if self._alone:
                self._say(f"{self._name}: a process runs it again")
            self._since, self._alone = None, False
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not self._alone and now - self._since >= ALONE_S:
            self._alone = True
            self._say(
                f"{self._name}: no process of this computer runs it; continue it with 'damoos resume {self._name}'"
            )


def study(found: Study | EvaluationStudy, watcher: Watcher, every_s: float = EVERY_S) -> dict[str, Any]:
    """Tell a watcher how a study goes until it has a result, which is returned.

    Parameters
    ----------
    found : Study or EvaluationStudy
    watcher : Watcher
        Of a study that is finished already it is told nothing.
    every_s : float, seconds
        Between two looks.
    """
    record = found.record
    # In this order: whoever ran it stores the result before letting go of the study.
    company = _Company(lambda: record.artifacts.in_use() or record.result is not None, found.name, watcher.say)
    known: dict[str, Run] | None = None
    while (result := record.result) is None:
        company.look()
        if known is None and record.get("setting") is not None:
            known = record.runs()
            watcher.begin(found, max(found.config.nr_runs, len(known)), len(known))
        elif known is not None:
            known = _news(found, known, watcher)
        time.sleep(every_s)
    if known is not None:
        _news(found, known, watcher)
    return result


@names_damage
def _news(found: Study | EvaluationStudy, known: dict[str, Run], watcher: Watcher) -> dict[str, Run]:
    """Tell what has ended since; a trial's score is what it is by now."""
    runs = found.record.runs()
    if len(runs) > len(known):
        done = sorted(runs.values(), key=lambda run: run.index)
        scores = {trial.number: trial.score for trial in found.trials_of(done)}
        for run in done:
            if run.key not in known:
                watcher.finished(run, scores.get(run.number) if run.kind == "trial" else None)
    return runs


def sweep(found: Sweep, event: Event, every_s: float = EVERY_S) -> dict[str, Any]:
    """Tell of the studies of a sweep as they begin and end, until it has a result and nobody drives it any more.

    Parameters
    ----------
    found : Sweep
    event : callable
        As `damoos.sweeps.driver.drive` tells it: ``rows`` each time, and ``study`` for each that begins or ends.
    every_s : float, seconds
        Between two looks.
    """
    company = _Company(
        lambda: found.driven() or found.result is not None,
        found.name,
        lambda text: event("say", {"study": "", "text": text}),
    )
    states: dict[str, str] = {}
    while (result := found.result) is None or found.driven():
        company.look()
        _rows(found.status, states, event)
        time.sleep(every_s)
    if states:
        _rows(found.status, states, event)
    return result


def _rows(status: dict[str, Any], states: dict[str, str], event: Event) -> None:
    rows = {row["study"]: row for row in status["studies"]}
    event("rows", rows)
    first = not states
    for name, row in rows.items():
        if row["state"] != states.get(name, "waiting") and not (first and row["state"] == "done"):
            event("study", {**row, "machine": row["on"] or row["machine"]})
    states.update({name: row["state"] for name, row in rows.items()})
