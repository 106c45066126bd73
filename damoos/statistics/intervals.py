"""Intervals of means: of a few values, of many, and of a few whose noise is partly known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr, stdtrit

ALPHA = 0.05
# From this many values on the bootstrap knows the shape of the noise better than Student's normal (decision 0003).
BOOTSTRAP_FROM = 8


@cache
def student(level: float, freedom: float) -> float:
    """Half the width of Student's interval of a level, in standard errors; asked for the same few again and again."""
    return float(stdtrit(freedom, (1 + level) / 2))


def interval(values: Sequence[float], level: float = 1 - ALPHA) -> tuple[float, float]:
    """Interval of a mean: Student's for a few values, the bootstrap's for many; infinite for fewer than two.

    The bootstrap's is widened as Student's is against the normal one, which the plain percentiles lack.

    References
    ----------
    Hesterberg, What Teachers Should Know About the Bootstrap (2015), section 4.1: expanded percentile interval
    """
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return -math.inf, math.inf
    quantile = student(level, count - 1)
    if count < BOOTSTRAP_FROM or len(set(values)) == 1:
        half = float(quantile * np.std(values, ddof=1) / math.sqrt(count))
        return mean - half, mean + half
    from scipy import stats  # takes half a second to import, which commands that need no bootstrap are spared

    expanded = 1 - 2 * ndtr(-math.sqrt(count / (count - 1)) * quantile)
    bootstrap = stats.bootstrap(
        (np.asarray(values),), np.mean, confidence_level=float(expanded), method="percentile",
        rng=np.random.default_rng(count),
    )  # fmt: skip
    return float(bootstrap.confidence_interval.low), float(bootstrap.confidence_interval.high)


def interval_of_average(groups: Sequence[Sequence[float]], level: float = 1 - ALPHA) -> tuple[float, float]:
    """Interval of the mean of several means, each of a few values with a noise of its own.

    What was averaged over (workloads, say) is taken as given: the interval tells the noise of the runs, not how others
    would fare. For one group it is `interval`; infinite where a group has fewer than two values.

    References
    ----------
    Welch (1947) and Satterthwaite (1946) for the degrees of freedom
    """
    if len(groups) == 1:
        return interval(groups[0], level)
    mean = float(np.mean([np.mean(group) for group in groups]))
    if any(len(group) < 2 for group in groups):
        return -math.inf, math.inf
    errors = [float(np.var(group, ddof=1)) / len(group) for group in groups]
    if not sum(errors):
        return mean, mean
    freedom = sum(errors) ** 2 / sum(error**2 / (len(group) - 1) for error, group in zip(errors, groups, strict=True))
    half = student(level, freedom) * math.sqrt(sum(errors)) / len(groups)
    return mean - half, mean + half


@dataclass(frozen=True)
class Noise:
    """How far single values of one and the same thing lie apart: a standard deviation and its degrees of freedom."""

    deviation: float
    freedom: float

    def around(self, value: float) -> tuple[float, float]:
        """95 % interval of what a single value stands for."""
        half = student(1 - ALPHA, self.freedom) * self.deviation
        return value - half, value + half


@dataclass(frozen=True)
class Estimate:
    """A mean of ``count`` values: their variance, and the degrees of freedom with which that is known."""

    mean: float
    variance: float
    freedom: float
    count: int

    def half(self, level: float, more: int = 0) -> float:
        """Half the width of the interval of a level, as it is or after ``more`` values of the same kind."""
        if not self.freedom + more:
            return math.inf
        return student(level, self.freedom + more) * math.sqrt(self.variance / (self.count + more))


def of_difference(first: Sequence[float], second: Sequence[float]) -> Noise:
    """The noise of a difference of two values, each of which has a noise of its own.

    Parameters
    ----------
    first, second : sequence of float
        Two or more values of each kind.

    References
    ----------
    Welch (1947) and Satterthwaite (1946) for the degrees of freedom
    """
    variances = [float(np.var(values, ddof=1)) for values in (first, second)]
    squares = sum(v**2 / (len(values) - 1) for v, values in zip(variances, (first, second), strict=True))
    return Noise(math.sqrt(sum(variances)), sum(variances) ** 2 / squares if squares else len(first) - 1)


def moderated(values: Sequence[float], noises: Sequence[Noise] = (), own: Noise | None = None) -> Estimate:
    """The mean of a few values, whose variance is theirs and, as far as it agrees with theirs, that of known noises.

    Two or three values tell little of their own noise. A known one can make the variance larger and its degrees of
    freedom more, but never the variance smaller than that of the values themselves. Where the values lie further apart
    than the known noise would have it, it counts the less: the noise is another one.

    Parameters
    ----------
    values : sequence of float
    noises : sequence of Noise
        Those of single values of this kind, as measured elsewhere.
    own : Noise or None
        What is known of their own noise beside their variance, which may be larger; None for nothing.

    References
    ----------
    Smyth, Linear Models and Empirical Bayes Methods (2004), for the moderated t; weights as measured in decision 0003
    """
    count = len(values)
    seen = max(float(np.var(values, ddof=1)) if count > 1 else 0.0, own.deviation**2 if own else 0.0)
    degrees = own.freedom if own else float(count - 1)
    squares, freedom = seen * degrees, degrees
    for noise in noises:
        known = noise.deviation**2
        weight = noise.freedom * (min(1.0, (known / seen) ** 2) if seen else 1.0)
        squares, freedom = squares + weight * known, freedom + weight
    variance = max(seen, squares / freedom) if freedom else seen
    return Estimate(float(np.mean(values)), variance, freedom, count)


# Nominal levels of one of several looks at the same growing data, by how many looks there are, so that all of them
# together take a chance of 5 % of a false alarm.
_LEVELS = (0.05, 0.0294, 0.0221, 0.0182, 0.0158, 0.0142, 0.0130, 0.0120, 0.0112, 0.0106)


def alpha_of_a_look(nr_looks: int) -> float:
    """The chance of a false alarm that one of several looks may take, so that all take at most `ALPHA` together.

    References
    ----------
    Pocock, Group sequential methods in the design and analysis of clinical trials, Biometrika 64 (1977), table 1
    """
    if nr_looks <= len(_LEVELS):
        return _LEVELS[max(1, nr_looks) - 1]
    return _LEVELS[-1] * len(_LEVELS) / nr_looks
