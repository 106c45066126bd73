"""What a policy does to the machines that have it, beside others that are only watched at the same time.

Each machine is compared with itself before, so that machines of different size and load may be compared at all; the
mean of those with the policy is compared with the mean of those without it in the same window, so that what happens to
all of them, such as the load of the evening, is not taken for the policy's doing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from damoos.statistics.intervals import student
from damoos.statistics.long_run import LongRun
from damoos.statistics.sequential import LEAST_VALUES, ConfidenceSequence

# Windows are compared that end within so many of their lengths, because machines begin theirs at different moments.
SPAN_WINDOWS = 1.5
# Of fewer independent windows before, Student's interval says nothing.
_LEAST_BEFORE = 2.0

# A float has no more.
_MOST_LOGARITHM = 700.0

Window = Mapping[str, Any]
Value = Callable[[Window], float | None]


@dataclass
class Track:
    """The windows of one machine in a step: ``before`` it may get the policy, and ``after`` that."""

    before: Sequence[Window] = field(default_factory=list)
    after: Sequence[Window] = field(default_factory=list)


@dataclass(frozen=True)
class Effect:
    """How much higher something is for the policy, with bounds that hold at every look.

    Parameters
    ----------
    mean : float
        In the metric's unit, or as a share of what it was before. NaN if there is too little to say.
    lower, upper : float
        What it is shown to be at least and at most; infinite if there is too little to say.
    nr_windows : int
        Spans of time after, in which there were values of both sides.
    """

    mean: float
    lower: float
    upper: float
    nr_windows: int


UNKNOWN = Effect(math.nan, -math.inf, math.inf, 0)


def effect(
    policy: Sequence[Track],
    control: Sequence[Track],
    value: Value,
    window_s: float,
    risk: float,
    *,
    relative: bool,
    most: float = 0.0,
) -> Effect:
    """What a policy does to a metric.

    The difference of differences: the mean of (after - before) over machines with the policy, less that over machines
    without it. The windows after are looked at again and again, so they have a confidence sequence; those before are
    done when the first look is made, and have a t interval. Each takes half of the risk, and counts windows as the
    number of independent ones that would tell as much (`damoos.statistics.long_run`).

    Parameters
    ----------
    policy, control : sequence of Track
        Without control, a machine is compared with itself before only.
    value : callable
        The metric in a window; None where it is missing.
    window_s : float, seconds
        Length of a window; a busy machine may take longer.
    risk : float
        Chance that the effect is ever beyond a bound, for each of the two.
    relative : bool
        As a share of what the machine had before: logarithms are compared, so that a load which all machines have moves
        those with a policy that saves, and have less to be moved, by as much as the others.
    most : float
        What a window may add that is rare, so that none has come yet.
    """
    span_s = SPAN_WINDOWS * max(window_s, _distance_s([*policy, *control]))
    sides = [_Side.of(tracks, value, span_s, relative) for tracks in (policy, control) if tracks]
    before = _differences([side.before for side in sides])
    after = _differences([side.after for side in sides])
    if len(before) < LEAST_VALUES or not after:
        return UNKNOWN
    sequence = ConfidenceSequence(risk / 2, most)
    for one in after:
        sequence.add(one)
    below, above = _ends_before(before, risk)
    ends = sequence.mean, sequence.lower - above, sequence.upper + below
    mean, lower, upper = map(_share, ends) if relative else ends
    return Effect(mean, lower, upper, len(after))


def _share(logarithm: float) -> float:
    """By which share something has grown; infinite where that is not known."""
    return logarithm if math.isinf(logarithm) else math.expm1(min(logarithm, _MOST_LOGARITHM))


def _ends_before(values: Sequence[float], risk: float) -> tuple[float, float]:
    """How far below zero, and how far above it, the mean before may truly be; the values are those less their mean."""
    series = LongRun()
    for one in values:
        series.add(one)
    known = series.known(nr_errors=0.0)
    if known.effective < _LEAST_BEFORE:
        return math.inf, math.inf
    nr_errors = student(1 - risk, known.effective - 1)
    skewed = known.skewed(nr_errors)
    return nr_errors * known.error + max(-skewed, 0.0), nr_errors * known.error + max(skewed, 0.0)


@dataclass
class _Side:
    """Means over machines, each less its own mean before, by the number of the window."""

    before: dict[int, float]
    after: dict[int, float]

    @classmethod
    def of(cls, tracks: Sequence[Track], value: Value, span_s: float, relative: bool) -> _Side:
        found: tuple[dict[int, list[float]], dict[int, list[float]]] = (defaultdict(list), defaultdict(list))
        for track in tracks:
            before, after = ([*_values(windows, value, relative)] for windows in (track.before, track.after))
            if not before:
                continue
            own = fmean(one for _, one in before)
            for values, means in zip((before, after), found, strict=True):
                for at_s, one in values:
                    means[int(at_s // span_s)].append(one - own)
        return cls(*({nth: fmean(values) for nth, values in means.items()} for means in found))


def _values(windows: Sequence[Window], value: Value, relative: bool) -> Iterator[tuple[float, float]]:
    """When, and how much, or its logarithm; without windows that have no value."""
    for window in windows:
        one = value(window)
        if one is not None and (one > 0 or not relative):
            yield window["at_s"], math.log(one) if relative else one


def _distance_s(tracks: Sequence[Track]) -> float:
    """From one window to the next, as it usually is."""
    found = [
        later["at_s"] - earlier["at_s"]
        for track in tracks
        for windows in (track.before, track.after)
        for earlier, later in pairwise(windows)
    ]
    return median(found) if found else 0.0


def _differences(sides: Sequence[Mapping[int, float]]) -> list[float]:
    """Differences of the first side to the second, where both have a value; the first alone if there is no second."""
    first, *others = sides
    if not others:
        return [first[nth] for nth in sorted(first)]
    return [first[nth] - others[0][nth] for nth in sorted(first.keys() & others[0].keys())]
