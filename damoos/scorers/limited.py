"""What scorers have in common whose limits the user writes."""

from __future__ import annotations

from collections.abc import Sequence

from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Scorer
from damoos.scorers.terms import Limits


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
