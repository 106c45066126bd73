"""The runs of a study in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from damoos.model.trial import Run

BLOCK = 5


def plan(nr_samples: int, record: bool = False) -> list[Run]:
    """Every run of a search in order: two baselines, then trials in blocks with a baseline behind each.

    Two at the start, because one tells nothing of the noise. A recording takes the place of the first trial.
    """
    block = min(BLOCK, math.ceil(nr_samples / 2))
    steps = [("baseline", 0), ("baseline", 1)]
    for number in range(nr_samples):
        steps.append(("record", 0) if record and number == 0 else ("trial", number - record))
        if (number + 1) % block == 0 or number + 1 == nr_samples:
            steps.append(("baseline", len(steps) - number - 1))
    return [Run(index, kind, number) for index, (kind, number) in enumerate(steps)]


def validation_round(number: int, arms: Sequence[str], first_index: int) -> list[Run]:
    """The runs of one round; the arms change places, so that none always follows the same one."""
    turn = number % len(arms)
    order = [*arms[turn:], *arms[:turn]]
    return [Run(first_index + number * len(arms) + n, "validation", number, arm) for n, arm in enumerate(order)]
