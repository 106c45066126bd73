"""A study: its plan, its loop (ask, run, score, recommend, validate), and its result.

What is stored decides what is next, so an interrupted study goes on where it stopped and repeats nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from damoos import __version__, places, scorers, searchers, verdict
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Attrs
from damoos.damon.text import fill_template, parse_schemes
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
from damoos.model.space import Param, Params, Space, parse_param
from damoos.model.trial import History, Measurement, Run, Score, Trial
from damoos.policies.base import DamosPolicy, NonePolicy, Policy
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher
from damoos.store.studies import StudyRecord
from damoos.verdict import mean_measurement
from damoos.workloads import catalog as workloads
from damoos.workloads.base import Tuning, Workload

PRCL = "4K max  min min  MIN_AGE max  pageout"
BLOCK = 5
MAX_FAILURES = 3
# A run this much slower than its baseline hangs, whatever the scorer allows.
HANGS_AT = 4.0
HANGS_MIN_S = 30.0


@dataclass(frozen=True)
class StudyConfig:
    """Everything that makes two studies the same study. Plain values: it is stored as JSON.

    Parameters
    ----------
    workload, command : str or None
        A catalogue name (or file), or a command line; one of the two.
    scheme : str
        Scheme text with placeholders, ``MIN_AGE`` for the tunable ``min_age``.
    tune : str or None
        ``min_age=low:high``; None for the workload's own range.
    nr_samples : int
        Number of trials.
    repeats : int
        Rounds of validation.
    run_limit_s : float or None
        A run that takes longer hangs; None for the workload's own limit.
    """

    workload: str | None
    command: str | None
    machine: str
    nr_samples: int
    scheme: str = PRCL
    tune: str | None = None
    operations: str = "vaddr"
    scorer: str = "daos"
    searcher: str = "daos"
    seed: int = 0
    repeats: int = 3
    run_limit_s: float | None = None
    require_real: bool = False

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        if (self.workload is None) == (self.command is None):
            raise ConfigError("give either a workload or a command")
        if self.nr_samples < 2:
            raise ConfigError(f"{self.nr_samples} trials are too few; give 2 or more")
        if self.repeats < 2:
            raise ConfigError(f"{self.repeats} validation repeats give no interval; give 2 or more")

    @property
    def label(self) -> str:
        """What the study's name starts with."""
        if self.workload:
            what = Path(self.workload).stem if self.workload.endswith(".toml") else self.workload
        else:
            what = workloads.command(self.command or "", Tuning()).name
        return f"{what}-{Path(self.machine).stem}"

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        scorers.scorer(self.scorer)
        machines.machine(self.machine)
        if self.workload:
            workloads.find(self.workload)
        else:
            workloads.command(self.command or "", Tuning())
        space = space_of(self, Tuning())
        searchers.searcher(self.searcher, space, self.nr_samples, self.seed)
        policy_of(self, space, space.point(**{param.key: param.high for param in space.params}))


def space_of(config: StudyConfig, tuning: Tuning) -> Space:
    """The space of a study: the range asked for, or the workload's own, in steps of DAMON's aggregation interval."""
    step = Attrs().aggr_us
    if config.tune:
        param = parse_param(config.tune, step)
    else:
        param = Param("min_age", "us", tuning.low_us, tuning.high_us, step)
    return Space(config.scheme, (param,))


def policy_of(config: StudyConfig, space: Space, point: Params) -> DamosPolicy:
    """The schemes of one point."""
    schemes = parse_schemes(fill_template(space.template, space.texts(point)))
    return DamosPolicy(schemes, config.operations)


@dataclass(frozen=True)
class Setting:
    """What a study found out when it first reached its machine; stored, and the same ever after."""

    workload_identity: str
    variant: str
    note: str
    params: tuple[Param, ...]
    manual_us: int
    facts: dict[str, Any]
    commit: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Setting:
        """Read what `to_json` wrote."""
        return cls(**{**form, "params": tuple(Param(**param) for param in form["params"])})


