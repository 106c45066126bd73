"""g-swap, with what is cold told by DAMON.

References
----------
Lagar-Cavilla et al., "Software-defined far memory in warehouse-scale computers" (ASPLOS'19), section 4
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from damoos.agent import memcg
from damoos.agent.cold_age import ColdAges, Region, Thresholds, best_threshold
from damoos.agent.controllers.base import Controller
from damoos.agent.proc import PAGE
from damoos.damon.scheme import Context


class Gswap(Controller):
    """Moves the age of its first scheme; the second one, which only looks, tells the ages of all regions.

    Parameters
    ----------
    group : Path
    interval_s : float, seconds
    promotions : float
        Promotions that are allowed in an interval, as a share of the working set.
    percentile : float
        0 to 1; of the best thresholds so far.
    grace_s : float, seconds
        Nothing is paged out before.
    window_s : float, seconds
        What was accessed within it is the working set.
    min_age_s, max_age_s : float, seconds
        Bounds of the threshold.
    """

    needs = ("memory.current",)
    columns = ("current_bytes", "working_set_bytes", "promoted_bytes", "faulted_bytes", "best_s", "threshold_s")

    def __init__(
        self,
        group: Path,
        interval_s: float,
        promotions: float,
        percentile: float,
        grace_s: float,
        window_s: float,
        min_age_s: float,
        max_age_s: float,
    ) -> None:
        super().__init__(group, interval_s)
        self._share = promotions
        self._ages, self._thresholds = ColdAges(window_s), Thresholds(percentile)
        self._left_s = grace_s
        self._bounds = min_age_s, max_age_s
        self._threshold_s = float("inf")
        self._faulted = 0

    def look(self) -> None:
        """Take note of what came back so far."""
        self._faulted = self._refaults()

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Take in the regions as they are now, and move the threshold."""
        before = self._faulted
        self.look()
        seen = self._ages.follow(self._snapshot(), elapsed_s, self._threshold_s)
        # Regions of virtual memory have holes, which are young at first; no more than what is there can be accessed.
        interval = replace(seen, working_set_bytes=min(seen.working_set_bytes, int(self.current_bytes())))
        best_s = best_threshold(interval, self._share, *self._bounds)
        threshold_s = self._thresholds.next(best_s)
        self._left_s -= elapsed_s
        if self._left_s <= 0 and threshold_s != self._threshold_s:
            self._threshold_s = threshold_s
            self.scheme.commit(_aged(self.scheme.context, threshold_s))
        promoted = sum(sz for idle_s, sz in interval.promotions if idle_s >= threshold_s)
        faulted = (self._faulted - before) * PAGE
        return self.current_bytes(), interval.working_set_bytes, promoted, faulted, best_s, threshold_s

    def _snapshot(self) -> list[Region]:
        aggr_s = self.scheme.context.attrs.aggr_us / 1e6
        # The first scheme's regions are among the second one's.
        seen = {(start, end): (nr, age) for start, end, nr, age in self.scheme.kdamond.regions()}
        regions: list[Region] = []
        for (start, end), (nr_accesses, age) in sorted(seen.items()):
            if not regions or start >= regions[-1][1]:
                regions.append((start, end, 0.0 if nr_accesses else max(age, 1) * aggr_s))
        return regions

    def _refaults(self) -> int:
        counts = memcg.counts(self.group)
        return counts.get("workingset_refault_anon", 0) + counts.get("workingset_refault_file", 0)


def _aged(context: Context, min_age_s: float) -> Context:
    """The context with a first scheme that takes what is idle from this age on."""
    first, *others = context.schemes
    pattern = replace(first.pattern, min_age_us=int(min_age_s * 1e6))
    return replace(context, schemes=(replace(first, pattern=pattern), *others))
