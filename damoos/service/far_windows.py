"""Windows far beyond a limit: how long the policy is paused after one, and whether they are the policy's doing.

A service has such windows by itself, some of them in a row, without any policy. So each one pauses the policy, which is
safe, and the windows in which it is paused are what those in which it is in force are compared with.
"""

from __future__ import annotations

import math

# Windows for which the policy is paused at least: twice as many after each pause of the last hour, up to the most.
CALM_WINDOWS, MOST_CALM_WINDOWS = 3, 96
_HOUR_S = 3600.0
# Chance, at each of them, to take such windows for the policy's doing where they are not.
RISK = 0.002
# Of more windows than these, which are six hours of 10 s, the older ones count half.
_MOST_WINDOWS = 2160


class FarWindows:
    """Counts windows far beyond a limit, from one of them until an hour has passed without another."""

    def __init__(self) -> None:
        self._paused_at_s: list[float] = []
        self.forget()

    def forget(self) -> None:
        """The policy is another now: begin anew with the next one."""
        self._paused_at_s.clear()
        self._windows = {False: 0.0, True: 0.0}
        self._far = {False: 0.0, True: 0.0}

    def add(self, now_s: float, is_paused: bool, is_far: bool) -> None:
        """Take a window into account. The first far one in force begins the comparison, and is not part of it."""
        self._paused_at_s = [at_s for at_s in self._paused_at_s if now_s - at_s < _HOUR_S]
        if self._paused_at_s:
            self._windows[is_paused] += 1
            self._far[is_paused] += is_far
        elif not is_paused:
            self.forget()
        if is_far and not is_paused:
            self._paused_at_s.append(now_s)
        if sum(self._windows.values()) > _MOST_WINDOWS:
            for counts in (self._windows, self._far):
                counts.update({side: count / 2 for side, count in counts.items()})

    @property
    def calm_windows(self) -> int:
        """For how many windows the policy is to be paused now."""
        return int(min(CALM_WINDOWS * 2 ** max(len(self._paused_at_s) - 1, 0), MOST_CALM_WINDOWS))

    @property
    def is_policys_doing(self) -> bool:
        """Whether they are shown to come more often in force than while the policy is paused.

        If it made no difference, each of them would be as likely in any window, so that the number in force would be
        binomial, with the share of the windows that were in force.
        """
        nr, share = math.ceil(sum(self._far.values())), self._windows[False] / max(sum(self._windows.values()), 1)
        if not self._far[False] or not share < 1:
            return False
        return 1 - binomial(nr, share, math.floor(self._far[False]) - 1) < RISK

    @property
    def text(self) -> str:
        """What has been counted."""
        far, windows = self._far, self._windows
        return (
            f"{far[False]:.0f} of the last {windows[False]:.0f} windows in force were far beyond it, and"
            f" {far[True]:.0f} of {windows[True]:.0f} while the policy was paused"
        )


def binomial(nr: int, share: float, most: int) -> float:
    """The chance of at most so many of a number, each of which comes with the chance ``share``."""
    odds, term = share / (1 - share), (1 - share) ** nr
    total = 0.0
    for k in range(most + 1):
        total += term
        term *= odds * (nr - k) / (k + 1)
    return total
