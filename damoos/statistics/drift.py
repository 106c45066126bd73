"""Whether something is no longer what it was: a cumulative sum on both sides of what it was at first.

References
----------
Page, "Continuous inspection schemes" (1954); Hawkins, Olwell, "Cumulative Sum Charts" (1998), chapter 2
"""

from __future__ import annotations

from statistics import fmean, stdev

# Values that tell what it is like.
LEARNED_VALUES = 12
# So few values may tell too little of their spread: this times as much is its 95 % bound, sqrt(11 / chi2(0.05, 11)).
CAUTION = 1.55
# In such spreads: what is too little to matter, and the sum beyond it that is a change. Of series of 500 values of
# normal noise, 0.5 % pass it (simulated).
SLACK, BEYOND = 1.0, 8.0
# One value counts for no more than this, so that a change takes three values at least.
MOST = 4.0


class Drift:
    """Learns from the first `LEARNED_VALUES`, and watches the others.

    Parameters
    ----------
    least_spread : float
        In the unit of the values; a smaller spread is taken for this one.
    least_share : float
        The same as a share of the mean.
    """

    def __init__(self, least_spread: float = 0.0, least_share: float = 0.05) -> None:
        self._least_spread = least_spread
        self._least_share = least_share
        self._learned: list[float] = []
        self._spread = self._above = self._below = 0.0
        self.mean = 0.0
        """Of the values that were learned from."""

    def add(self, value: float) -> bool:
        """Take a value into account; returns whether it has changed."""
        if len(self._learned) < LEARNED_VALUES:
            self._learned.append(value)
            if len(self._learned) == LEARNED_VALUES:
                self.mean = fmean(self._learned)
                least = max(self._least_spread, self._least_share * abs(self.mean), 1e-12)
                self._spread = max(CAUTION * stdev(self._learned), least)
            return False
        far = (value - self.mean) / self._spread
        self._above = max(0.0, self._above + min(far, MOST) - SLACK)
        self._below = max(0.0, self._below - max(far, -MOST) - SLACK)
        return max(self._above, self._below) > BEYOND
