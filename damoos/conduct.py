"""Doing a study: ask, run, score, recommend, validate.

What is stored decides what is next, so an interrupted study goes on where it stopped and repeats nothing. A study does
nothing on a machine by itself: it yields jobs, and whoever drives it says what came of them. So one process can drive
many studies, wherever their machines are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from damoos import jobs, places, runner, verdict
from damoos.dispatch.base import Job, job
from damoos.dispatch.lease import Lease
from damoos.errors import (
    ConfigError,
    DamoosError,
    MeasurementError,
    TooManyFailures,
    UnsupportedError,
    WorkloadError,
    nearest,
)
from damoos.model.space import Params
from damoos.model.trial import Run, Score, Trial
from damoos.policies.base import NonePolicy, Policy, RecordPolicy
from damoos.prior import Prediction
from damoos.records import damo as records
from damoos.result import result_of
from damoos.study import (
    MAX_EXTRA_ROUNDS,
    Setting,
    Study,
    feasible_scores,
    plan,
    score_trials,
    space_of,
    validation_round,
)

MAX_FAILURES = 3
# A run this much slower than its baseline hangs, whatever the scorer allows.
HANGS_AT = 4.0
HANGS_MIN_S = 30.0
# Baselines beyond the plan are numbered from here on, by the trial that they belong to.
OWN_BASELINES = 1000


class Watcher:
    """Told how a study goes; this one tells nobody."""

    def say(self, text: str) -> None:
        """A line of news."""

    def begin(self, study: Study, total: int, done: int) -> None:
        """The study starts, or goes on with ``done`` of ``total`` runs finished."""

    def started(self, run: Run, left_s: float | None) -> None:
        """A run has begun; ``left_s`` is the time until the end of the study, if it can be told."""

    def finished(self, run: Run, score: Score | None) -> None:
        """A run has ended."""


@dataclass(frozen=True)
class Step:
    """A job that a study wants done next, and the run that it is for; None for its survey."""

    job: Job
    run: Run | None = None


# Yields what is to be done, is sent what came of it, or has thrown into it what went wrong. Returns the study's result.
Steps = Generator[Step, Any, dict[str, Any]]
# The same for a part of a study.
_Part = Generator[Step, Any, None]


def conduct(study: Study, watcher: Watcher | None = None) -> dict[str, Any]:
    """Do all that is left of a study and return its result; ``recommended`` is None if nothing was feasible.

    Raises
    ------
    TooManyFailures : trials failed one after the other
    DamoosError : as the machine, the workload or the store has it
    """
    watcher = watcher or Watcher()
    if result := study.record.result:
        return result
    with study.record.writing(), Lease(study.config.machine_for(), watcher.say) as lease:
        return _drive(steps(study, watcher), lease)


def _drive(steps: Steps, lease: Lease) -> dict[str, Any]:
    """Do each job here and now."""
    try:
        step = next(steps)
        while True:
            try:
                found = step.job(lease)
            except DamoosError as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result
    finally:
        steps.close()


def steps(study: Study, watcher: Watcher) -> Steps:
    """Everything that is left of a study, job by job; its result is stored before it is returned."""
    return _Execution(study, watcher).whole()


class _Execution:
    """One go at a study, from wherever it stands to its end."""

    def __init__(self, study: Study, watcher: Watcher) -> None:
        self._study = study
        self._watcher = watcher
        self._config = study.config
        self._done = study.record.runs()
        self._plan = plan(self._config.nr_samples)  # until the machine has said whether it can record
        self._expected = len(self._plan) + self._config.repeats * (2 + self._config.candidates)
        self._started = time.monotonic()
        self._elapsed_before: float = study.record.get("elapsed_s", 0.0)
        self._spent: list[float] = []
        self._found: jobs.Survey

    def whole(self) -> Steps:
        """Everything that is left."""
        self._found = yield Step(job(jobs.survey, self._config))
        self._begin()
        try:
            yield from self._search()
            shortlist = self._shortlist()
            if shortlist:
                yield from self._validate(shortlist)
        except BaseException:
            self._study.record.set("elapsed_s", self._elapsed())  # the next go adds its own
            raise
        result = result_of(self._study, shortlist, self._elapsed())
        self._study.record.set("result", result)
        return result

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    def _begin(self) -> None:
        """Whether the study can go on with what was found."""
        jobs.same_version(self._found)
        self._check_setting()
        self._check_metrics()
        self._plan = plan(self._config.nr_samples, self._study.setting.record)
        self._watcher.begin(self._study, self._expected, len(self._done))

    def _check_metrics(self) -> None:
        """Find out before the first run whether every metric that the scorer reads will be there."""
        workload = self._found.workload
        if not workload.has_runtime and not math.isinf(self._study.scorer.max_slowdown):
            raise ConfigError(
                f"score '{self._config.scorer}' limits the slowdown, and '{workload.name}' runs for as long as it is"
                " told to; use --score psi, or --score sla with --limit on a --metric"
            )
        reported = {*runner.METRICS, *self._found.facts.get("metrics", ()), *workload.reports}
        for name in self._study.scorer.needs:
            if name not in reported:
                raise ConfigError(
                    f"score '{self._config.scorer}' needs the metric '{name}', which neither workload"
                    f" '{workload.name}' nor machine '{self._found.machine}' reports{nearest(name, reported)}"
                )

    def _check_setting(self) -> None:
        """What runs must be what the study began with; a study that begins writes it down."""
        workload = self._found.workload
        stored = self._study.record.get("setting")
        if stored is None:
            setting = Setting(
                workload_identity=workload.identity,
                variant=workload.variant,
                note=workload.note,
                params=space_of(self._config, workload.tuning).params,
                manual_us=workload.tuning.manual_us,
                facts=self._found.facts,
                commit=places.commit(),
                reports=tuple(workload.reports),
                record=self._can_record(),
            )
            self._study.record.set("setting", setting.to_json())
        elif stored["workload_identity"] != workload.identity:
            raise ConfigError(f"study '{self._study.name}' began with another '{workload.name}'; start a new study")
        else:
            self._check_kernel(stored["facts"], self._found.facts)

    def _can_record(self) -> bool:
        """Whether the search begins with a recording; without any words about it, where that can be had.

        Raises
        ------
        UnsupportedError : it was asked for and cannot be had
        """
        wanted = self._config.wants_record(space_of(self._config, self._found.workload.tuning))
        here = bool(self._found.facts.get("records"))
        if wanted and not here and self._config.prior == "record":
            raise UnsupportedError(f"--prior record: machine '{self._found.machine}' cannot record what DAMON sees")
        return wanted and here

    def _record(self, step: Run) -> _Part:
        """The run that is recorded, and what it lets the searcher expect."""
        study, workload = self._study, self._found.workload
        self._watcher.started(step, self._time_left())
        begun = time.monotonic()
        policy = RecordPolicy(self._config.operations)
        measurement, samples, recording, cost = yield Step(job(jobs.record, workload, policy, self._limit_s()), step)
        study.record.artifacts.write_samples(step.key, samples)
        records.write(recording, study.record.artifacts.path / records.FILE_NAME)
        param = study.space.params[0]
        prediction = Prediction.of(recording, cost, measurement.metric("runtime_s"), param.low, param.high)
        study.record.set("prediction", prediction.to_json())
        self._spent.append(time.monotonic() - begun)
        run = replace(step, measurement=measurement)
        self._done[run.key] = run
        study.record.add(run, None, study.space.params)
        self._watcher.finished(run, None)

    def _check_kernel(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Runs on different kernels cannot be compared within one study."""
        for name in ("kernel", "kernel_id"):
            if name in before and before[name] != now.get(name):
                raise ConfigError(
                    f"study '{self._study.name}' began on kernel {before[name]}, and machine '{self._found.machine}'"
                    f" has {now.get(name)} now; start a new study"
                )

    def _search(self) -> _Part:
        study, failures = self._study, 0
        for step in self._left(self._plan):
            if step.kind == "baseline":
                yield from self._execute(step, None, NonePolicy())
                continue
            if step.kind == "record":
                yield from self._record(step)
                continue
            earlier = [run for run in self._done.values() if run.index < step.index]
            point = study.searcher.ask(study.known(score_trials(earlier, study.scorer)))
            trial = yield from self._execute(step, point, study.policy(point))
            assert trial is not None
            failures = failures + 1 if trial.state == "fail" else 0
            if failures == MAX_FAILURES:
                raise TooManyFailures(f"{failures} trials failed in a row, the last one: {trial.error}")
            yield from self._baseline_beside(step)

    def _baseline_beside(self, step: Run) -> _Part:
        """A trial on a machine that has had no baseline yet (the one before was lost for good) gets one of its own."""
        here = self._done[step.key].host
        if here is not None and here not in {run.host for run in self._done.values() if run.kind == "baseline"}:
            self._watcher.say(f"study '{self._study.name}' goes on on {here}: a baseline of its own")
            own = Run(step.index, "baseline", OWN_BASELINES + step.number)
            yield from self._execute(own, None, NonePolicy())

    def _trial(self, step: Run) -> Trial:
        """A trial that has been done, as scored now."""
        history = score_trials(list(self._done.values()), self._study.scorer)
        return next(trial for trial in history if trial.number == step.number)

    def _shortlist(self) -> list[Params]:
        """The points to validate, best first; a second one that is the hand-made scheme is validated as that."""
        study = self._study
        history = study.known(score_trials(list(self._done.values()), study.scorer))
        if not any(trial.score.feasible for trial in history):
            return []
        first, *others = study.searcher.shortlist(history, self._config.candidates)
        return [first, *(point for point in others if study.policy(point) != study.manual_policy)]

    def _validate(self, shortlist: list[Params]) -> _Part:
        """The planned rounds, then those that can still change the decision."""
        study, planned = self._study, self._config.repeats
        arms: dict[str, tuple[Params | None, Policy]] = {
            verdict.BASELINE: (None, NonePolicy()),
            verdict.MANUAL: (study.manual, study.manual_policy),
        }
        for rank, point in enumerate(shortlist, start=1):
            arms[f"{verdict.CANDIDATE}{rank}"] = (point, study.policy(point))

        def run_round(number: int, names: Sequence[str]) -> _Part:
            for step in self._left(validation_round(number, names, len(self._plan) + number * len(arms))):
                yield from self._execute(step, *arms[step.arm])

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
        study = self._study
        runs = [run for run in self._done.values() if run.kind != "validation" or run.number < rounds]
        previous = feasible_scores(score_trials(runs, study.scorer))
        found, names = verdict.settle(verdict.rounds_of(runs), study.scorer, previous, self._config.repeats)
        return found, {name: raw for raw, name in names.items()}

    def _in_question(self, shortlist: list[Params], rounds: int) -> list[str]:
        """Arms between which the rounds so far could not decide, and more might; no arm gets more of them twice."""
        study = self._study
        found, raw_of = self._settled(rounds)
        best = shortlist[int(raw_of.get(verdict.TUNED, "1").removeprefix(verdict.CANDIDATE)) - 1]
        same_scheme = study.policy(best) == study.manual_policy
        asked = verdict.in_question(found, study.scorer.direction, MAX_EXTRA_ROUNDS, same_scheme)
        names = [raw_of.get(name, name) for name in asked]
        later = [run for run in self._done.values() if self._config.repeats <= run.number < rounds]
        had = {run.arm for run in later if run.kind == "validation"}
        return [] if set(names) <= had else names

    def _left(self, steps: list[Run]) -> list[Run]:
        return [step for step in steps if step.key not in self._done]

    def _execute(self, step: Run, point: Params | None, policy: Policy) -> Generator[Step, Any, Trial | None]:
        """Run one step and store what came of it, raw data first; a trial is returned with its score.

        A run without a scheme that fails is not stored: nothing can be judged without it, and a resumed study is to
        try it again.
        """
        asked = Run(step.index, step.kind, step.number, step.arm, point)
        self._watcher.started(asked, self._time_left())
        begun = time.monotonic()
        workload, error = self._found.workload, ""
        abort_s = self._abort_s() if step.kind == "trial" else None
        try:
            measurement, samples = yield Step(job(jobs.execute, workload, policy, self._limit_s(), abort_s), asked)
            for name in () if measurement.censored else self._study.scorer.needs:
                measurement.metric(name)
            self._study.record.artifacts.write_samples(step.key, samples)
        except (WorkloadError, MeasurementError) as failure:
            if point is None:
                raise type(failure)(f"without any scheme: {failure}") from None
            measurement, error = None, str(failure)
        self._spent.append(time.monotonic() - begun)
        run = Run(step.index, step.kind, step.number, step.arm, point, measurement, error)
        self._done[run.key] = run
        trial = self._trial(run) if run.kind == "trial" else None
        score = trial.score if trial else None
        self._study.record.add(run, score, self._study.space.params)
        self._watcher.finished(run, score)
        return trial

    def _baseline_runtimes(self) -> list[float]:
        done = [run for run in self._done.values() if run.kind == "baseline" and run.measurement]
        return [run.measurement.metric("runtime_s") for run in done if run.measurement]

    def _limit_s(self) -> float:
        if self._config.run_limit_s is not None:
            return self._config.run_limit_s
        known = self._baseline_runtimes()
        hangs_at = max(HANGS_MIN_S, HANGS_AT * max(known)) if known else math.inf
        return min(self._found.workload.tuning.limit_s, hangs_at)

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

    def _time_left(self) -> float | None:
        if not self._spent:
            return None
        return max(0, self._expected - len(self._done)) * sum(self._spent) / len(self._spent)
