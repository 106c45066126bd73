"""One metric as good as it can be, as long as the limits hold: how a service owner puts it."""

from __future__ import annotations

from collections.abc import Sequence

from damoos.errors import ConfigError
from damoos.model.metrics import unit_of
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Direction, within
from damoos.scorers.limited import LimitedScorer
from damoos.scorers.terms import TERMS, term


class SlaScorer(LimitedScorer):
    """A term (see `damoos.scorers.terms`) subject to limits; a run that breaks one has no score.

    Parameters
    ----------
    maximize, minimize : str
        The term; at most one of the two, ``memory_saving`` to be maximised where neither is given.
    limits : sequence of str
        For example ``slowdown<=0.05``, ``p99_ms<=1.2x``, ``p99_ms<=1.2x every``.
    """

    name = "sla"

    def __init__(
        self, maximize: str | None = None, minimize: str | None = None, limits: Sequence[str] = ("slowdown<=0.1",)
    ) -> None:
        if maximize and minimize:
            raise ConfigError("give either --maximize or --minimize")
        self.direction: Direction = "minimize" if minimize else "maximize"
        self._goal = minimize or maximize or "memory_saving"
        super().__init__(limits)
        self.unit = f"{self._goal}: {term(self._goal).meaning}"
        self.shown_in = "" if self._goal in TERMS else unit_of(self._goal)
        self.needs = tuple(dict.fromkeys([*term(self._goal).needs, *self._limits.needs]))

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The goal's value; none if a limit is broken."""
        for name in self.needs:
            baseline.metric(name)
        parts = {self._goal: term(self._goal).of(run, baseline)}
        return within(parts, self._limits.margins(run, baseline), self.name)
