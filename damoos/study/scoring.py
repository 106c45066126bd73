"""Trials with their scores, from raw runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from damoos.errors import MeasurementError
from damoos.model.trial import History, Measurement, Run, Score, Trial, mean_measurement, orientation
from damoos.scorers.base import Scorer
from damoos.searchers.base import feasible, value
from damoos.statistics.arms import BASELINE, CANDIDATE, beside, rounds_of


def score_trials(runs: Sequence[Run], scorer: Scorer) -> History:
    """Trials with their scores, from raw runs alone.

    Each trial is judged against the baselines on both sides of it that ran on the same machine as it did, or against
    the one before where the other has not been run yet. Only for as long as its machine has had none is it judged
    against another's.
    """
    runs = sorted(runs, key=lambda run: run.index)
    baselines = [run for run in runs if is_baseline(run) and run.measurement]
    trials: list[Trial] = []
    previous: list[float] = []
    for run in (other for other in runs if other.kind == "trial"):
        state, score, error = "fail", Score(None, feasible=False), run.error
        if run.measurement:
            try:
                base = _baseline_of(run, baselines)
                if run.measurement.censored:
                    state, elapsed_s = "censored", run.measurement.metric("elapsed_s")
                    error = f"stopped: runtime >= {elapsed_s:.2f} s"
                    score = scorer.stopped(Measurement({"runtime_s": elapsed_s}), base)
                else:
                    score, state = scorer.score(run.measurement, base, previous), "complete"
            except MeasurementError as failure:
                error = str(failure)
            if score.feasible and score.value is not None:
                previous.append(score.value)
        trials.append(Trial(run.number, run.params or {}, state, score, run.measurement, error))
    return tuple(trials)


def is_baseline(run: Run) -> bool:
    """Whether the workload was left alone in a run, in the search or in a round of the validation."""
    return run.kind == "baseline" or (run.kind == "validation" and run.arm == BASELINE)


def score_validation(runs: Sequence[Run], scorer: Scorer, first_number: int) -> History:
    """What a validation measured of its candidates, each run against the baseline of its round, as further trials."""
    base = beside(rounds_of(runs))
    trials: list[Trial] = []
    for run in sorted(runs, key=lambda run: run.index):
        if run.kind != "validation" or not run.arm.startswith(CANDIDATE) or run.number not in base:
            continue
        score = scorer.score(run.measurement, base[run.number], ()) if run.measurement else Score(None, feasible=False)
        state = "complete" if run.measurement else "fail"
        number = first_number + len(trials)
        trials.append(Trial(number, run.params or {}, state, score, run.measurement, run.error))
    return tuple(trials)


def _baseline_of(run: Run, baselines: Sequence[Run]) -> Measurement:
    """The mean of the baselines on both sides of a run, on its own machine if there are any."""
    own = [other for other in baselines if other.host == run.host] or baselines
    before = [other for other in own if other.index < run.index][-1:]
    after = [other for other in own if other.index >= run.index][:1]
    return mean_measurement([other.measurement for other in before + after if other.measurement])


def feasible_scores(history: History) -> list[float]:
    """Scores of the trials that kept the limits, in order."""
    return [value(trial) for trial in feasible(history)]


def tightened(history: History, share: float) -> History:
    """The history as it would be if the limits were so much of what they are."""

    def under(score: Score) -> Score:
        margins = {limit: (margin - 1 + share) / share for limit, margin in score.margins.items()}
        kept = score.feasible and all(margin >= 0 for margin in margins.values())
        return replace(score, value=score.value if kept else None, feasible=kept, margins=margins)

    return history if share == 1 else tuple(replace(trial, score=under(trial.score)) for trial in history)


def oriented(history: History, direction: str) -> History:
    """The history as searchers want it: higher is better."""
    sign = orientation(direction)
    if sign > 0:
        return history

    def turned(score: Score) -> Score:
        parts = {name: sign * part for name, part in score.parts.items()}
        return replace(score, value=None if score.value is None else sign * score.value, parts=parts)

    return tuple(replace(trial, score=turned(trial.score)) for trial in history)
