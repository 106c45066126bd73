"""What a policy does to the machines that have it, beside others that are only watched at the same time.

Each machine is compared with itself before, so that machines of different size and load may be compared at all; the
mean of those with the policy is compared with the mean of those without it in the same window, so that what happens to
all of them, such as the load of the evening, is not taken for the policy's doing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import Any

from damoos.statistics.intervals import student
from damoos.statistics.sequential import LEAST_VALUES, ConfidenceSequence

# Windows are compared that end within so many of their lengths, because machines begin theirs at different moments.
SPAN_WINDOWS = 1.5

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
    mean, half_width : float
        In the metric's unit, or as a share of what it was before. NaN and infinite if there is too little to say.
    nr_windows : int
        Spans of time after, in which there were values of both sides.
    """

    mean: float
    half_width: float
    nr_windows: int

    @property
    def lower(self) -> float:
        """What it is shown to be at least."""
        return self.mean - self.half_width

    @property
    def upper(self) -> float:
        """What it is shown to be at most."""
        return self.mean + self.half_width


UNKNOWN = Effect(math.nan, math.inf, 0)


def effect(
    policy: Sequence[Track], control: Sequence[Track], value: Value, window_s: float, risk: float, *, relative: bool
) -> Effect:
    """What a policy does to a metric.

    The difference of differences: the mean of (after - before) over machines with the policy, less that over machines
    without it. The windows after are looked at again and again, so they have a confidence sequence; those before are
    done when the first look is made, and have a t interval. Each takes half of the risk.

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
        As a share of what the machine had before.
    """
    span_s = SPAN_WINDOWS * max(window_s, _distance_s([*policy, *control]))
    sides = [_Side.of(tracks, value, span_s, relative) for tracks in (policy, control) if tracks]
    before = _differences([side.before for side in sides])
    after = _differences([side.after for side in sides])
    if len(before) < LEAST_VALUES or not after:
        return UNKNOWN
    sequence = ConfidenceSequence(risk / 2)
    for one in after:
        sequence.add(one)
    half_before = student(1 - risk, len(before) - 1) * stdev(before) / math.sqrt(len(before))
    return Effect(sequence.mean, sequence.half_width + half_before, len(after))


@dataclass
class _Side:
    """Means over machines, each less its own mean before, by the number of the window."""

    before: dict[int, float]
    after: dict[int, float]

    @classmethod
    def of(cls, tracks: Sequence[Track], value: Value, span_s: float, relative: bool) -> _Side:
        found: tuple[dict[int, list[float]], dict[int, list[float]]] = (defaultdict(list), defaultdict(list))
        for track in tracks:
            known = [one for window in track.before if (one := value(window)) is not None]
            own = fmean(known) if known else math.nan
            if math.isnan(own) or (relative and own == 0):
                continue
            unit = own if relative else 1.0
            for windows, means in zip((track.before, track.after), found, strict=True):
                for window in windows:
                    if (one := value(window)) is not None:
                        means[int(window["at_s"] // span_s)].append((one - own) / unit)
        return cls(*({nth: fmean(values) for nth, values in means.items()} for means in found))


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
    """Of the first side to the second, where both have a value; the first alone if there is no second."""
    first, *others = sides
    if not others:
        return [first[nth] for nth in sorted(first)]
    return [first[nth] - others[0][nth] for nth in sorted(first.keys() & others[0].keys())]
