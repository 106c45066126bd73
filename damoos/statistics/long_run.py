"""The mean of a series whose values depend on those before them, and how well it is known.

The windows of a service are such a series: load comes in waves, and a burst lasts for some windows. What the spread of
the values says of their mean is then far too little. What counts is the long-run variance, that of one value plus twice
the covariances with all later ones. It is taken from the means of batches of values, of which there are always
`LEAST_BATCHES` to twice as many, so that batches grow with the series; the dependence that is left between neighbouring
batches is taken for that of an autoregression of first order. The correlation is estimated from few batches, which
makes it too low: it is corrected for that, and some standard errors are added for its own uncertainty.

References
----------
Flegal, Jones, "Batch means and spectral variance estimators in Markov chain Monte Carlo" (2010), batches that grow with
the series; Andrews, Monahan, "An improved heteroskedasticity and autocorrelation consistent covariance matrix
estimator" (1992), prewhitening; Marriott, Pope, "Bias in the estimation of autocorrelations" (1954) and Kendall, "Note
on bias in the estimation of autocorrelation" (1954); Johnson, "Modified t tests and confidence intervals for
asymmetrical populations" (1978)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Of fewer batches the spread says too little. Simulated with those of 16 and 32, see tests/bench/windows.py.
LEAST_BATCHES = 32
# In standard errors: with 1, a risk of 5 % is 2.0 to 4.3 % for correlations of .5 to .9 (300 times 2160 values), with
# 1.3 it is 0.7 to 4.0 %, and what is beyond a limit is seen a fifth later.
CAUTION = 1.25
# A correlation is never taken for more: of a series that drifts away, nothing is known.
MOST_CORRELATION = 0.999


@dataclass(frozen=True)
class Known:
    """What a series tells of its mean.

    Parameters
    ----------
    variance : float
        Of one value; infinite where it is not known.
    effective : float
        How many independent values would tell as much of the mean.
    skew : float
        In the unit of the values: what is rare and far above the others moves the mean by so much; negative for what
        lies below.
    """

    variance: float
    effective: float
    skew: float

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.variance / self.effective) if self.effective else math.inf

    def skewed(self, nr_errors: float) -> float:
        """By how much a bound, so many standard errors from the mean, has to be further away on the long side."""
        return (2 * nr_errors * nr_errors + 1) / 6 * self.skew


class _Batches:
    """Means of batches of one size, by their sums; what is summed lies near zero, so that nothing is lost in it."""

    def __init__(self) -> None:
        self.n = 0
        self._zero = self._first = self._last = 0.0
        self._sums = [0.0, 0.0, 0.0]
        self._products = 0.0
        self._half: float | None = None

    def add(self, value: float) -> float | None:
        """Take one more into account; returns the mean of the last two if they make a batch of twice the size."""
        if not self.n:
            self._zero = value
        away = value - self._zero
        if not self.n:
            self._first = away
        self._products += away * self._last
        self._last = away
        self.n += 1
        sums, square = self._sums, away * away
        sums[0] += away
        sums[1] += square
        sums[2] += square * away
        half, self._half = self._half, None
        if half is None:
            self._half = value
            return None
        return (half + value) / 2

    @property
    def variance(self) -> float:
        """The variance of one batch's mean."""
        mean = self._sums[0] / self.n
        return max(self._sums[1] / self.n - mean * mean, 0.0) * self.n / (self.n - 1)

    @property
    def skew(self) -> float:
        """The third central moment divided by the second one: the size of what is rare and far from the others."""
        first, second, third = (one / self.n for one in self._sums)
        variance = second - first * first
        return (third - 3 * first * second + 2 * first**3) / variance if variance > 0 else 0.0

    def correlation(self, nr_errors: float) -> float:
        """Between one and the next, and so many of its standard errors more."""
        n, mean = self.n, self._sums[0] / self.n
        square = self._sums[1] / n - mean * mean
        if square <= 0:
            return 0.0
        product = (self._products - mean * (2 * self._sums[0] - self._first - self._last) + (n - 1) * mean * mean) / n
        plain = min(max(product / square, -1.0), 1.0)
        unbiased = min(max(plain + (1 + 4 * plain) / n, 0.0), MOST_CORRELATION)
        return min(unbiased + nr_errors * math.sqrt((1 - unbiased * unbiased) / n), MOST_CORRELATION)


class LongRun:
    """The mean of a series, added value by value; what is kept of it grows with the logarithm of its length."""

    def __init__(self) -> None:
        self.mean = 0.0
        self._scales = [_Batches()]
        self._largest = 0

    @property
    def n(self) -> int:
        """How many values there are."""
        return self._scales[0].n

    def add(self, value: float) -> None:
        """Take one more value into account."""
        self.mean += (value - self.mean) / (self.n + 1)
        batch: float | None = value
        nth = 0
        while batch is not None:
            if nth == len(self._scales):
                self._scales.append(_Batches())
            batch = self._scales[nth].add(batch)
            nth += 1
        if len(self._scales) > self._largest + 1 and self._scales[self._largest + 1].n >= LEAST_BATCHES:
            self._largest += 1

    @property
    def nr_batches(self) -> int:
        """From whose spread the long-run variance is taken."""
        return self._scales[self._largest].n

    def known(self, nr_errors: float = CAUTION) -> Known:
        """How well the mean is known; of fewer than two values nothing is.

        Parameters
        ----------
        nr_errors : float
            How many standard errors of the correlation are added to it: `CAUTION` for a series that is looked at again
            and again, because the look counts at which it is lowest by chance; 0 for one look.
        """
        if self.n < 2:
            return Known(math.inf, 0.0, 0.0)
        batches, variance = self._scales[self._largest], self._scales[0].variance
        correlation = batches.correlation(nr_errors)
        more = (1 + correlation) / (1 - correlation)
        long_run = batches.variance * 2**self._largest * more
        effective = self.n * min(variance / long_run, 1.0) if long_run > 0 else float(self.n)
        return Known(variance, effective, batches.skew / batches.n * more)
