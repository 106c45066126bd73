"""How far a study is, for a function that wants to be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from damoos.model.trial import Run, Score
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, Study


@dataclass(frozen=True)
class Progress:
    """A run has ended.

    Parameters
    ----------
    study, run : str
        Names, such as ``redis-idle-guest-1`` and ``trial-003``.
    done : int
        How many runs have ended, this one among them.
    total : int
        About how many there will be; a verdict that is not clear soon takes more.
    score : float or None
        Of a trial that has one and kept the limits.
    error : str
        Why the run failed; empty if it did not.
    """

    study: str
    run: str
    done: int
    total: int
    score: float | None
    error: str


class Count:
    """How many runs have ended, of how many that are expected: of one study, or of several that take turns."""

    def __init__(self) -> None:
        self.done, self._total = 0, 0

    def begin(self, total: int, done: int) -> None:
        """A study begins or goes on."""
        self.done += done
        self._total += total

    def skip(self, nr_runs: int) -> None:
        """So many of them are not needed."""
        self._total -= nr_runs

    def end(self) -> None:
        """A run has ended."""
        self.done += 1

    def total(self, number: int) -> int:
        """How many there will be, seen at one of them: a verdict that is not clear soon takes more than expected."""
        return max(number, self._total)


class Reported(Watcher):
    """Calls a function with a `Progress` at the end of each run.

    Parameters
    ----------
    function : callable
    """

    def __init__(self, function: Callable[[Progress], object]) -> None:
        self._function = function
        self._count = Count()
        self._study = ""

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """Take in how far an earlier go has come."""
        self._study = study.name
        self._count.begin(total, done)

    def skipped(self, nr_runs: int) -> None:
        """Count fewer."""
        self._count.skip(nr_runs)

    def finished(self, run: Run, score: Score | None) -> None:
        """Tell it."""
        self._count.end()
        done = self._count.done
        value = score.value if score and score.feasible else None
        self._function(Progress(self._study, run.key, done, self._count.total(done), value, run.error))
