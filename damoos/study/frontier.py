"""What a finished study knows of other limits than its own, without a further run.

Its runs are scored again under the other limits. Slowdown, saving and score are modelled apart, so the best point is
known also where none was tried, and how well it is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from damoos.errors import ConfigError, nearest
from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Params
from damoos.model.trial import Run, mean_measurement, orientation
from damoos.searchers.auto import AutoSearcher, can_model
from damoos.searchers.surrogate import Belief, believe, share_used
from damoos.statistics.intervals import student
from damoos.study.scoring import is_baseline
from damoos.study.study import Study

# Slowdowns that people ask for.
SLOWDOWNS = (0.01, 0.02, 0.05, 0.1)
# The limit whose use tells how much longer a run takes.
ALLOWED = 0.1
# Scores each run by what it saved, under this limit.
_TERMS = {
    "scorer": "sla",
    "scorer_options": {"maximize": "memory_saving", "limits": [f"slowdown<={ALLOWED:g}"]},
    "limits": (),
}


@dataclass(frozen=True)
class Expected:
    """A number that is expected of a point on the average of many runs, with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Prospect:
    """The point that is expected to be best under some limits.

    Parameters
    ----------
    limits : tuple of str
        In place of the study's own on the same terms.
    params : Params
    chance : float
        That it keeps all limits on the average, 0 to 1.
    score, slowdown, memory_saving : Expected
    runs : int
        How many runs this very point has had; 0 for one that lies between those that were tried.
    """

    limits: tuple[str, ...]
    params: Params
    chance: float
    score: Expected
    slowdown: Expected
    memory_saving: Expected
    runs: int

    def to_json(self, study: Study) -> dict[str, Any]:
        """Plain form for a result, with the scheme."""
        return asdict(self) | {
            "limits": list(self.limits),
            "params": study.space.readable(self.params),
            "scheme": study.policy(self.params).text,
        }


def prospect(study: Study, limits: Sequence[str]) -> Prospect | None:
    """The point that a study expects to be best under some limits.

    It is the one that would be validated first. None where it is not expected to gain anything, or too little is known:
    no trial kept the limits, or a run does not say by how much it did.

    Raises
    ------
    ConfigError : a limit that cannot be read, or on a metric that the runs have not reported
    """
    if isinstance(study.space, ConditionalSpace):
        raise ConfigError(
            f"study '{study.name}' searched several policies, and what it expects under other limits is not modelled;"
            f" prove them on fresh runs: damoos validate {study.name} --limit '{' '.join(limits)}'"
        )
    other = study.asked_again(limits=(*limits,))
    runs = study.runs()
    base = mean_measurement([run.measurement for run in runs if is_baseline(run) and run.measurement])
    for name in other.scorer.needs:
        if name not in base.metrics:
            raise ConfigError(f"the runs of study '{study.name}' have no metric '{name}'{nearest(name, base.metrics)}")
    history, searcher = other.evidence(runs), _searcher(other)
    if not can_model(history):
        return None
    point = searcher.recommend(history)
    belief, chance = searcher.outlook(history, [point])
    sign, usual = orientation(study.scorer.direction), study.scorer.score(base, base, ()).objective or 0.0
    if belief.mean[0] <= sign * usual:
        return None
    terms = study.asked_again(**_TERMS)
    return Prospect(
        limits=(*limits,),
        params=point,
        chance=float(chance[0]),
        score=_expected(belief, len(history), sign),
        slowdown=_slowdown(terms, runs, point),
        memory_saving=_saving(terms, runs, point),
        runs=sum(trial.params == point for trial in history),
    )


def frontier(study: Study) -> dict[float, Prospect | None]:
    """The best point by the slowdown that is allowed, from 1 % to what the study allows.

    None without runtimes, and none of several policies.
    """
    if not study.setting.has_runtime or isinstance(study.space, ConditionalSpace):
        return {}
    own = study.scorer.max_slowdown
    allowed = sorted({*(slowdown for slowdown in SLOWDOWNS if slowdown < own), *([own] if math.isfinite(own) else [])})
    return {slowdown: prospect(study, [f"slowdown<={slowdown:g}"]) for slowdown in allowed}


def _saving(terms: Study, runs: Sequence[Run], point: Params) -> Expected:
    saved = [trial for trial in terms.evidence(runs) if trial.score.objective is not None]
    y, searcher = np.array([trial.score.objective for trial in saved]), _searcher(terms)
    places = searcher.places([trial.params for trial in saved])
    return _expected(believe(places, y, searcher.places([point]), searcher.columns), len(y))


def _slowdown(terms: Study, runs: Sequence[Run], point: Params) -> Expected:
    """What is expected of the slowdown, by the model that tells the chance to keep a limit on it."""
    history = terms.evidence(runs)
    count = sum(trial.score.margin is not None for trial in history)
    found = _expected(_searcher(terms).use(history, [point]), count)
    return Expected(*(ALLOWED * share_used(end) for end in (found.mean, found.low, found.high)))


def _searcher(study: Study) -> AutoSearcher:
    assert isinstance(study.searcher, AutoSearcher)
    return study.searcher


def _expected(belief: Belief, count: int, sign: float = 1.0) -> Expected:
    mean, half = sign * float(belief.mean[0]), student(0.95, count - 1) * float(belief.deviation[0])
    return Expected(mean, mean - half, mean + half)
