"""A scorer of a plugin, whose errors are told as what they are."""

from __future__ import annotations

from collections.abc import Sequence

from damoos.common import plugins
from damoos.errors import MeasurementError, PluginError
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import LIMIT_S, Direction, Scorer


class PluginScorer(Scorer):
    """Asks a plugin's scorer.

    Parameters
    ----------
    name : str
        Of the plugin.
    own : Scorer
        What it has made.

    Raises
    ------
    PluginError : it does not say what a scorer has to say
    """

    def __init__(self, name: str, own: Scorer) -> None:
        self.name = name
        self._own = own
        self._what = plugins.described("scorers", name)
        with plugins.guarded(self._what):
            self.direction: Direction = own.direction
            self.unit = str(own.unit)
            self.needs = tuple(own.needs)
            self._max_slowdown, self._every = float(own.max_slowdown), frozenset(own.every)
        if self.direction not in ("maximize", "minimize"):
            raise PluginError(f"{self._what}: direction is {self.direction!r}; known: maximize, minimize")

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """Its score of a run; a run that it fails on cannot be scored."""
        with plugins.guarded(self._what, MeasurementError):
            found = plugins.answer(self._what, LIMIT_S, self._own.score, run, baseline, previous)
        return self._checked(found)

    def stopped(self, run: Measurement, baseline: Measurement) -> Score:
        """Its score of a run that was stopped."""
        with plugins.guarded(self._what, MeasurementError):
            found = plugins.answer(self._what, LIMIT_S, self._own.stopped, run, baseline)
        return self._checked(found)

    @property
    def max_slowdown(self) -> float:
        """What it allows."""
        return self._max_slowdown

    @property
    def every(self) -> frozenset[str]:
        """Its limits of each run."""
        return self._every

    def _checked(self, found: object) -> Score:
        if not isinstance(found, Score):
            raise MeasurementError(f"{self._what}: expected a damoos.model.trial.Score, got {found!r}")
        return found
