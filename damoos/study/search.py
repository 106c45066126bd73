"""A study that searches: ask, run, score, recommend, validate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from damoos.dispatch.base import job
from damoos.dispatch.run import METRICS
from damoos.errors import (
    ConfigError,
    DamoosError,
    TooManyFailures,
    UnsupportedError,
    nearest,
)
from damoos.model.space import Param, Params
from damoos.model.trial import Measurement, RawSamples, Run, Score, Trial
from damoos.policies.base import NonePolicy, Policy, RecordPolicy
from damoos.prediction.prior import Prediction
from damoos.prediction.reclaim import Cost
from damoos.recordings import files as records
from damoos.recordings.recording import Recording
from damoos.statistics import verdict
from damoos.study import jobs
from damoos.study.config import MAX_EXTRA_ROUNDS, StudyConfig, space_of
from damoos.study.plan import plan, validation_round
from damoos.study.result import result_of
from damoos.study.scoring import score_trials
from damoos.study.steps import Execution, Part, Watcher
from damoos.study.study import Study

MAX_FAILURES = 3
# Baselines beyond the plan are numbered from here on, by the trial that they belong to.
OWN_BASELINES = 1000


class Search(Execution):
    """One go at a study that searches."""

    _study: Study
    _config: StudyConfig

    def __init__(self, study: Study, watcher: Watcher) -> None:
        self._plan = plan(study.config.nr_samples)
        super().__init__(study, watcher, study.config.nr_runs)
        self._best: list[Params] = []

    def _work(self) -> Part:
        yield from self._search()
        self._best = self._shortlist()
        if self._best:
            yield from self._validate(self._best)

    def _result(self, elapsed_s: float) -> dict[str, Any]:
        return result_of(self._study, self._best, elapsed_s)

    def _is_baseline(self, run: Run) -> bool:
        return run.kind == "baseline"

    def _needs(self) -> tuple[str, ...]:
        return tuple(self._study.scorer.needs)

    def _params(self) -> tuple[Param, ...]:
        return space_of(self._config, self._found.workload.tuning).params

    def _check_metrics(self) -> None:
        """Find out before the first run whether every metric that the scorer reads will be there."""
        workload = self._found.workload
        if not workload.has_runtime and not math.isinf(self._study.scorer.max_slowdown):
            raise ConfigError(
                f"score '{self._config.scorer}' limits the slowdown, and '{workload.name}' always runs"
                " for a set time; use --score psi, or --score sla with --limit on a --metric"
            )
        reported = {*METRICS, *self._found.facts.get("metrics", ()), *workload.reports}
        for name in self._study.scorer.needs:
            if name not in reported:
                raise ConfigError(
                    f"score '{self._config.scorer}' needs the metric '{name}', which neither workload"
                    f" '{workload.name}' nor machine '{self._found.machine}' reports{nearest(name, reported)}"
                )

    def _can_record(self) -> bool:
        """Whether the search begins with a recording; without any words about it, where that can be had.

        Raises
        ------
        UnsupportedError : it was asked for and cannot be had
        """
        needed = self._config.wants_record(space_of(self._config, self._found.workload.tuning))
        here = bool(self._found.facts.get("records"))
        if needed and not here and self._config.prior == "record":
            raise UnsupportedError(f"--prior record: machine '{self._found.machine}' cannot record what DAMON sees")
        return needed and here

    def _record(self, step: Run) -> Part:
        """The run that is recorded, and what it lets the searcher expect.

        Where it fails and was not asked for, the search continues without one.
        """
        study = self._study

        def keep(measurement: Measurement, samples: RawSamples, recording: Recording, cost: Cost | None) -> Measurement:
            study.record.artifacts.write_samples(step.key, samples)
            records.write(recording, study.record.artifacts.path / records.FILE_NAME)
            if cost is None:
                raise UnsupportedError("the machine cannot page out, so the cost of a page fault is unknown")
            param = study.space.params[0]
            prediction = Prediction.of(recording, cost, measurement.metric("runtime_s"), param.low, param.high)
            study.record.set("prediction", prediction.to_json())
            return measurement

        def fail(error: DamoosError) -> None:
            if self._config.prior == "record":
                raise error
            self._watcher.say(f"the recording failed ({error}); the search continues without one")

        work = job(jobs.record, self._found.workload, RecordPolicy(self._config.operations), self._limit_s())
        yield from self._do(step, work, keep, fail)

    def _search(self) -> Part:
        study, failures = self._study, 0
        self._plan = plan(self._config.nr_samples, study.setting.record)
        for step in self._left(self._plan):
            if step.kind == "baseline":
                yield from self._execute(step, NonePolicy(), must_succeed=True)
                continue
            if step.kind == "record":
                yield from self._record(step)
                continue
            earlier = [run for run in self._done.values() if run.index < step.index]
            point = study.searcher.ask(study.known(score_trials(earlier, study.scorer)))
            trial_step = replace(step, params=point)
            yield from self._execute(trial_step, study.policy(point), must_succeed=False, abort_s=self._abort_s())
            trial = self._trial(step)
            failures = failures + 1 if trial.state == "fail" else 0
            if failures == MAX_FAILURES:
                raise TooManyFailures(f"{failures} trials failed in a row, the last one: {trial.error}")
            yield from self._baseline_beside(step)

    def _baseline_beside(self, step: Run) -> Part:
        """A trial on a machine that has had no baseline yet (the one before was lost for good) gets one of its own."""
        here = self._done[step.key].host
        if here is not None and here not in {run.host for run in self._done.values() if run.kind == "baseline"}:
            self._watcher.say(f"study '{self._study.name}' continues on {here}, which gets a baseline of its own")
            own = Run(step.index, "baseline", OWN_BASELINES + step.number)
            yield from self._execute(own, NonePolicy(), must_succeed=True)

    def _trial(self, step: Run) -> Trial:
        """A trial that has been done, as scored now."""
        history = score_trials(list(self._done.values()), self._study.scorer)
        return next(trial for trial in history if trial.number == step.number)

    def _shortlist(self) -> list[Params]:
        """The points to validate, best first; a second one that is the manual scheme is validated as that."""
        study = self._study
        history = study.known(score_trials(list(self._done.values()), study.scorer))
        if not any(trial.score.feasible for trial in history):
            return []
        first, *others = study.searcher.shortlist(history, self._config.candidates)
        return [first, *(point for point in others if study.policy(point) != study.manual_policy)]

    def _validate(self, shortlist: list[Params]) -> Part:
        """The planned rounds, then those that can still change the decision."""
        study, planned = self._study, self._config.repeats
        arms: dict[str, tuple[Params | None, Policy]] = {
            verdict.BASELINE: (None, NonePolicy()),
            verdict.MANUAL: (study.manual, study.manual_policy),
        }
        for rank, point in enumerate(shortlist, start=1):
            arms[f"{verdict.CANDIDATE}{rank}"] = (point, study.policy(point))

        def run_round(number: int, names: Sequence[str]) -> Part:
            for step in self._left(validation_round(number, names, len(self._plan) + number * len(arms))):
                point, policy = arms[step.arm]
                yield from self._execute(replace(step, params=point), policy, must_succeed=point is None)

        for number in range(planned):
            yield from run_round(number, list(arms))
        done = planned
        while names := self._in_question(shortlist, done):
            self._watcher.say(f"{' and '.join(names)} are too close to call; up to {MAX_EXTRA_ROUNDS} more rounds")
            tuned = self._settled(done)[1].get(verdict.TUNED)
            for _ in range(MAX_EXTRA_ROUNDS):
                yield from run_round(done, [verdict.BASELINE, *(name for name in names if name != verdict.BASELINE)])
                done += 1
                if self._settled(done)[1].get(verdict.TUNED) != tuned:
                    break  # it has broken the limits, and another candidate takes its place

    def _settled(self, rounds: int) -> tuple[dict[str, verdict.Arm], dict[str, str]]:
        """Arms after some rounds, and the names that their runs have, by the names that people read."""
        runs = [run for run in self._done.values() if run.kind != "validation" or run.number < rounds]
        arms, names = self._study.arms(runs)
        return arms, {name: raw for raw, name in names.items()}

    def _in_question(self, shortlist: list[Params], rounds: int) -> list[str]:
        """Arms between which the rounds so far could not decide, and more might; no arm gets more of them twice."""
        study = self._study
        arms, raw_of = self._settled(rounds)
        best = shortlist[int(raw_of.get(verdict.TUNED, "1").removeprefix(verdict.CANDIDATE)) - 1]
        same_scheme = study.policy(best) == study.manual_policy
        open_arms = verdict.in_question(arms, study.scorer.direction, MAX_EXTRA_ROUNDS, same_scheme)
        names = [raw_of.get(name, name) for name in open_arms]
        later = [run for run in self._done.values() if self._config.repeats <= run.number < rounds]
        had = {run.arm for run in later if run.kind == "validation"}
        return [] if set(names) <= had else names

    def _store(self, run: Run) -> Score | None:
        score = self._trial(run).score if run.kind == "trial" else None
        self._study.record.add(run, score, self._study.space.params)
        return score

    def _abort_s(self) -> float | None:
        """Runtime beyond which a trial has certainly broken the scorer's limit; None where nothing is certain.

        A trial is scored against the mean of two baselines. The upper end of the 95 % interval of what such a mean
        can be, from all baselines so far, times the slowdown that the scorer allows.
        """
        known = self._baseline_runtimes()
        allowed = self._study.scorer.max_slowdown
        if len(known) < 2 or math.isinf(allowed):
            return None
        spread = float(np.std(known, ddof=1)) * math.sqrt(1 / len(known) + 1 / 2)
        highest = float(np.mean(known)) + verdict.student(0.95, len(known) - 1) * spread
        return highest * (1 + allowed)
