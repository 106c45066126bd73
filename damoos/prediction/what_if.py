"""What g-swap's rule would have done on a recording: its own offline model, replayed on DAMON's snapshots.

References
----------
Lagar-Cavilla et al., "Software-defined far memory in warehouse-scale computers" (ASPLOS'19), section 5.3: the control
plane's algorithm is run over recorded cold ages and promotions, for many values of its parameters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from damoos.agent.cold_age import ColdAges, Interval, Region, Thresholds, best_threshold
from damoos.errors import MeasurementError
from damoos.policies.gswap import GswapPolicy
from damoos.prediction.reclaim import Grid, grids_of
from damoos.recordings.aggregations import moments
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Floats, Recording

# Of the best thresholds so far, in percent: the values of the rule that are compared.
PERCENTILES = (50, 75, 90, 98, 100)
MIN_INTERVALS = 3
# Cells keep this distance, so that none grows into the next one.
APART = 1 << 48


@dataclass(frozen=True)
class WhatIf:
    """What the rule would have done, interval by interval.

    Parameters
    ----------
    policy : str
        With its values, as people write it.
    percent : float
        Of the best thresholds so far, that is used.
    interval_s : float, seconds
    t_s, threshold_s : ndarray of shape (k,), seconds
        End of each interval since the recording began, and the threshold that was in force in it; infinite in the time
        of grace.
    cold_bytes : ndarray of shape (k,)
        Memory that was older than the threshold at the interval's end: what would be paged out.
    all_bytes : ndarray of shape (k,)
        All that was resident.
    promoted : ndarray of shape (k,)
        What was accessed after it had been older than the threshold, as a share of the working set, in each interval.
    """

    policy: str
    percent: float
    interval_s: float
    t_s: Floats
    threshold_s: Floats
    cold_bytes: Floats
    all_bytes: Floats
    promoted: Floats

    @property
    def saved(self) -> float:
        """Share of the memory that would be paged out, on the average, the time of grace included."""
        return float(self.cold_bytes.sum() / self.all_bytes.sum())

    @property
    def promoted_mean(self) -> float:
        """Mean of `promoted`."""
        return float(self.promoted.mean())

    @property
    def promoted_p98(self) -> float:
        """What `promoted` does not exceed in 98 % of the intervals, as the paper's service level has it."""
        return float(np.percentile(self.promoted, 98))


@names_damage
def gswap(recording: Recording, policy: GswapPolicy) -> WhatIf:
    """Replay the rule on a recording that was made without reclaim.

    Parameters
    ----------
    recording : Recording
    policy : GswapPolicy
        With an interval that is not shorter than the recording's aggregations.

    Raises
    ------
    MeasurementError : the recording is shorter than three intervals
    """
    return _replay(list(_looks(recording, policy)), policy)


@names_damage
def percentiles(recording: Recording, policy: GswapPolicy) -> list[WhatIf]:
    """Best thresholds at several percentiles, the most eager one first."""
    looks = list(_looks(recording, policy))  # what happened depends on no threshold: nothing was paged out
    return [_replay(looks, GswapPolicy({**policy.values, "percentile": percent * 10_000})) for percent in PERCENTILES]


# Seconds since the recording began, what happened since the last look, and what is known of all regions.
Look = tuple[float, Interval, list[Region]]


def _looks(recording: Recording, policy: GswapPolicy) -> Iterator[Look]:
    """What the rule would have seen, an interval after the other."""
    values = policy.controller()
    times = moments(recording)
    begun_s = float(times.start_s[0])
    followed = [(grid, ColdAges(values["window_s"])) for grid in grids_of(recording)]
    looked_s = begun_s
    for moment, end_s in enumerate(times.end_s):
        elapsed_s = float(end_s) - looked_s
        if elapsed_s < values["interval_s"] * 0.999:
            continue
        looked_s = float(end_s)
        seen = [
            ages.follow(_regions(grid, int(nth)), elapsed_s)
            for grid, ages in followed
            for nth in np.flatnonzero(times.of_snapshot[grid.snapshots] == moment)
        ]
        whole = Interval(
            tuple(promotion for one in seen for promotion in one.promotions),
            sum(one.working_set_bytes for one in seen),
        )
        yield looked_s - begun_s, whole, [region for _, ages in followed for region in ages.regions]


def _replay(looks: Sequence[Look], policy: GswapPolicy) -> WhatIf:
    """What the rule would have made of it."""
    values = policy.controller()
    if len(looks) < MIN_INTERVALS:
        raise MeasurementError(
            f"the recording has {len(looks)} intervals of {values['interval_s']:g} s, and {MIN_INTERVALS} are needed;"
            " record for longer, or give a shorter one, for example --policy gswap:interval=2s"
        )
    thresholds, threshold_s = Thresholds(values["percentile"]), np.inf
    rows: list[tuple[float, float, float, float, float]] = []
    for at_s, whole, regions in looks:
        promoted = sum(sz_bytes for idle_s, sz_bytes in whole.promotions if idle_s >= threshold_s)
        cold = sum(end - start for start, end, idle_s in regions if idle_s >= threshold_s)
        share = promoted / whole.working_set_bytes if whole.working_set_bytes else 0.0
        rows.append((at_s, threshold_s, cold, sum(end - start for start, end, _ in regions), share))
        best_s = best_threshold(whole, values["promotions"], values["min_age_s"], values["max_age_s"])
        next_s = thresholds.next(best_s)
        threshold_s = next_s if at_s >= values["grace_s"] else np.inf
    return WhatIf(policy.text, 100 * values["percentile"], values["interval_s"], *np.array(rows).T)


def _regions(grid: Grid, nth: int) -> list[Region]:
    """The cells of a snapshot, each as large as what is resident in it, with the time for which it was not accessed."""
    idle_s = np.where(grid.frequency[nth] > 0, 0.0, grid.age_us[nth] / 1e6)
    return [
        (cell * APART, cell * APART + int(sz_bytes), float(idle_s[cell]))
        for cell, sz_bytes in enumerate(grid.resident_bytes[nth])
        if grid.mapped[nth, cell] and sz_bytes >= 1
    ]
