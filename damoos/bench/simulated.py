"""Whole studies on surfaces: what comes out at the end, after the validation, by damoos's own code.

Only the store and the machine are not there. A search that finds the best point is worth nothing if the validation
throws it away, so what counts is what is put into service.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from damoos import searchers
from damoos.bench.surfaces import Surface, generate
from damoos.common.interpreter import process_pool
from damoos.model.space import Params
from damoos.model.trial import Measurement, Run, orientation
from damoos.prediction.transfer import Experience, TransferPrior
from damoos.searchers.base import Searcher, feasible
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.study.config import StudyConfig
from damoos.study.course import Course, candidates, outcome
from damoos.study.outliers import kept, outlier
from damoos.study.plan import plan
from damoos.study.scoring import score_trials
from damoos.study.study import Study

MANUAL_US = 5_000_000
# A run is stopped this share of the baseline beyond the limit.
STOPPED_BEYOND = 0.01
# Beyond this share of a limit a scheme in service breaks it.
BROKEN_FROM = 0.1


class SimulatedStudy(Study):
    """A study on a surface: damoos's own but for its store and its machine."""

    def __init__(self, surface: Surface, config: StudyConfig, searcher: Searcher) -> None:
        self.name, self.config = surface.name, config
        self.__dict__ |= {"scorer": config.make_scorer(), "space": surface.space}
        self._given = searcher

    @property
    def searcher(self) -> Searcher:
        """The searcher that was given."""
        return self._given

    @property
    def manual_us(self) -> int:
        """The paper's 5 s."""
        return MANUAL_US


@dataclass(frozen=True)
class Ending:
    """What a study of a surface came to.

    Parameters
    ----------
    lost : float
        Share of the best possible score that is lost with what is put into service. Leaving it alone gains nothing.
        What truly breaks a limit by more than a tenth of it loses all.
    lost_before : float
        The same with what the search recommends, before the validation.
    broken : bool
        Whether what is put into service truly breaks a limit by more than a tenth of it.
    runs : int
    verdict : str
    """

    lost: float
    lost_before: float
    broken: bool
    runs: int
    verdict: str


def play(
    surface: Surface,
    which: str | type[Searcher],
    nr_samples: int,
    seed: int = 0,
    like: Sequence[Experience] = (),
    **words: Any,
) -> Ending:
    """A whole study of a surface: baselines, trials, validation, verdict.

    Parameters
    ----------
    like : sequence of Experience
        What tells the searcher what to expect.
    words : dict
        Further fields of `damoos.study.config.StudyConfig`.
    """
    return _ending(surface, *simulate(surface, which, nr_samples, seed, like, words))


def learn(surface: Surface, nr_samples: int, seed: int = 0) -> Experience:
    """What a whole study of a surface by `auto` leaves for others."""
    study, done = simulate(surface, "auto", nr_samples, seed)
    usual = study.scorer.score(surface.mean(None), surface.mean(None), ()).objective or 0.0
    return Experience.of(surface.name, "", "model", study.evidence(done), usual)


