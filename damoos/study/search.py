"""A study that searches: ask, run, score, recommend, validate."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from damoos.dispatch.base import job
from damoos.errors import (
    ConfigError,
    DamoosError,
    TooManyFailures,
    UnsupportedError,
    nearest,
)
from damoos.model.metrics import EVERYWHERE
from damoos.model.roles import by_role
from damoos.model.space import Param
from damoos.model.trial import Measurement, RawSamples, Run, Score, Trial
from damoos.policies import named
from damoos.policies.base import NonePolicy, Policy, RecordPolicy, limited
from damoos.prediction.prior import Prediction
from damoos.prediction.reclaim import Cost
from damoos.recordings import files as records
from damoos.recordings.recording import Recording
from damoos.statistics.arms import BASELINE
from damoos.statistics.intervals import student
from damoos.study import jobs
from damoos.study.config import StudyConfig, space_of
from damoos.study.course import Course
from damoos.study.kept_scores import keep
from damoos.study.outliers import joined, kept, outlier
from damoos.study.plan import plan
from damoos.study.result import result_of
from damoos.study.scoring import is_baseline, score_trials
from damoos.study.steps import Execution, Part, Step, Watcher, peak_of
from damoos.study.study import Study

MAX_FAILURES = 3
# Baselines beyond the plan are numbered from here on, by the trial that they belong to.
OWN_BASELINES = 1000


class Search(Execution):
    """One go at a study that searches."""

    _study: Study
    _config: StudyConfig

    def __init__(self, study: Study, watcher: Watcher) -> None:
        self._plan = plan(study.config.nr_trials)
        study.load_scorer()
        super().__init__(study, watcher, study.config.nr_runs)
        self._done = joined(self._done)

    def _work(self) -> Part:
        keep(self._study)
        yield from self._measure_peak()
        yield from self._repeat_outliers()
        if self._config.of is None:
            yield from self._search()
        else:
            self._plan = [run for run in self._done.values() if run.kind != "validation"]
        yield from self._validate()

    def _execute(
        self, asked: Run, policy: Policy, must_succeed: bool, abort_s: float | None = None
    ) -> Generator[Step, Any, Run]:
        """Run a policy once, and run again what now turns out to lie far beyond the other runs."""
        yield from super()._execute(asked, policy, must_succeed, abort_s)
        yield from self._repeat_outliers()
        return self._done[asked.key]

    def _repeat_outliers(self) -> Part:
        record, course = self._study.record, Course(self._study)
        while far := outlier(self._done.values(), self._study.scorer.needs):
            copy = kept(far)
            if copy.key not in self._done:
                self._watcher.say(f"{far.key} lies far beyond the runs beside it, so it runs again")
                record.artifacts.copy_samples(far.key, copy.key)
                record.add(copy)
                self._done[copy.key] = copy
                self._expected += 1
            policy = course.policy(far) if far.kind == "validation" else NonePolicy()
            yield from super()._execute(replace(far, measurement=None), policy, must_succeed=is_baseline(far))

    def _measure_peak(self) -> Part:
        """How much memory the workload takes where nothing limits it, if the limit of all runs is a share of that."""
        record = self._study.record
        shares = [self._study.default_policy(name).peak_shares for name in self._config.policies]
        wants_peak = named.is_share(self._config.memory or "") or any(shares)
        if not wants_peak or record.get("peak_bytes") is not None:
            return
        self._watcher.say("one run without a limit tells the peak, of which the limit of memory is a share")
        measurement, samples = yield Step(job(jobs.execute, self._found.workload, NonePolicy(), self._limit_s(), None))
        record.artifacts.write_samples("peak", samples)
        record.set("peak_bytes", peak_of(measurement))

    def _limited(self, policy: Policy) -> Policy:
        peak_bytes = self._study.record.get("peak_bytes") or 0.0
        return limited(policy, self._study.memory_limits, peak_bytes, self._config.swap_write_bytes_per_s)

    def _result(self, elapsed_s: float) -> dict[str, Any]:
        result = result_of(self._study, elapsed_s)
        keep(self._study, is_finished=True)
        return result

    @property
    def _tolerates_unsupported(self) -> bool:
        """One of several policies that this machine cannot do has failed, and the others go on."""
        return self._config.has_several

    def _is_baseline(self, run: Run) -> bool:
        return is_baseline(run)

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
        reported = {*EVERYWHERE, *self._found.facts.get("metrics", ()), *workload.reports}
        reported |= by_role(reported, workload.roles)
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
        if self._config.prior == "auto" and self._like(self._found.workload.variant):
            return False  # finished studies of the same workload tell more
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
            study.record.artifacts.write_parts(records.FILE_NAME, records.compressed(recording))
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

        policy, limits = RecordPolicy(self._config.operations), self._study.memory_limits
        work = job(jobs.record, self._found.workload, policy, self._limit_s(), None, limits)
        yield from self._do(step, work, keep, fail)

    def _search(self) -> Part:
        study, failures = self._study, 0
        if self._config.nr_trials < self._config.nr_samples:
            self._watcher.say(f"{self._config.nr_trials} trials, so that the validation stays within --runs")
        if study.setting.like:
            self._watcher.say(f"finished studies tell what to expect: {', '.join(study.setting.like)}")
        self._plan = plan(self._config.nr_trials, study.setting.record)
        for step in self._left(self._plan):
            earlier = [run for run in self._done.values() if run.index < step.index]
            history = study.known(score_trials(earlier, study.scorer))
            if study.searcher.is_done(history):
                self._watcher.say(f"no further trial is expected to pay, so the search ends after {len(history)}")
                self._skip(sum(other.index >= step.index for other in self._plan))
                break
            if step.kind == "baseline":
                yield from self._execute(step, NonePolicy(), must_succeed=True)
                continue
            if step.kind == "record":
                yield from self._record(step)
                continue
            point = study.searcher.ask(history)
            trial_step = replace(step, params=point)
            yield from self._execute(trial_step, study.policy(point), must_succeed=False, abort_s=self._abort_s())
            trial = self._trial(step)
            failures = failures + 1 if trial.state == "fail" else 0
            if failures == max(MAX_FAILURES, len(self._config.policies)):
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

    def _validate(self) -> Part:
        """Round after round, until the verdict stands."""
        course, number = Course(self._study), 0
        while steps := course.round(number, list(self._done.values()), len(self._plan)):
            for step in self._left(steps):
                yield from self._execute(step, course.policy(step), must_succeed=step.arm == BASELINE)
            number += 1

    def _store(self, run: Run) -> Score | None:
        score = self._trial(run).score if run.kind == "trial" else None
        self._study.record.add(run, score, self._study.space.params)
        keep(self._study)
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
        highest = float(np.mean(known)) + student(0.95, len(known) - 1) * spread
        return highest * (1 + allowed)
