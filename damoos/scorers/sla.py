"""One metric as good as it can be, as long as the limits hold: how a service owner puts it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from damoos.errors import ConfigError
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Direction, Scorer, finite
from damoos.scorers.terms import parse_limit, term


class SlaScorer(Scorer):
    """A term (see `damoos.scorers.terms`) subject to limits; a run that breaks one has no score.

    Parameters
    ----------
    maximize, minimize : str
        The term; at most one of the two, ``memory_saving`` to be maximised where neither is given.
    limits : sequence of str
        For example ``slowdown<=0.05``, ``p99_ms<=1.2x``.
    """

    name = "sla"

    def __init__(
        self, maximize: str | None = None, minimize: str | None = None, limits: Sequence[str] = ("slowdown<=0.1",)
    ) -> None:
        if maximize and minimize:
            raise ConfigError("give either --maximize or --minimize")
        self.direction: Direction = "minimize" if minimize else "maximize"
        self._goal = minimize or maximize or "memory_saving"
        self._limits = [parse_limit(text) for text in limits]
        self.unit = f"{self._goal}: {term(self._goal).meaning}"
        reads = [*term(self._goal).needs, *(name for limit in self._limits for name in limit.needs)]
        self.needs = tuple(dict.fromkeys(reads))

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The goal's value; none if a limit is broken."""
        for name in self.needs:
            baseline.metric(name)
        value = finite(term(self._goal).of(run, baseline), self.name)
        # Every limit is looked at, so that a missing metric is found even where another limit is broken.
        kept = [limit.kept(run, baseline) for limit in self._limits]
        return Score(value, feasible=True) if all(kept) else Score(None, feasible=False)

    @property
    def max_slowdown(self) -> float:
        """The tightest limit on ``slowdown`` or, the same from the other side, on ``speedup``."""
        bounds = [one.bound for one in self._limits if one.name == "slowdown" and one.is_upper]
        bounds += [-one.bound for one in self._limits if one.name == "speedup" and not one.is_upper]
        return min(bounds, default=math.inf)
