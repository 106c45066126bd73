"""Whether limits are kept, from several runs: what a limit means is said here, for search, verdict and report alike.

A limit on what a scheme does on the average is judged by the mean of its margins: it is kept if the mean is not
negative and, at a risk of 5 % that all schemes of a study share, the limit is not broken by more than a tenth of it
(non-inferiority). It is broken if the interval of the mean lies beyond it. A limit that every run must keep is broken
by one that does not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from statistics import fmean

from damoos.model.trial import Score
from damoos.statistics.intervals import Noise, moderated

# How far beyond a limit the mean may truly lie, in units of the limit, at the stated risk.
TOLERANCE = 0.1
# Of fewer runs no mean is judged: their noise is not known from them.
MIN_ROUNDS = 2
# From so many runs on, a mean beyond the limit is enough to try something more careful, whatever its interval.
ENOUGH = 3


class Standing(StrEnum):
    """How a scheme stands to the limits; ``not shown`` is that its runs are too few or too far apart to say."""

    KEPT = "kept"
    NOT_SHOWN = "not shown"
    BROKEN = "broken"


def standing(
    scores: Sequence[Score],
    every: Collection[str],
    noises: Mapping[str, Sequence[Noise]],
    risk: float,
    more: int = 0,
) -> Standing:
    """How a scheme stands to all limits of its score.

    Parameters
    ----------
    scores : sequence of Score
        One for each run.
    every : collection of str
        Limits that each run must keep.
    noises : mapping of str to sequence of Noise
        That of the margins, by limit, as far as it is known from elsewhere.
    risk : float
        Chance of one look to call a limit kept that is broken by more than `TOLERANCE`, or the other way round. The
        interval has both of its ends at it, which leaves room for noise that is not normal.
    more : int
        After so many further runs, were the noise to stay, and the mean to be better by its error.
    """
    if any(_breaks_alone(score, every) for score in scores):
        return Standing.BROKEN
    found = [
        _of_mean(margins, noises.get(limit, ()), risk, more)
        for limit, margins in _judged_margins(scores, every).items()
    ]
    return max(found, key=list(Standing).index, default=Standing.KEPT)


def least_margin(
    scores: Sequence[Score], every: Collection[str], noises: Mapping[str, Sequence[Noise]], risk: float, more: int
) -> float:
    """The mean margin from which on so many further runs, as noisy as these, would show that all limits are kept."""
    means = [moderated(margins, noises.get(limit, ())) for limit, margins in _judged_margins(scores, every).items()]
    return max([0.0, *(mean.half(1 - risk, more) - TOLERANCE for mean in means)])


def looks_broken(scores: Sequence[Score], every: Collection[str]) -> bool:
    """Whether something more careful is to be tried, although the runs need not show that a limit is broken.

    It is if the mean of `ENOUGH` runs lies beyond it, or each of `MIN_ROUNDS` runs by more than `TOLERANCE`.
    """
    margins = _judged_margins(scores, every).values()
    if len(scores) >= ENOUGH and any(fmean(of_runs) < 0 for of_runs in margins):
        return True
    return len(scores) >= MIN_ROUNDS and any(max(of_runs) < -TOLERANCE for of_runs in margins)


def _judged_margins(scores: Sequence[Score], every: Collection[str]) -> dict[str, list[float]]:
    """The margins of all runs, for each limit of which the mean is judged."""
    limits = [limit for limit in scores[0].margins if limit not in every]
    return {limit: [score.margins[limit] for score in scores] for limit in limits}


def _breaks_alone(score: Score, every: Collection[str]) -> bool:
    """Whether a single run has broken a limit of which no mean is taken."""
    if any(margin < 0 for limit, margin in score.margins.items() if limit in every):
        return True
    return not score.feasible and (score.margin is None or score.margin >= 0)


def _of_mean(margins: Sequence[float], noises: Sequence[Noise], risk: float, more: int) -> Standing:
    mean = moderated(margins, noises)
    if mean.count + more < MIN_ROUNDS:
        return Standing.NOT_SHOWN
    half = mean.half(1 - risk, more)
    if mean.mean + half < 0:
        return Standing.BROKEN
    best = mean.mean + (math.sqrt(mean.variance / mean.count) if more else 0.0)
    return Standing.KEPT if best >= 0 and best - half >= -TOLERANCE else Standing.NOT_SHOWN
