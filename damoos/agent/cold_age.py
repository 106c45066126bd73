"""How long memory was left alone, followed over snapshots; and the age from which on it is best paged out.

g-swap's rule is a function of two histograms, of cold ages and of promotions, which Google's kernel exports. Here both
are made from snapshots of DAMON's regions. The same code is followed live by the agent and replayed on recordings.

References
----------
Lagar-Cavilla et al., "Software-defined far memory in warehouse-scale computers" (ASPLOS'19), section 4
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Region = tuple[int, int, float]
"""Start and end in bytes, and for how many seconds it was not accessed; 0 for what is accessed now."""
Promotion = tuple[float, int]
"""For how many seconds memory was not accessed before it was, and how many bytes that are."""


@dataclass(frozen=True)
class Interval:
    """What happened between two snapshots.

    Parameters
    ----------
    promotions : tuple of Promotion
    working_set_bytes : int
        What was accessed within the window, at the end of the interval.
    """

    promotions: tuple[Promotion, ...]
    working_set_bytes: int


class ColdAges:
    """Follows the idle time of each part of memory.

    DAMON sets the age of a region to 0 when a scheme is applied to it, so a region whose age began anew when it was as
    old as the threshold was paged out and not accessed.

    Parameters
    ----------
    window_s : float, seconds
        What was accessed within it is the working set.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._regions: list[Region] = []

    def follow(self, snapshot: Sequence[Region], elapsed_s: float, threshold_s: float = math.inf) -> Interval:
        """Take in a snapshot.

        Parameters
        ----------
        snapshot : sequence of Region
            Without overlaps, in ascending order.
        elapsed_s : float, seconds
            Since the last one.
        threshold_s : float, seconds
            The age from which on memory was paged out meanwhile.
        """
        merged, promotions = [], []
        for start, end, idle_s, before_s in _overlaid(snapshot, self._regions):
            if before_s is None:  # new memory: nothing was promoted
                merged.append((start, end, idle_s))
                continue
            accessed_at_s = before_s + elapsed_s - idle_s  # how old it was when it was accessed, if it was
            is_paged_out = idle_s > 0 and accessed_at_s >= threshold_s
            if idle_s >= elapsed_s or is_paged_out:
                merged.append((start, end, before_s + elapsed_s))
            else:
                merged.append((start, end, idle_s))
                if before_s > 0:
                    promotions.append((accessed_at_s, end - start))
        self._regions = _joined(merged)
        used = sum(end - start for start, end, idle_s in self._regions if idle_s < self._window_s)
        return Interval(tuple(promotions), used)

    @property
    def regions(self) -> list[Region]:
        """What is known by now."""
        return list(self._regions)


def _overlaid(now: Sequence[Region], before: Sequence[Region]) -> Iterable[tuple[int, int, float, float | None]]:
    """Parts of the regions of now, with the idle time that each had before; None for what was not there."""
    nth = 0
    for start, end, idle_s in now:
        at = start
        while at < end:
            while nth < len(before) and before[nth][1] <= at:
                nth += 1
            if nth == len(before) or before[nth][0] >= end:
                yield at, end, idle_s, None
                break
            if before[nth][0] > at:
                yield at, before[nth][0], idle_s, None
                at = before[nth][0]
            upto = min(end, before[nth][1])
            yield at, upto, idle_s, before[nth][2]
            at = upto


def _joined(regions: Iterable[Region]) -> list[Region]:
    """Neighbours with the same idle time as one."""
    joined: list[Region] = []
    for start, end, idle_s in regions:
        if joined and joined[-1][1] == start and joined[-1][2] == idle_s:
            joined[-1] = (joined[-1][0], end, idle_s)
        else:
            joined.append((start, end, idle_s))
    return joined


def best_threshold(interval: Interval, share: float, low_s: float, high_s: float) -> float:
    """The lowest cold age at which the promotions of an interval would have kept their target.

    Parameters
    ----------
    interval : Interval
    share : float
        Promotions that are allowed, as a share of the working set.
    low_s, high_s : float, seconds
        Bounds of the threshold.

    Returns
    -------
    float, seconds
    """
    left = share * interval.working_set_bytes
    for idle_s, sz_bytes in sorted(interval.promotions, reverse=True):
        left -= sz_bytes
        if left < 0:
            return min(max(math.nextafter(idle_s, math.inf), low_s), high_s)
    return low_s


class Thresholds:
    """The threshold that is used: a percentile of the best ones so far, or the last best one if that is higher.

    Parameters
    ----------
    percentile : float
        0 to 1.
    """

    def __init__(self, percentile: float) -> None:
        self._percentile = percentile
        self._best: list[float] = []

    def next(self, best_s: float) -> float:
        """Take in the best threshold of an interval; returns the one to use in the next."""
        self._best.append(best_s)
        ranked = sorted(self._best)
        nth = min(len(ranked) - 1, math.ceil(self._percentile * len(ranked)) - 1)
        return max(ranked[max(0, nth)], best_s)
