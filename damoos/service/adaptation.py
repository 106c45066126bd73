"""Follows a workload that changes: the age from which a scheme pages out is moved, a factor of two at a time.

A lower age pages out more, and costs more when memory is used again. What is proven is one age for the workload as it
was, so

- a window that breaks a limit moves the age up at once;
- when the workload is no longer what it was, or has been calm after that, the next lower age is compared with the
  present one in blocks of windows that take turns, and stays if it is shown to save more within all limits.

The age stays within a factor of eight of the proven one.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damoos.scorers.terms import Limit
from damoos.service.guard import beyond
from damoos.service.turns import MIB, MOST_TURNS, Turns
from damoos.statistics.drift import Drift
from damoos.units import format_us

# Share of the windows in which a lower age is tried, in the long run, and how many may be saved up.
EXPLORED_SHARE, MOST_SAVED = 0.25, 64.0
# After a window that a trial broke, and at first, so many pass without one: trials break at most 1 % of the windows. An
# age that broke a limit is tried again after so many windows, and after twice as many each time that it breaks one
# again. How far below its limit a workload is tells nothing: memory that is used again at regular times costs the same
# at all ages below that time, and nothing above it.
QUIET_WINDOWS = 100
# Windows without a broken limit before a lower age is tried.
CALM_WINDOWS = 12
# What a workload is known by, and what is too little to matter. Pressure is not among it: it is what limits are for.
SIGNATURE: Mapping[str, float] = {
    "used_bytes": MIB, "net_bytes": MIB, "swap_ins_per_s": 16.0, "refaults_per_s": 16.0, "major_faults_per_s": 16.0,
    "matched_bytes_per_s": MIB,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Another age, and why; ``is_kept`` tells whether it is more than a turn of a comparison."""

    age_us: int
    why: str
    is_kept: bool