def plan(nr_samples: int, repeats: int) -> list[Run]:
    """Every run of a study in order: trials in blocks with a baseline before, between and after; then validation.

    The arms of the validation change places from round to round, so that none always follows the same one.
    """
    block = min(BLOCK, math.ceil(nr_samples / 2))
    steps: list[tuple[str, int, str]] = []
    for number in range(nr_samples):
        if number % block == 0:
            steps.append(("baseline", number // block, ""))
        steps.append(("trial", number, ""))
    steps.append(("baseline", math.ceil(nr_samples / block), ""))
    for number in range(repeats):
        turn = number % len(verdict.ARMS)
        steps += [("validation", number, arm) for arm in verdict.ARMS[turn:] + verdict.ARMS[:turn]]
    return [Run(index, kind, number, arm) for index, (kind, number, arm) in enumerate(steps)]


def score_trials(runs: list[Run], scorer: Scorer) -> History:
    """Trials with their scores, from raw runs alone.

    Each trial is judged against the baselines on both sides of it, or against the one before where the other has
    not been run yet.
    """
    baselines = [run for run in runs if run.kind == "baseline" and run.measurement]
    trials: list[Trial] = []
    previous: list[float] = []
    for run in sorted((r for r in runs if r.kind == "trial"), key=lambda r: r.index):
        score = Score(None, feasible=False)
        if run.measurement:
            before = [one for one in baselines if one.index < run.index][-1:]
            after = [one for one in baselines if one.index > run.index][:1]
            beside = [one.measurement for one in before + after if one.measurement]
            score = scorer.score(run.measurement, mean_measurement(beside), previous)
            if score.feasible and score.value is not None:
                previous.append(score.value)
        state = "complete" if run.measurement else "fail"
        trials.append(Trial(run.number, run.params or {}, state, score, run.measurement, run.error))
    return tuple(trials)


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


class Study:
    """A study in its store."""

    def __init__(self, record: StudyRecord) -> None:
        self.record = record
        self.name = record.name
        self.config = StudyConfig(**record.config)
        self.scorer = scorers.scorer(self.config.scorer)

    @property
    def setting(self) -> Setting:
        """What the study found on its machine; ConfigError before its first run."""
        form = self.record.get("setting")
        if form is None:
            raise ConfigError(f"study '{self.name}' has not reached its machine yet; damoos resume {self.name}")
        return Setting.from_json(form)

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return Space(self.config.scheme, self.setting.params)

    @property
    def manual(self) -> Params:
        """The point of the hand-made scheme that the tuned one is compared with."""
        return self.space.point(**{param.key: self.setting.manual_us for param in self.space.params})

    @property
    def searcher(self) -> Searcher:
        """The searcher, which is a pure function and so can be had at any time."""
        return searchers.searcher(self.config.searcher, self.space, self.config.nr_samples, self.config.seed)

    def runs(self) -> list[Run]:
        """Finished runs in the order of the plan."""
        return sorted(self.record.runs().values(), key=lambda run: run.index)

    def trials(self) -> History:
        """Finished trials with their scores."""
        return score_trials(self.runs(), self.scorer)

    def policy(self, point: Params) -> DamosPolicy:
        """The schemes of one point."""
        return policy_of(self.config, self.space, point)

    def run(self, watcher: Watcher | None = None) -> dict[str, Any]:
        """Do all that is left of the study and return its result; ``recommended`` is None if nothing was feasible.

        Raises
        ------
        TooManyFailures : trials failed one after the other
        DamoosError : as the machine, the workload or the store has it
        """
        watcher = watcher or Watcher()
        if self.record.result is None:
            with self.record.writing():
                _Execution(self, watcher).whole()
        result = self.record.result
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
            self._check_machine(lease)
            workload = self._resolve(lease)
            self._watcher.begin(self._study, len(self._plan), len(self._done))
            try:
                self._search(lease, workload)
                best = self._recommended()
                if best is not None:
                    self._validate(lease, workload, best)
            finally:
                self._study.record.set("elapsed_s", self._elapsed())
        self._study.record.set("result", self._result(best))

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
        for scheme in parse_schemes(fill_template(self._config.scheme, {"MIN_AGE": "0"})):
            if scheme.action not in offered["actions"]:
                raise UnsupportedError(f"this kernel has no action '{scheme.action}'")

    def _resolve(self, lease: Lease) -> Workload:
        """The workload that this machine can run; it must be the one that the study began with."""
        config = self._config
        if config.workload:
            workload = workloads.workload(
                config.workload, lambda program: lease.call("which", program=program), config.require_real
            )
        else:
            workload = workloads.command(config.command or "", Tuning())
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
                run = self._execute(lease, workload, step, None, NonePolicy())
                if run.measurement is None:
                    raise WorkloadError(f"without any scheme: {run.error}")
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
        points: dict[str, Params | None] = {"baseline": None, "manual": self._study.manual, "tuned": best}
        for step in self._left("validation"):
            point = points[step.arm]
            policy: Policy = NonePolicy() if point is None else self._study.policy(point)
            self._execute(lease, workload, step, point, policy)

    def _left(self, *kinds: str) -> Iterator[Run]:
        return (step for step in self._plan if step.kind in kinds and step.key not in self._done)

    def _execute(self, lease: Lease, workload: Workload, step: Run, point: Params | None, policy: Policy) -> Run:
        """Run one step and store what came of it, raw data first."""
        self._watcher.started(Run(step.index, step.kind, step.number, step.arm, point), self._time_left())
        begun = time.monotonic()
        measurement, error = None, ""
        try:
            measurement, samples = lease.run(workload, policy, self._limit_s(workload))
            for name in self._study.scorer.needs:
                measurement.metric(name)
            self._study.record.artifacts.write_samples(step.key, samples)
        except (WorkloadError, MeasurementError) as failure:
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

    def _result(self, best: Params | None) -> dict[str, Any]:
        study, setting = self._study, self._study.setting
        validation = _validation(study) if best is not None else None
        facts = setting.facts
        return {
            "study": study.name,
            "workload": self._config.workload or self._config.command,
            "variant": setting.variant,
            "note": setting.note,
            "machine": {
                "name": self._config.machine,
                **{name: facts.get(name) for name in ("kernel", "accel", "clock", "vcpus", "mem_bytes", "swap", "thp")},
            },
            "searcher": self._config.searcher,
            "scorer": self._config.scorer,
            "seed": self._config.seed,
            "provenance": {
                **{name: facts.get(name) for name in ("emulation", "image", "cmdline")},
                "damoos": __version__,
                "commit": setting.commit,
            },
            "baselines": [
                {"number": run.number, "metrics": dict(run.measurement.metrics)}
                for run in study.runs()
                if run.kind == "baseline" and run.measurement
            ],
            "drift": _drift(study.runs()),
            "trials": [_trial_json(trial) for trial in study.trials()],
            "recommended": None if best is None else _scheme_json(study, best),
            "manual": _scheme_json(study, study.manual),
            **(
                validation
                or {"validation": None, "verdict": "baseline", "verdict_text": "no trial kept the score's limits"}
            ),
            "elapsed_s": self._elapsed(),
        }


def _trial_json(trial: Trial) -> dict[str, Any]:
    total = [one.as_dict() for one in trial.measurement.damos] if trial.measurement else []
    return {
        "number": trial.number,
        "params": dict(trial.params),
        "state": trial.state,
        "feasible": trial.score.feasible,
        "score": trial.score.value,
        "metrics": dict(trial.measurement.metrics) if trial.measurement else {},
        "damos": {
            name: sum(one[name] for one in total)
            for name in ("nr_tried", "sz_tried_bytes", "nr_applied", "sz_applied_bytes")
        },
        "error": trial.error,
    }


def _drift(runs: list[Run]) -> dict[str, float]:
    """Spread of the interleaved baselines, (max - min) / mean, of what the score is made of."""
    found = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]

    def spread(name: str) -> float:
        values = [one.metric(name) for one in found]
        return (max(values) - min(values)) / (sum(values) / len(values))

    return {name: spread(name) for name in ("runtime_s", "rss_avg_bytes")}


def _scheme_json(study: Study, point: Params) -> dict[str, Any]:
    policy = study.policy(point)
    return {
        "params": dict(point),
        "scheme": "\n".join(str(scheme) for scheme in policy.schemes),
        "damo": context_to_json(policy.context),
    }


def _validation(study: Study) -> dict[str, Any]:
    rounds: list[dict[str, Measurement]] = [{} for _ in range(study.config.repeats)]
    for run in study.runs():
        if run.kind == "validation" and run.measurement:
            rounds[run.number][run.arm] = run.measurement
    previous = [t.score.value for t in study.trials() if t.score.feasible and t.score.value is not None]
    if not all("baseline" in one for one in rounds):
        raise WorkloadError("a baseline of the validation failed, so nothing can be compared")
    found = verdict.arms(rounds, study.scorer, previous)
    said = verdict.judge(found, study.scorer.direction)
    table = {}
    for name, arm in found.items():
        mean = mean_measurement(arm.runs)
        table[name] = {
            "score": arm.score,
            "score_ci95": list(arm.interval),
            "scores": list(arm.scores),
            "feasible": arm.feasible,
            "runtime_s": mean.metric("runtime_s"),
            "rss_avg_bytes": mean.metric("rss_avg_bytes"),
            "net_avg_bytes": mean.metric("net_avg_bytes"),
            "repeats": len(arm.runs),
        }
    return {"validation": table, "verdict": said.best, "verdict_text": said.text}
