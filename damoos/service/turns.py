"""Two ages compared on a workload that goes on: in turns of some windows, one after the other.

Windows that follow each other are alike, and so are turns. What is compared is therefore one turn with the one beside
it. The order of each pair is by chance, so what the workload does by itself is as often to the credit of one age as of
the other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from damoos.scorers.terms import Limit

# Windows of one turn that count.
MEASURED_WINDOWS = 4
# Chance that a lower age is falsely shown to save more, and that it is falsely shown to keep a limit.
RISK = 0.05
# How many turns two ages have at most, together, and each of them at least before anything is said.
MOST_TURNS, LEAST_TURNS = 16, 3
# Student's quantiles at 1 - RISK / 6, as one looks after 3, 4 … 8 turns, by that number. A keeper, of which each host
# has one, is spared the library that computes them.
_STUDENT = {3: 7.649, 4: 4.857, 5: 3.961, 6: 3.534, 7: 3.287, 8: 3.128}
MIB = 1 << 20


class Turns:
    """The present age and the next lower one, in turns whose order is by chance.

    Parameters
    ----------
    limits : sequence of Limit
        A window that breaks one of them ends the comparison, and is not added.
    settle : int
        Windows of each turn that do not count, because memory still follows the other age.
    chance : random.Random
    """

    def __init__(self, limits: Sequence[Limit], settle: int, chance: random.Random) -> None:
        self._limits = limits
        self._settle = settle
        self._chance = chance
        self._turns: list[bool] = []
        self._net_bytes: list[float] = []
        self._watched: list[Mapping[str, float]] = []
        self._nth = 0
        self.nr_turns = 0
        self.is_lower = False
        """Whether the lower age has its turn."""
        self._means: dict[bool, list[float]] = {False: [], True: []}
        self._unpaired: dict[bool, float] = {}
        self._saved: list[float] = []
        self._harm: dict[str, list[float]] = {limit.text: [] for limit in limits}

    @property
    def windows_of_turn(self) -> int:
        """Windows of a turn: those that count, and before them those in which memory follows the other age."""
        return self._settle + MEASURED_WINDOWS

    def add(self, net_bytes: float, watched: Mapping[str, float]) -> bool:
        """A window of the present turn; returns whether the turn is over."""
        self._nth += 1
        if self._nth > self._settle:
            self._net_bytes.append(net_bytes)
            self._watched.append(watched)
        if self._nth < self.windows_of_turn:
            return False
        self._end_turn()
        return True

    def _end_turn(self) -> None:
        mean = fmean(self._net_bytes)
        for limit in self._limits if self.is_lower else ():
            harm = fmean(one[limit.name] for one in self._watched)
            self._harm[limit.text].append(harm if limit.is_upper else -harm)
        self._net_bytes, self._watched = [], []
        self._nth = 0
        self.nr_turns += 1
        self._means[self.is_lower].append(mean)
        self._unpaired[self.is_lower] = mean
        if len(self._unpaired) == 2:
            self._saved.append(self._unpaired[False] - self._unpaired[True])
            self._unpaired.clear()

    def next_turn(self, may_be_lower: bool) -> None:
        """Whose turn is next; each pair of turns has both. The present age goes on until the lower one may."""
        if not self._turns:
            self._turns = self._chance.sample([False, True], 2)
        self.is_lower = may_be_lower and self._turns[-1]
        if self.is_lower is self._turns[-1]:
            self._turns.pop()

    @property
    def saves_more(self) -> bool | None:
        """Whether the lower age is shown to save more; None where that is not known."""
        saved, half = _mean(self._saved)
        if abs(saved) > half:
            return saved > 0
        return None

    @property
    def keeps_limits(self) -> bool:
        """Whether the lower age is shown to keep all of them on the average.

        A window beyond a limit ends the comparison. One that is rare has therefore not come in any window of the lower
        age yet, which bounds what it may add to their mean.
        """
        return all(self._keeps(limit) for limit in self._limits)

    def _keeps(self, limit: Limit) -> bool:
        harm = self._harm[limit.text]
        mean, half = _mean(harm)
        unseen = abs(limit.bound) * math.log(1 / RISK) / max(len(harm) * MEASURED_WINDOWS, 1)
        return mean + half + unseen <= (limit.bound if limit.is_upper else -limit.bound)

    @property
    def text(self) -> str:
        """What it has shown."""
        present, lower = (fmean(self._means[is_lower] or [math.nan]) / MIB for is_lower in (False, True))
        return f"{lower:.1f} MiB beside {present:.1f} MiB"


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of Student's interval; infinite for few values."""
    if len(values) < LEAST_TURNS or not all(map(math.isfinite, values)):
        return math.nan, math.inf
    return fmean(values), _STUDENT[len(values)] * stdev(values) / math.sqrt(len(values))
