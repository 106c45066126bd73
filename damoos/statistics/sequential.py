"""A mean that may be looked at after each value, for as long as one likes, without more false alarms.

Values may depend on those before them, as the windows of a service do: the bounds rest on the long-run variance and on
the number of independent values that would tell as much (`damoos.statistics.long_run`).

References
----------
Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences"
(2021), equation 14 and appendix B.2; Berkes, Liu, Wu, "Komlos-Major-Tusnady approximation under dependence" (2014):
sums of dependent values are those of independent ones with the long-run variance
"""

from __future__ import annotations

import math

from damoos.statistics.long_run import LongRun

# Fewer values, or values that tell as little as fewer independent ones, tell too little of their own spread for a bound
# that rests on it: with 10 independent ones, a risk of 5 % was up to 4.8 % in one sample, and 4.2 % with 12.
LEAST_VALUES, LEAST_EFFECTIVE = 16, 12.0
# What comes in fewer windows than this share of them may not have come yet. Nothing is known of what is rarer.
RARE = 0.05
# The bounds are narrowest after about this number of independent values.
_NARROWEST_AT = 30


class ConfidenceSequence:
    """One-sided bounds on a mean, each of which holds at all times at once with a probability of 1 - ``risk``.

    They hold asymptotically, so not before `LEAST_VALUES` and `LEAST_EFFECTIVE`. The values may have any distribution
    of finite variance, and their mean may change: the bounds are on its average so far.

    Large values may be rare, so that there has been none of them yet. The lower bound holds all the same. The upper one
    waits until one of them would have come if they were `RARE`, or is told how large they can be.

    Parameters
    ----------
    risk : float
        Chance that the mean ever lies beyond a bound.
    most : float or None
        How far above the mean a value can lie that has not come yet; None if nobody knows.
    """

    def __init__(self, risk: float = 0.05, most: float | None = None) -> None:
        self._risk = risk
        self._most = most
        log_risk = -2 * math.log(2 * risk)
        self._rho2 = (log_risk + math.log(log_risk + 1)) / _NARROWEST_AT
        self._series = LongRun()

    @property
    def n(self) -> int:
        """How many values there are."""
        return self._series.n

    @property
    def mean(self) -> float:
        """The mean of all values."""
        return self._series.mean

    def add(self, value: float) -> None:
        """Take one more value into account."""
        self._series.add(value)

    @property
    def lower(self) -> float:
        """What the mean is shown to be at least; minus infinity while there are too few values."""
        if self.n < LEAST_VALUES:
            return -math.inf
        return self.mean - self._width(-1.0)[0]

    @property
    def upper(self) -> float:
        """What the mean is shown to be at most; infinite while there are too few values."""
        if self.n < LEAST_VALUES:
            return math.inf
        width, effective = self._width(1.0)
        unseen = math.log(1 / self._risk)
        if self._most is None:
            return self.mean + width if effective * RARE >= unseen else math.inf
        return self.mean + width + self._most * unseen / self.n

    def _width(self, side: float) -> tuple[float, float]:
        """From the mean to the bound on a side, and how many independent values there are."""
        known = self._series.known()
        effective = known.effective
        if effective < LEAST_EFFECTIVE:
            return math.inf, effective
        scale = effective * self._rho2 + 1
        factor = 2 * scale / (effective * self._rho2) * math.log(1 + math.sqrt(scale) / (2 * self._risk))
        nr_errors = math.sqrt(factor) * self._caution(factor)
        return nr_errors * known.error + max(side * known.skewed(math.sqrt(factor)), 0.0), effective

    def _caution(self, squared: float) -> float:
        """How much wider the bounds are because the variance is estimated: as Student's, to the first order."""
        return 1 + (squared + 1) / (4 * self._series.nr_batches)
