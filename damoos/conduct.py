"""Doing a study: ask, run, score, recommend, validate.

What is stored decides what is next, so an interrupted study goes on where it stopped and repeats nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from damoos import places
from damoos.dispatch.local import Lease
from damoos.errors import (
    ConfigError,
    MeasurementError,
    TooManyFailures,
    UnsupportedError,
    WorkloadError,
    nearest,
)
from damoos.machines import catalog as machines
from damoos.model.space import Params
from damoos.model.trial import Run, Score
from damoos.policies.base import NonePolicy, Policy
from damoos.result import result_of
from damoos.study import Setting, Study, plan, score_trials, space_of
from damoos.workloads.base import Workload

MAX_FAILURES = 3
# A run this much slower than its baseline hangs, whatever the scorer allows.
HANGS_AT = 4.0
HANGS_MIN_S = 30.0


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


def conduct(study: Study, watcher: Watcher | None = None) -> dict[str, Any]:
    """Do all that is left of a study and return its result; ``recommended`` is None if nothing was feasible.

    Raises
    ------
    TooManyFailures : trials failed one after the other
    DamoosError : as the machine, the workload or the store has it
    """
    if study.record.result is None:
        with study.record.writing():
            _Execution(study, watcher or Watcher()).whole()
    result = study.record.result
    assert result is not None
    return result


class _Execution:
    """One go at a study, from wherever it stands to its end."""

    def __init__(self, study: Study, watcher: Watcher) -> None:
        self._study = study
        self._watcher = watcher
        self._config = study.config
        self._done = study.record.runs()
        self._plan = plan(self._config.nr_samples, self._config.repeats)
        self._started = time.monotonic()
        self._elapsed_before: float = study.record.get("elapsed_s", 0.0)
        self._spent: list[float] = []

    def whole(self) -> None:
        """Everything that is left."""
        machine = machines.machine(self._config.machine)
        with Lease(machine, self._watcher.say) as lease:
            workload = self._resolve(lease)
            self._check_machine(lease)
            self._watcher.begin(self._study, len(self._plan), len(self._done))
            try:
                self._search(lease, workload)
                best = self._recommended()
                if best is not None:
                    self._validate(lease, workload, best)
            finally:
                self._study.record.set("elapsed_s", self._elapsed())
        self._study.record.set("result", result_of(self._study, best, self._elapsed()))

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    def _check_machine(self, lease: Lease) -> None:
        """Find out before the first run whether the machine can do what the study will ask of it."""
        offered = lease.call("probe")
        if not offered:
            raise UnsupportedError(f"machine '{lease.machine.name}': its kernel has no DAMON; machine 'guest' does")
        if self._config.operations not in offered["operations"]:
            raise UnsupportedError(
                f"operations '{self._config.operations}'{nearest(self._config.operations, offered['operations'])}"
            )
        space = self._study.space
        highest = space.point(**{param.key: param.high for param in space.params})
        for scheme in self._study.policy(highest).schemes:
            if scheme.action not in offered["actions"]:
                raise UnsupportedError(f"this kernel has no action '{scheme.action}'")

    def _resolve(self, lease: Lease) -> Workload:
        """The workload that this machine can run; it must be the one that the study began with."""
        config = self._config
        workload = config.workload_on(lambda program: lease.call("which", program=program))
        stored = self._study.record.get("setting")
        if stored is None:
            setting = Setting(
                workload_identity=workload.identity,
                variant=workload.variant,
                note=workload.note,
                params=space_of(config, workload.tuning).params,
                manual_us=workload.tuning.manual_us,
                facts={
                    **lease.facts,
                    "swap": lease.machine.setting.get("swap"),
                    "thp": lease.machine.setting.get("thp"),
                },
                commit=places.commit(),
            )
            self._study.record.set("setting", setting.to_json())
        elif stored["workload_identity"] != workload.identity:
            raise ConfigError(f"study '{self._study.name}' began with another '{workload.name}'; start a new study")
        return workload

    def _search(self, lease: Lease, workload: Workload) -> None:
        failures = 0
        for step in self._left("baseline", "trial"):
            if step.kind == "baseline":
                self._execute(lease, workload, step, None, NonePolicy())
                continue
            history = score_trials([r for r in self._done.values() if r.index < step.index], self._study.scorer)
            point = self._study.searcher.ask(history)
            run = self._execute(lease, workload, step, point, self._study.policy(point))
            failures = 0 if run.measurement else failures + 1
            if failures == MAX_FAILURES:
                raise TooManyFailures(f"{failures} trials failed in a row, the last one: {run.error}")

    def _recommended(self) -> Params | None:
        history = self._study.trials()
        if not any(trial.score.feasible for trial in history):
            return None
        return self._study.searcher.recommend(history)

    def _validate(self, lease: Lease, workload: Workload, best: Params) -> None:
        study = self._study
        arms: dict[str, tuple[Params | None, Policy]] = {
            "baseline": (None, NonePolicy()),
            "manual": (study.manual, study.manual_policy),
            "tuned": (best, study.policy(best)),
        }
        for step in self._left("validation"):
            self._execute(lease, workload, step, *arms[step.arm])

    def _left(self, *kinds: str) -> Iterator[Run]:
        return (step for step in self._plan if step.kind in kinds and step.key not in self._done)

    def _execute(self, lease: Lease, workload: Workload, step: Run, point: Params | None, policy: Policy) -> Run:
        """Run one step and store what came of it, raw data first.

        A run without a scheme that fails is not stored: nothing can be judged without it, and a resumed study is to
        try it again.
        """
        self._watcher.started(Run(step.index, step.kind, step.number, step.arm, point), self._time_left())
        begun = time.monotonic()
        measurement, error = None, ""
        try:
            measurement, samples = lease.run(workload, policy, self._limit_s(workload))
            for name in self._study.scorer.needs:
                measurement.metric(name)
            self._study.record.artifacts.write_samples(step.key, samples)
        except (WorkloadError, MeasurementError) as failure:
            if point is None:
                raise type(failure)(f"without any scheme: {failure}") from None
            measurement, error = None, str(failure)
        self._spent.append(time.monotonic() - begun)
        run = Run(step.index, step.kind, step.number, step.arm, point, measurement, error)
        self._done[run.key] = run
        score = None
        if run.kind == "trial":
            score = score_trials(list(self._done.values()), self._study.scorer)[-1].score
        self._study.record.add(run, score, self._study.space.params)
        self._watcher.finished(run, score)
        return run

    def _limit_s(self, workload: Workload) -> float:
        if self._config.run_limit_s is not None:
            return self._config.run_limit_s
        known = [
            r.measurement.metric("runtime_s") for r in self._done.values() if r.kind == "baseline" and r.measurement
        ]
        hangs_at = max(HANGS_MIN_S, HANGS_AT * max(known)) if known else math.inf
        return min(workload.tuning.limit_s, hangs_at)

    def _time_left(self) -> float | None:
        if not self._spent:
            return None
        return (len(self._plan) - len(self._done)) * sum(self._spent) / len(self._spent)
