"""Two ages compared on a workload that goes on: in turns of some windows, one after the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from damoos.scorers.terms import Limit
from damoos.statistics.sequential import ConfidenceSequence

# Windows of one turn that count.
MEASURED_WINDOWS = 4
# Chance that one of the bounds does not hold, for the saving and for each limit.
RISK = 0.05
MIB = 1 << 20


class Turns:
    """The present age and the next lower one, in turns whose order is by chance.

    Parameters
    ----------
    limits : sequence of Limit
    settle : int
        Windows of each turn that do not count, because memory still follows the other age.
    chance : random.Random
    """

    def __init__(self, limits: Sequence[Limit], settle: int, chance: random.Random) -> None:
        self._limits = limits
        self._settle = settle
        self._chance = chance
        self._turns: list[bool] = []
        self._nth = 0
        self.nr_turns = 0
        self.is_lower = False
        """Whether the lower age has its turn."""
        self._net = {False: ConfidenceSequence(RISK / 2), True: ConfidenceSequence(RISK / 2)}
        self._harm = {limit.text: ConfidenceSequence(RISK) for limit in limits}

    @property
    def windows_of_turn(self) -> int:
        """Those that count, and those before in which memory follows the other age still."""
        return self._settle + MEASURED_WINDOWS

    def add(self, net_bytes: float, watched: Mapping[str, float]) -> bool:
        """A window of the present turn; returns whether the turn is over."""
        self._nth += 1
        if self._nth > self._settle:
            self._net[self.is_lower].add(net_bytes)
            for limit in self._limits if self.is_lower else ():
                self._harm[limit.text].add(watched[limit.name])
        if self._nth < self.windows_of_turn:
            return False
        self._nth = 0
        self.nr_turns += 1
        return True

    def next_turn(self) -> None:
        """Whose turn is next; each pair of turns has both."""
        if not self._turns:
            self._turns = self._chance.sample([False, True], 2)
        self.is_lower = self._turns.pop()

    @property
    def saves_more(self) -> bool | None:
        """Whether the lower age is shown to save more; None where that is not known."""
        present, lower = self._net[False], self._net[True]
        if lower.upper < present.lower:
            return True
        return False if lower.lower > present.upper else None

    @property
    def keeps_limits(self) -> bool:
        """Whether the lower age is shown to keep all of them on the average."""
        return all(
            self._harm[one.text].upper <= one.bound if one.is_upper else self._harm[one.text].lower >= one.bound
            for one in self._limits
        )

    @property
    def text(self) -> str:
        """What it has shown."""
        present, lower = self._net[False].mean / MIB, self._net[True].mean / MIB
        return f"{lower:.1f} MiB beside {present:.1f} MiB"
