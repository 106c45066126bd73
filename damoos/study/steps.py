"""One go at a study, of whatever kind: what it finds on its machine, a run at a time, everything stored as it ends.

A study does nothing on a machine by itself: it yields jobs, and whoever drives it says what came of them. So one
process can drive many studies, wherever their machines are.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from damoos.common import paths
from damoos.dispatch.base import Job, job
from damoos.errors import ConfigError, DamoosError, MeasurementError, UnsupportedError, WorkloadError
from damoos.machines.base import Conditions
from damoos.model.space import Param
from damoos.model.trial import Measurement, RawSamples, Run, Score
from damoos.policies.base import Policy
from damoos.study import jobs
from damoos.study.study import EvaluationStudy, Setting, Study
from damoos.units import show_bytes

# A run this much slower than its baseline hangs, whatever the scorer allows.
HANGS_AT = 4.0
HANGS_MIN_S = 30.0
# Kernels keep a little more or less of a machine's memory for themselves from one boot to the next.
SAME_MEMORY = 0.01
# How often the time of a study is stored while it goes on.
KEEP_TIME_EVERY_S = 10.0
ANEW = "start a new study (--new)"


def _text(value: Any) -> str:
    """A condition as its file has it."""
    return "none" if value is None else json.dumps(value)


def peak_of(measurement: Measurement) -> float:
    """The most memory that a run had charged at a time, in bytes.

    Raises
    ------
    UnsupportedError : the machine does not say
    """
    if "memory_max_bytes" not in measurement.metrics:
        raise UnsupportedError(
            "the machine does not say how much memory the workload takes at its peak (memory.peak of cgroup v2, Linux"
            " 5.19 and later), so --memory cannot be a share of it; give sizes"
        )
    return measurement.metric("memory_max_bytes")


class Watcher:
    """Told how a study goes; this one tells nobody."""

    def say(self, text: str) -> None:
        """A line of news."""

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """The study starts, or goes on with ``done`` of ``total`` runs finished."""

    def skipped(self, nr_runs: int) -> None:
        """So many of the runs that ``begin`` has told of are not needed."""

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
Part = Generator[Step, Any, None]


class Execution(ABC):
    """One go at a study, from wherever it stands to its end. What is stored decides what is next."""

    def __init__(self, study: Study | EvaluationStudy, watcher: Watcher, expected: int) -> None:
        self._study = study
        self._watcher = watcher
        self._config = study.config
        self._done = study.record.runs()
        self._expected = expected
        self._started = time.monotonic()
        self._elapsed_before: float = study.record.get("elapsed_s", 0.0)
        self._kept_s = self._elapsed_before
        self._spent: list[float] = []
        self._found: jobs.Survey

    @abstractmethod
    def _work(self) -> Part:
        """Every run that is left."""

    @abstractmethod
    def _result(self, elapsed_s: float) -> dict[str, Any]:
        """What the study has come to."""

    @abstractmethod
    def _is_baseline(self, run: Run) -> bool:
        """Whether a run tells how long the workload takes when it is left alone."""

    def whole(self) -> Steps:
        """Everything that is left."""
        self._found = yield Step(job(jobs.survey, self._config))
        self._begin()
        try:
            yield from self._work()
        except BaseException:
            self._study.record.set("elapsed_s", self._elapsed())  # the next go adds its own
            raise
        result = self._result(self._elapsed())
        self._study.record.set("result", result)
        return result

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    def _begin(self) -> None:
        """Whether the study can go on with what was found."""
        jobs.same_version(self._found)
        self._check_setting()
        self._check_metrics()
        self._watcher.begin(self._study, self._expected, len(self._done))

    @abstractmethod
    def _check_metrics(self) -> None:
        """Find out before the first run whether what is read of a run will be there."""

    def _check_setting(self) -> None:
        """What runs must be what the study began with; a study that begins writes it down."""
        workload = self._found.workload
        stored = self._study.record.get("setting")
        if stored is None:
            setting = Setting(
                workload_identity=workload.identity,
                variant=workload.variant,
                note=workload.note,
                params=self._params(),
                manual_us=workload.tuning.manual_us,
                facts=self._found.facts,
                commit=paths.commit(),
                reports=tuple(workload.reports),
                record=self._can_record(),
                has_runtime=workload.has_runtime,
                like=self._like(workload.variant),
            )
            self._study.record.set("setting", setting.to_json())
        elif stored["workload_identity"] != workload.identity:
            raise ConfigError(f"study '{self._study.name}' began with another version of '{workload.name}'; {ANEW}")
        else:
            self._check_machine(stored["facts"], self._found.facts)

    def _params(self) -> tuple[Param, ...]:
        """What is tuned; nothing where nothing is searched."""
        return ()

    def _can_record(self) -> bool:
        """Whether the study begins with a recording."""
        return False

    def _like(self, variant: str) -> tuple[str, ...]:
        """Names of finished studies that tell what to expect, of the same variant of the workload."""
        known = self._study.record.get("experiences") or []
        return tuple(fields["study"] for fields in known if fields["variant"] == variant)

    def _check_machine(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Runs on different kernels, or under other conditions, cannot be compared within one study."""
        began, here = f"study '{self._study.name}' began", f"machine '{self._found.machine}'"
        for name in ("kernel", "kernel_id"):
            if name in before and before[name] != now.get(name):
                raise ConfigError(f"{began} on kernel {before[name]}, and {here} has {now.get(name)} now; {ANEW}")
        for name in ("accel", "clock", "vcpus", *Conditions.model_fields):
            if name in before and before[name] != now.get(name):
                raise ConfigError(f"{began} with {name} {_text(before[name])}, and {here} has {_text(now.get(name))}"
                                  f" now; put that back, or {ANEW}")  # fmt: skip
        mem_bytes, now_bytes = before.get("mem_bytes"), now.get("mem_bytes")
        if mem_bytes and now_bytes and abs(now_bytes / mem_bytes - 1) > SAME_MEMORY:
            raise ConfigError(
                f"{began} with {show_bytes(mem_bytes)} of memory, and {here} has {show_bytes(now_bytes)} now; put that"
                f" back, or {ANEW}"
            )

    def _skip(self, nr_runs: int) -> None:
        """Expect fewer runs than at the beginning."""
        self._expected -= nr_runs
        self._watcher.skipped(nr_runs)

    def _left(self, steps: list[Run]) -> list[Run]:
        return [step for step in steps if step.key not in self._done]

    def _execute(
        self, asked: Run, policy: Policy, must_succeed: bool, abort_s: float | None = None
    ) -> Generator[Step, Any, Run]:
        """Run a policy once and store what came of it.

        A run that must succeed and fails is not stored: nothing can be judged without it, and a resumed study tries it
        again.
        """

        def keep(measurement: Measurement, samples: RawSamples) -> Measurement:
            for name in () if measurement.censored else self._needs():
                measurement.metric(name)
            self._study.record.artifacts.write_samples(asked.key, samples)
            return measurement

        def fail(error: DamoosError) -> None:
            if isinstance(error, UnsupportedError) and (must_succeed or not self._tolerates_unsupported):
                raise error
            if must_succeed:
                raise type(error)(f"without any scheme: {error}") from None

        work = job(jobs.execute, self._found.workload, self._limited(policy), self._limit_s(), abort_s)
        return (yield from self._do(asked, work, keep, fail))

    @property
    def _tolerates_unsupported(self) -> bool:
        """Whether a run that the machine cannot do is a failed one, and not the end of the study."""
        return False

    def _limited(self, policy: Policy) -> Policy:
        """The policy with the limit of memory that all runs have, if there is one."""
        return policy

    def _do(
        self,
        asked: Run,
        work: Job,
        keep: Callable[..., Measurement],
        fail: Callable[[DamoosError], None],
    ) -> Generator[Step, Any, Run]:
        """Have the job of a run done and store the run.

        Parameters
        ----------
        keep : callable
            Takes what the job returned, stores its raw data, and returns the measurement.
        fail : callable
            Takes the error of a job that failed, and raises where the study cannot go on with a failed run.
        """
        self._watcher.started(asked, self._time_left())
        begun = time.monotonic()
        measurement, error = None, ""
        try:
            measurement = keep(*(yield Step(work, asked)))
        except (WorkloadError, MeasurementError, UnsupportedError) as failure:
            fail(failure)
            error = str(failure)
        self._spent.append(time.monotonic() - begun)
        run = replace(asked, measurement=measurement, error=error)
        self._done[run.key] = run
        self._watcher.finished(run, self._store(run))
        self._keep_time()
        return run

    def _keep_time(self) -> None:
        """Store the time so far every now and then, so that it counts whatever ends this go."""
        elapsed_s = self._elapsed()
        if elapsed_s - self._kept_s >= KEEP_TIME_EVERY_S:
            self._study.record.set("elapsed_s", elapsed_s)
            self._kept_s = elapsed_s

    def _store(self, run: Run) -> Score | None:
        """Store a finished run; returns its score, if it has one."""
        self._study.record.add(run)
        return None

    @abstractmethod
    def _needs(self) -> tuple[str, ...]:
        """Metrics without which a run has failed."""

    def _baseline_runtimes(self) -> list[float]:
        done: list[Measurement | None] = [run.measurement for run in self._done.values() if self._is_baseline(run)]
        return [measurement.metric("runtime_s") for measurement in done if measurement]

    def _limit_s(self) -> float:
        if self._config.run_limit_s is not None:
            return self._config.run_limit_s
        known = self._baseline_runtimes()
        hangs_at = max(HANGS_MIN_S, HANGS_AT * max(known)) if known else math.inf
        return min(self._found.workload.tuning.limit_s, hangs_at)

    def _time_left(self) -> float | None:
        if not self._spent:
            return None
        return max(0, self._expected - len(self._done)) * sum(self._spent) / len(self._spent)