def simulate(
    surface: Surface,
    which: str | type[Searcher],
    nr_samples: int,
    seed: int = 0,
    like: Sequence[Experience] = (),
    words: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[SimulatedStudy, list[Run]]:
    """A study of a surface, and all of its runs; the words are those of `play`."""
    setting: dict[str, Any] = {"command": "simulated", "machine": "none", "scheme": surface.space.template, **words}
    config = StudyConfig(nr_samples=nr_samples, seed=seed, **setting)
    given = (surface.space, config.nr_trials, seed)
    study = SimulatedStudy(
        surface, config, searchers.searcher(which, *given) if isinstance(which, str) else which(*given)
    )
    if like:
        study.searcher.prior = TransferPrior(like, surface.space, 0.0)
    random = np.random.default_rng([seed, nr_samples])
    done: list[Run] = []

    def measure(run: Run) -> Measurement:
        measured = surface.run(run.params, random)
        return _stopped(measured, done, study.scorer.max_slowdown) if run.kind == "trial" else measured

    def execute(run: Run) -> None:
        done.append(replace(run, measurement=measure(run)))
        while far := outlier(done, study.scorer.needs):
            done.append(kept(far))
            done[done.index(far)] = replace(far, measurement=measure(far))

    for step in plan(study.config.nr_trials):
        history = study.known(score_trials(done, study.scorer))
        if study.searcher.is_done(history):
            break
        execute(replace(step, params=study.searcher.ask(history)) if step.kind == "trial" else step)
    course, number, first_index = Course(study), 0, len(done)
    while asked := course.round(number, done, first_index):
        for run in asked:
            execute(run)
        number += 1
    return study, done


def _stopped(measurement: Measurement, done: Sequence[Run], allowed: float) -> Measurement:
    """What is measured of a trial, which is stopped where it is too slow."""
    base = [run.measurement.metric("runtime_s") for run in done if run.kind == "baseline" and run.measurement]
    if not base or math.isinf(allowed):
        return measurement
    end_s = (1 + allowed + STOPPED_BEYOND) * float(np.mean(base))
    if measurement.metric("runtime_s") <= end_s:
        return measurement
    return Measurement({"elapsed_s": end_s}, censored=True)


def _ending(surface: Surface, study: SimulatedStudy, done: list[Run]) -> Ending:
    without = surface.mean(None)
    usual = study.scorer.score(without, without, []).objective or 0.0

    def worth(point: Params | None) -> tuple[float, float]:
        """True gain over leaving it alone, and the true margin."""
        if point is None:
            return 0.0, math.inf
        score = study.scorer.score(surface.mean(point), without, [])
        margin = score.margin if score.margin is not None else math.inf if score.feasible else -math.inf
        return orientation(study.scorer.direction) * ((score.objective or 0.0) - usual), margin

    def kept(point: Params) -> float:
        gain, margin = worth(point)
        return gain if margin >= 0 else -math.inf

    best = max(0.0, surface.highest(kept))

    def lost(point: Params | None) -> float:
        gain, margin = worth(point)
        # Within the tolerance of a limit a scheme may be better than the best.
        return 1.0 if margin < -BROKEN_FROM else max(0.0, best - gain) / best if best else 0.0

    chosen, verdict = _in_service(study, done)
    history = study.known(score_trials(done, study.scorer))
    before = study.searcher.recommend(history) if feasible(history) else None
    return Ending(lost(chosen), lost(before), worth(chosen)[1] < -BROKEN_FROM, len(done), verdict)


def _in_service(study: SimulatedStudy, done: list[Run]) -> tuple[Params | None, str]:
    """The point that is put into service, None for leaving it alone, and the verdict.

    Of arms that cannot be told apart or are not comparable it is the tuned one, if that is shown to keep the limits and
    gains something; else the manual one, if that is shown to keep them and beats leaving it alone.
    """
    if not candidates(done):
        return None, BASELINE
    stand = outcome(study, done)
    best = stand.verdict().best
    leaders = {arm.name: arm for arm in stand.judge.leaders(stand.arms, stand.same_scheme)[0]}
    if best == TUNED or (best != BASELINE and TUNED in leaders and leaders[TUNED].gain > 0):
        return stand.points.get(TUNED), best
    return (study.manual if MANUAL in leaders and BASELINE not in leaders else None), best


def table(
    surfaces: Sequence[Surface], names: Sequence[str], trials: Sequence[int], scorer: str = "daos"
) -> list[dict[str, Any]]:
    """One row per searcher and number of trials.

    Made surfaces are spread over all CPUs; a simulator of somebody's own runs in this process.

    Raises
    ------
    ConfigError : a searcher does not exist, or cannot search this space

    Returns
    -------
    list of dict
        ``searcher, params, trials, lost, lost_ci95`` (normal, over the surfaces), ``lost_before, broken`` (a share),
        ``runs`` (median), ``tuned`` (share of studies whose verdict that is).
    """
    jobs = list(product(names, trials, range(len(surfaces))))
    for name in names:
        searchers.searcher(name, surfaces[0].space, max(trials), 0)
    with process_pool() as pool:
        if all(surface.recipe for surface in surfaces):
            recipes = [surfaces[number].recipe for _, _, number in jobs]
            words = [(name, count, recipe, scorer) for (name, count, _), recipe in zip(jobs, recipes, strict=True)]
            endings = list(pool.map(_play_made, words, chunksize=4))
        else:
            endings = [play(surfaces[number], name, count, number, scorer=scorer) for name, count, number in jobs]
    found: dict[tuple[str, int], list[Ending]] = {}
    for (name, count, _), ending in zip(jobs, endings, strict=True):
        found.setdefault((name, count), []).append(ending)
    return [_row(name, len(surfaces[0].space.params), count, group) for (name, count), group in found.items()]


def _play_made(words: tuple[str, int, tuple[int, int, int], str]) -> Ending:
    """A study on a made surface, which is made again here: functions of it do not travel between processes."""
    from threadpoolctl import threadpool_limits

    name, count, (nr_params, seed, number), scorer = words
    with threadpool_limits(1):
        return play(generate(number + 1, seed, nr_params)[number], name, count, seed=number, scorer=scorer)


def _row(name: str, nr_params: int, count: int, endings: Sequence[Ending]) -> dict[str, Any]:
    lost = np.array([ending.lost for ending in endings])
    half = 1.96 * float(lost.std(ddof=1)) / math.sqrt(len(lost)) if len(lost) > 1 else math.inf
    return {
        "searcher": name,
        "params": nr_params,
        "trials": count,
        "lost": float(lost.mean()),
        "lost_ci95": [float(lost.mean()) - half, float(lost.mean()) + half] if len(lost) > 1 else None,
        "lost_before": float(np.mean([ending.lost_before for ending in endings])),
        "broken": float(np.mean([ending.broken for ending in endings])),
        "runs": float(np.median([ending.runs for ending in endings])),
        "tuned": float(np.mean([ending.verdict == TUNED for ending in endings])),
    }