class Adaptation:
    """Decides after each window of a policy in service.

    Parameters
    ----------
    limits : sequence of Limit
        Of the guard.
    window_s : float, seconds
    ages_us : sequence of int, microseconds
        Those that may be in force, the lowest first.
    age_us : int, microseconds
        That which is in force.
    seed : int
        Of the order of turns.
    """

    def __init__(
        self, limits: Sequence[Limit], window_s: float, ages_us: Sequence[int], age_us: int, seed: int = 0
    ) -> None:
        self._limits = limits
        self._window_s = window_s
        self._ages_us = ages_us
        self._at = min(range(len(ages_us)), key=lambda nth: abs(ages_us[nth] - age_us))
        self._chance = random.Random(seed)
        self._turns: Turns | None = None
        self._nr_windows = 0
        self._refused: dict[int, float] = {}  # until which window
        self._breaks: Counter[int] = Counter()
        self._is_search_due = False
        self._saved_up, self._quiet = MOST_SAVED, QUIET_WINDOWS
        self._begin()

    @property
    def age_us(self) -> int:
        """The age that is kept; that of a turn may be another."""
        return self._ages_us[self._at]

    @property
    def age_now_us(self) -> int:
        """The age in force."""
        lower = self._turns is not None and self._turns.is_lower
        return self._ages_us[self._at - 1 if lower else self._at]

    @property
    def doing(self) -> str:
        """What it is about, in words."""
        if self._turns:
            return f"compares min_age {format_us(self._ages_us[self._at - 1])} with {format_us(self.age_us)}"
        return "watches for a change"

    def _begin(self) -> None:
        """Another age is in force, or the workload is another: what it is like has to be learned anew."""
        self._drifts = {name: Drift(least) for name, least in SIGNATURE.items()}
        self._nr_calm = 0
        self._settling = self._settle_windows(self._at)

    def _settle_windows(self, at: int) -> int:
        """Windows in which memory still follows the age before."""
        return math.ceil(self._ages_us[at] / 1e6 / self._window_s) + 1

    def interrupted(self) -> Change | None:
        """The processes are others now, or nobody knows how they are: no comparison survives that."""
        change = self._ended("the comparison was interrupted") if self._turns else None
        self._begin()
        return change

    def paused(self) -> Change | None:
        """The guard has paused the policy, far beyond a limit; returns what goes on when it does."""
        why = "a window was far beyond a limit"
        return self._broke(why) if self._turns and self._turns.is_lower else self._up(why)

    def add(self, net_bytes: float, watched: Mapping[str, float], signature: Mapping[str, float]) -> Change | None:
        """A window in which the policy was in force.

        Parameters
        ----------
        net_bytes : float, bytes
            Memory of the processes, with what their pages take in zram and zswap.
        watched : mapping
            Values of what limits are on, by name.
        signature : mapping
            Values of `SIGNATURE`, by name; those that the machine does not tell are missing.

        Returns
        -------
        Change or None
            What is to be in force from now on, if that is something else.
        """
        self._nr_windows += 1
        self._saved_up = min(MOST_SAVED, self._saved_up + EXPLORED_SHARE)
        self._quiet = max(0, self._quiet - 1)
        broken = next((limit for limit in self._limits if beyond(limit, watched[limit.name]) > 1), None)
        if self._turns:
            return self._compared(net_bytes, watched, broken)
        self._settling = max(0, self._settling - 1)
        if broken and not self._settling:
            return self._up(f"{broken.name} was {watched[broken.name]:.4g} in a window, limit {broken.text}")
        if self._settling:
            return None
        self._nr_calm += 1
        changed = [name for name, value in signature.items() if self._drifts[name].add(value)]
        if changed:
            name = changed[0]
            why = f"{name} was {self._drifts[name].mean:.4g}, and is {signature[name]:.4g}"
            self._refused.clear()
            self._breaks.clear()
            self._is_search_due = True
            self._begin()
            return Change(self.age_us, f"the workload has changed: {why}", is_kept=False)
        return self._compare() if self._is_search_due and self._nr_calm >= CALM_WINDOWS else None

    def _compare(self) -> Change | None:
        """Begin a comparison with the next lower age, unless one has broken a limit too recently."""
        until = self._refused.get(self._at - 1, 0.0) if self._at else math.inf
        self._is_search_due = until < math.inf
        if self._quiet or self._nr_windows < until:
            return None
        self._turns = Turns(self._limits, self._settle_windows(self._at), self._chance)
        return Change(self.age_us, self.doing, is_kept=False)

    def _compared(self, net_bytes: float, watched: Mapping[str, float], broken: Limit | None) -> Change | None:
        comparison = self._turns
        assert comparison
        if comparison.is_lower:
            self._saved_up -= 1
        if broken:
            said = f"{broken.name} was {watched[broken.name]:.4g} in a window, limit {broken.text}"
            return self._broke(said) if comparison.is_lower else self._up(said)
        if not comparison.add(net_bytes, watched):
            return None
        if comparison.saves_more and comparison.keeps_limits:
            return self._down(comparison)
        if comparison.saves_more is False or comparison.nr_turns >= MOST_TURNS:
            return self._refuse(f"it is not shown to save more: {comparison.text}")
        before = self.age_now_us
        comparison.next_turn(may_be_lower=self._saved_up >= comparison.windows_of_turn)
        return None if self.age_now_us == before else Change(self.age_now_us, "", is_kept=False)

    def _down(self, comparison: Turns) -> Change:
        self._turns = None
        self._at -= 1
        self._begin()
        return Change(self.age_us, f"it saves more, and keeps all limits: {comparison.text}", is_kept=True)

    def _refuse(self, why: str) -> Change:
        self._refused[self._at - 1] = math.inf
        return self._ended(why)

    def _broke(self, why: str) -> Change:
        """The lower age has broken a limit in its turn."""
        self._quiet = QUIET_WINDOWS
        self._wait_with(self._at - 1)
        return self._ended(why)

    def _wait_with(self, at: int) -> None:
        self._breaks[at] += 1
        self._refused[at] = self._nr_windows + QUIET_WINDOWS * 2 ** (self._breaks[at] - 1)

    def _ended(self, why: str) -> Change:
        self._turns = None
        self._begin()
        return Change(self.age_us, why, is_kept=True)

    def _up(self, why: str) -> Change | None:
        """To the next higher age, if there is one."""
        self._wait_with(self._at)
        self._is_search_due = True
        before = self.age_now_us
        self._turns = None
        self._at = min(self._at + 1, len(self._ages_us) - 1)
        self._begin()
        return None if self.age_us == before else Change(self.age_us, why, is_kept=True)
