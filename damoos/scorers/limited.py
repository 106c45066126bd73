"""What scorers have in common whose limits the user writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Scorer, within
from damoos.scorers.terms import Limits, subject


class LimitedScorer(Scorer):
    """A scorer with limits on terms.

    Parameters
    ----------
    limits : sequence of str
        For example ``slowdown<=0.05``, ``p99_ms<=1.2x``, ``p99_ms<=1.2x every``.
    """

    def __init__(self, limits: Sequence[str]) -> None:
        self._limits = Limits(limits)

    def stopped(self, run: Measurement, baseline: Measurement) -> Score:
        """What its limits say."""
        return self._limits.stopped(run, baseline)

    @property
    def max_slowdown(self) -> float:
        """That of its limits."""
        return self._limits.max_slowdown

    @property
    def every(self) -> frozenset[str]:
        """Its limits that end in ``every``."""
        return self._limits.every


class OtherLimits(Scorer):
    """A scorer with some of its limits changed, so that a study can be asked again what it found.

    Parameters
    ----------
    scorer : Scorer
        Its limits on other terms stay. Of a run that breaks one that does not, it must say what the value would be
        without it (`Score.parts`); where it does not say so, that run has no score here either.
    limits : sequence of str
        As `damoos.scorers.terms.parse_limit` reads them.
    """

    def __init__(self, scorer: Scorer, limits: Sequence[str]) -> None:
        self._scorer, self._limits = scorer, Limits(limits)
        self.name, self.direction = scorer.name, scorer.direction
        self.unit, self.shown_in = scorer.unit, scorer.shown_in
        self.needs = tuple(dict.fromkeys([*scorer.needs, *self._limits.needs]))

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The value without limits; none if a limit is broken."""
        found = self._scorer.score(run, baseline, previous)
        margins = {**self._limits.margins(run, baseline), **self._kept(found.margins)}
        # Some scorers have limits that none of their margins tells of.
        breaks_unseen = not found.feasible and all(margin >= 0 for margin in found.margins.values())
        if found.objective is None or breaks_unseen:
            return Score(None, False, margins)
        return within(found.parts or {self.name: found.objective}, margins, self.name)

    def stopped(self, run: Measurement, baseline: Measurement) -> Score:
        """What the time alone says of all limits."""
        margins = self._kept(self._scorer.stopped(run, baseline).margins)
        return Score(None, False, {**self._limits.stopped(run, baseline).margins, **margins})

    @property
    def max_slowdown(self) -> float:
        """That of the changed limits, if one of them is on the time; else the scorer's own."""
        if "slowdown" in map(subject, self._limits.texts):
            return self._limits.max_slowdown
        return self._scorer.max_slowdown

    @property
    def every(self) -> frozenset[str]:
        """Limits of both that each run must keep."""
        own = {limit: 0.0 for limit in self._scorer.every}
        return self._limits.every | frozenset(self._kept(own))

    def _kept(self, margins: Mapping[str, float]) -> dict[str, float]:
        """Margins to limits that were not changed."""
        changed = set(map(subject, self._limits.texts))
        return {limit: margin for limit, margin in margins.items() if subject(limit) not in changed}
