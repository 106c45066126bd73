"""How far runs lie apart where nothing but the run differs: from baselines in a row, and from repeats of schemes.

Two or three runs of an arm tell little of their own noise, so it is also learned from other runs. It is taken over as a
ratio: where a scheme makes a metric ten times as large, its noise is ten times as large, too. Of runs in a row it is
what lies between neighbours that counts, so a machine that becomes slower and slower does not look noisy.

References
----------
von Neumann, Kent, Bellinson, Hart, The mean square successive difference (1941)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from damoos.model.trial import Measurement, Score
from damoos.statistics.intervals import Noise

# As how many values the noise of the baselines counts at most. More would be worth more if runs under a scheme were
# always as noisy as baselines, which they are not (decision 0003).
PRIOR_FREEDOM = 1.5
# What the noise of the gain is filed under, among that of the margins.
GAIN = ""
# A score, and what is gained with it; None where nobody knows.
Scored = Callable[[Measurement], tuple[Score, float | None]]


@dataclass(frozen=True)
class Repeats:
    """What lies between neighbours among runs of one thing.

    Parameters
    ----------
    changes : sequence of mapping
        By metric: the ratio of one run to the run before, or the difference where one of them is 0.
    share : float
        What the noise of a gain is of that of a change: a gain is of a run and of a baseline.
    freedom : float
        Degrees of freedom.
    """

    changes: Sequence[Mapping[str, Change]]
    share: float
    freedom: float

    def noise(self, run: Measurement, scored: Scored) -> dict[str, Noise]:
        """How far the gain (`GAIN`) and the margins, by limit, of a run may lie from what they are on the average."""
        usual, usual_gain = scored(run)
        squares: dict[str, list[float]] = {}
        for change in self.changes:
            score, gain = scored(_changed(run, change))
            if gain is not None and usual_gain is not None:
                squares.setdefault(GAIN, []).append((gain - usual_gain) ** 2)
            for limit, margin in score.margins.items():
                squares.setdefault(limit, []).append((margin - usual.margins[limit]) ** 2)
        return {
            name: Noise(self.share * math.sqrt(math.fsum(found) / len(found)), self.freedom)
            for name, found in squares.items()
        }


@dataclass(frozen=True)
class Change:
    """What a metric of one run is by one of another."""

    by: float
    is_ratio: bool

    @classmethod
    def of(cls, value: float, before: float) -> Change:
        """From one value to the next."""
        return cls(value / before, True) if value and before else cls(value - before, False)

    def on(self, value: float) -> float:
        """The value that has changed."""
        return value * self.by if self.is_ratio else value + self.by


def of_baselines(baselines: Sequence[Measurement]) -> Repeats | None:
    """What the baselines of a study tell, in the order in which they ran, each machine's for itself; None for too few.

    It counts as `PRIOR_FREEDOM` at most: runs under a scheme need not be as noisy.
    """
    by_host: dict[object, list[Measurement]] = {}
    for run in baselines:
        by_host.setdefault(run.provenance.get("host"), []).append(run)
    changes = [_between(*pair) for runs in by_host.values() for pair in pairwise(runs)]
    freedom = math.fsum(freedom_in_a_row(len(runs)) for runs in by_host.values())
    return Repeats(changes, 1.0, min(freedom, PRIOR_FREEDOM)) if changes else None


def of_scheme(runs: Mapping[int, Measurement], base: Mapping[int, Measurement]) -> Repeats | None:
    """What the runs of a scheme tell, each beside the baseline of its round; None for too few."""
    beside = [{name: (value, base[n].metrics.get(name, 0.0)) for name, value in runs[n].metrics.items()} for n in runs]
    changes = []
    for one, other in pairwise(beside):
        changes.append({name: _relative(one[name], other[name]) for name in one if name in other})
    return Repeats(changes, math.sqrt(0.5), freedom_in_a_row(len(beside))) if changes else None


def freedom_in_a_row(count: int) -> float:
    """Degrees of freedom of the mean square of what lies between neighbours among so many values."""
    return 2 * (count - 1) ** 2 / (3 * count - 4) if count > 1 else 0.0


def _between(before: Measurement, run: Measurement) -> dict[str, Change]:
    return {
        name: Change.of(value, before.metrics[name]) for name, value in run.metrics.items() if name in before.metrics
    }


def _relative(before: tuple[float, float], now: tuple[float, float]) -> Change:
    """From one run to the next, each by its baseline where there is one to divide by."""
    if before[1] and now[1]:
        return Change.of(now[0] / now[1], before[0] / before[1])
    return Change.of(now[0], before[0])


def _changed(run: Measurement, changes: Mapping[str, Change]) -> Measurement:
    metrics = {name: changes[name].on(value) if name in changes else value for name, value in run.metrics.items()}
    return Measurement(metrics)
