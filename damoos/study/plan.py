"""The runs of a study in their order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from damoos.model.trial import Run
from damoos.statistics.arms import BASELINE
from damoos.statistics.limits import MIN_ROUNDS

BLOCK = 5
# The baseline, the manual scheme, a candidate.
NR_ARMS = 3


def plan(nr_samples: int, record: bool = False) -> list[Run]:
    """Every run of a search in order: two baselines, then trials in blocks with a baseline between them.

    Two at the start, because one tells nothing of the noise. None at the end, where the validation begins with one. A
    recording takes the place of the first trial.
    """
    block = min(BLOCK, math.ceil(nr_samples / 2))
    steps = [("baseline", 0), ("baseline", 1)]
    for number in range(nr_samples):
        if number and number % block == 0:
            steps.append(("baseline", len(steps) - number))
        steps.append(("record", 0) if record and number == 0 else ("trial", number - record))
    return [Run(index, kind, number) for index, (kind, number) in enumerate(steps)]


def validation_round(
    number: int, arms: Sequence[str], first_index: int, nr_arms: int = NR_ARMS, seed: int = 0
) -> list[Run]:
    """The runs of one round of at most ``nr_arms``, in an order by chance, and in the next round the other way round.

    So no arm gains by its place, and what a machine loses by and by is lost by all arms alike in two rounds. The first
    round begins with the baseline, which stands behind the last trials of the search, too.
    """
    chance = random.Random(f"{seed} {number // 2}")
    order = sorted(arms, key=lambda arm: (number > 1 or arm != BASELINE, chance.random()), reverse=number % 2 == 1)
    return [Run(first_index + number * nr_arms + n, "validation", number, arm) for n, arm in enumerate(order)]


def least_runs(nr_samples: int, nr_arms: int = NR_ARMS) -> int:
    """Runs of a study of so many trials whose verdict is clear as soon as it can be."""
    return len(plan(nr_samples)) + MIN_ROUNDS * nr_arms


def samples_within(nr_samples: int, runs: int | None, nr_arms: int = NR_ARMS) -> int:
    """How many trials leave room for a validation among so many runs; at most ``nr_samples``."""
    while runs is not None and nr_samples > 2 and least_runs(nr_samples, nr_arms) > runs:
        nr_samples -= 1
    return nr_samples
