"""Snapshots of all targets that were taken together: one aggregation of the context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from damoos.errors import MeasurementError
from damoos.recordings.recording import Floats, Ints, Recording

# What reports show.
PERCENTS = (0, 25, 50, 75, 100)


@dataclass(frozen=True)
class Moments:
    """Aggregations in their order.

    Parameters
    ----------
    of_snapshot : ndarray of shape (n,)
        The aggregation that each snapshot belongs to.
    start_s, end_s : ndarray of shape (k,), seconds since the recording's start
    weight_s : ndarray of shape (k,), seconds
        Time that each stands for.
    """

    of_snapshot: Ints
    start_s: Floats
    end_s: Floats
    weight_s: Floats

    def sums(self, recording: Recording, values: Ints | Floats) -> Floats:
        """Values of regions, summed for each aggregation."""
        of_region = self.of_snapshot[recording.snapshot]
        return np.asarray(np.bincount(of_region, weights=values, minlength=len(self.end_s)))


def moments(recording: Recording) -> Moments:
    """Group the snapshots of a recording by aggregation.

    A new aggregation begins with a snapshot of a target that the current one has already, or where half an aggregation
    interval has passed.

    Raises
    ------
    MeasurementError : all snapshots are of no duration
    """
    numbers, current, seen, begun = [], -1, set[int](), 0.0
    half = recording.attrs.aggr_us / 2e6
    for target, end in zip(recording.target.tolist(), recording.end_s.tolist(), strict=True):
        if current < 0 or target in seen or end - begun > half:
            current, seen, begun = current + 1, set(), end
        seen.add(target)
        numbers.append(current)
    of_snapshot = np.array(numbers, dtype=np.int64)
    first = np.flatnonzero(np.diff(of_snapshot, prepend=-1))
    start = np.minimum.reduceat(recording.start_s, first)
    end_s = np.maximum.reduceat(recording.end_s, first)
    weight = np.maximum.reduceat(recording.weight_s, first)
    if not weight.sum() > 0:
        raise MeasurementError("the snapshots of the recording have no duration")
    begin = recording.span_s[0]
    return Moments(of_snapshot, start - begin, end_s - begin, weight)


def mean(values: Floats, weight_s: Floats) -> float:
    """Mean over time."""
    return float(np.average(values, weights=weight_s))


def percentiles(values: Floats, weights: Floats, percents: tuple[float, ...] = PERCENTS) -> dict[float, float]:
    """Values that are not exceeded for so many percent of the weight; 0 is the smallest, 100 the largest.

    Raises
    ------
    MeasurementError : nothing has a weight
    """
    kept = weights > 0
    if not kept.any():
        raise MeasurementError("no percentiles: the recording has no region, or no time")
    shares = [percent / 100 for percent in percents]
    quantiles = np.quantile(values[kept], shares, weights=weights[kept], method="inverted_cdf")
    return dict(zip(percents, quantiles.tolist(), strict=True))
