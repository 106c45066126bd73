"""Validations whose truth is known: what the judge says of schemes that are made, by damoos's own course.

The machine, the store and the search are not there. A made scheme has a true slowdown and a true saving; its runs have
noise, the machine may drift, and some runs take several times as long. So it can be counted how often the verdict names
a winner that is none, and how often it misses one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from damoos.bench.simulated import MANUAL_US, SimulatedStudy, simulate
from damoos.bench.surfaces import TEMPLATES, TUNABLES, Surface, measurement
from damoos.common.interpreter import process_pool
from damoos.damon.attrs import Attrs
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import History, Measurement, Run
from damoos.searchers.base import Searcher
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.statistics.limits import Standing
from damoos.study.course import outcome

TRIALS = 10
# An outlier takes this many times as long.
OUTLIER = 3.0


@dataclass(frozen=True)
class Scheme:
    """What a scheme truly does, as fractions of the workload that is left alone."""

    slowdown: float
    saving: float


@dataclass(frozen=True)
class Noise:
    """How runs differ where nothing else does.

    Parameters
    ----------
    runtime : float
        Standard deviation of the logarithm of a run's time; that of its memory is a third of it.
    drift : float
        By which share of its time each run takes longer than the one before.
    outliers : float
        Share of runs that take `OUTLIER` times as long.
    of_schemes : float
        How many times as noisy runs under a scheme are.
    modes : float
        By which share of their time runs under a scheme take longer or, as often and by chance, shorter.
    """

    runtime: float
    drift: float = 0.0
    outliers: float = 0.0
    of_schemes: float = 1.0
    modes: float = 0.0


class Listed(Searcher):
    """Asks for the manual scheme again and again, and has some points validated in their order."""

    name = "listed"
    points: Sequence[Params] = ()

    def ask(self, history: History) -> Params:
        """Always the same."""
        return {"min_age_us": MANUAL_US}

    def recommend(self, history: History) -> Params:
        """The first one."""
        return self.points[0]

    def shortlist(self, history: History, count: int) -> list[Params]:
        """All of them, in their order."""
        return list(self.points[:count])


@dataclass(frozen=True)
class Duel:
    """Made schemes that are to be judged.

    Parameters
    ----------
    manual : Scheme
    candidates : sequence of Scheme
        In the order in which they are validated.
    noise : Noise
    """

    manual: Scheme
    candidates: Sequence[Scheme]
    noise: Noise

    def runs(self, seed: int) -> tuple[SimulatedStudy, list[Run]]:
        """A whole study, with all of its runs."""
        points = [{"min_age_us": float(age_us)} for age_us in self._by_age if age_us != MANUAL_US]
        searcher = type("ListedHere", (Listed,), {"points": points})
        return simulate(self._surface(), searcher, TRIALS, seed)

    @property
    def _by_age(self) -> dict[int, Scheme]:
        """The schemes, each by an age of its own, the manual one first."""
        return {MANUAL_US * (n + 1): scheme for n, scheme in enumerate([self.manual, *self.candidates])}

    def _surface(self) -> Surface:
        schemes, count = self._by_age, 0

        def truth(point: Params | None) -> tuple[float, float]:
            true = Scheme(0.0, 0.0) if point is None else schemes[int(point["min_age_us"])]
            return true.slowdown, true.saving

        def run(point: Params | None, random: np.random.Generator) -> Measurement:
            nonlocal count
            spread = self.noise.runtime * (1.0 if point is None else self.noise.of_schemes)
            slower = (1 + self.noise.drift) ** count * (OUTLIER if random.random() < self.noise.outliers else 1.0)
            if point is not None and self.noise.modes:
                slower *= 1 + self.noise.modes * random.choice((-1, 1))
            count += 1
            return measurement(
                truth(point), (math.log(slower) + spread * random.normal(), spread / 3 * random.normal())
            )

        space = Space(TEMPLATES[0], (parse_param(TUNABLES[0], Attrs().aggr_us),))
        return Surface("duel", space, run, lambda point: measurement(truth(point)))

    def truths(self) -> dict[str, Scheme]:
        """What each arm truly does, as far as it is known by its name."""
        return {BASELINE: Scheme(0.0, 0.0), MANUAL: self.manual, TUNED: self.candidates[0]}


@dataclass(frozen=True)
class Judged:
    """What a study came to.

    Parameters
    ----------
    best : str
        The arm that the verdict calls best, or its word for none.
    nr_runs : int
    standings : mapping of str to Standing
        By arm.
    covered : mapping of str to bool
        By arm: whether the 95 % interval of its score holds the true one.
    """

    best: str
    nr_runs: int
    standings: Mapping[str, Standing]
    covered: Mapping[str, bool]

    @property
    def keeps(self) -> bool:
        """Whether any scheme is said to keep the limits."""
        return any(one is Standing.KEPT for name, one in self.standings.items() if name != BASELINE)


def judged(duel: Duel, seed: int) -> Judged:
    """Play one study."""
    study, runs = duel.runs(seed)
    stand = outcome(study, runs)
    truths = duel.truths() if len(duel.candidates) == 1 else {}
    scores = {name: (true.saving - true.slowdown) / 2 for name, true in truths.items()}
    return Judged(
        stand.verdict().best,
        len(runs),
        {name: arm.standing for name, arm in stand.arms.items()},
        {
            name: arm.interval[0] <= scores[name] <= arm.interval[1]
            for name, arm in stand.arms.items()
            if name in scores
        },
    )


def play(duels: Sequence[Duel], nr_studies: int) -> list[list[Judged]]:
    """Play as many studies of each, on all CPUs; no two studies have the same seed."""
    jobs = product(duels, range(nr_studies))
    with process_pool() as pool:
        found = list(pool.map(judged, [duel for duel, _ in jobs], range(len(duels) * nr_studies), chunksize=8))
    return [found[n * nr_studies : (n + 1) * nr_studies] for n in range(len(duels))]


SLOWDOWNS, NOISES = (0.02, 0.05, 0.07, 0.09), (0.002, 0.005, 0.01, 0.02)


def false_winners(nr_studies: int) -> list[dict[str, float]]:
    """How often one of two identical schemes is called best, by their true slowdown and the noise.

    Returns
    -------
    list of dict
        ``slowdown, noise, false_winners, kept`` (the share of studies in which the tuned one is shown to keep the limit
        of 10 %), ``runs`` (the mean).
    """
    cells = list(product(SLOWDOWNS, NOISES))
    duels = [Duel(Scheme(slowdown, 0.3), [Scheme(slowdown, 0.3)], Noise(noise)) for slowdown, noise in cells]
    return [
        {
            "slowdown": slowdown,
            "noise": noise,
            "false_winners": float(np.mean([one.best in (MANUAL, TUNED) for one in found])),
            "kept": float(np.mean([one.standings.get(TUNED) is Standing.KEPT for one in found])),
            "runs": float(np.mean([one.nr_runs for one in found])),
        }
        for (slowdown, noise), found in zip(cells, play(duels, nr_studies), strict=True)
    ]
