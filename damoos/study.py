"""What a study is: its configuration, its space, its plan, and its trials as scored from raw runs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from damoos import scorers, searchers, verdict
from damoos.damon.scheme import Attrs
from damoos.damon.text import fill_template, parse_schemes
from damoos.errors import ConfigError
from damoos.machines import catalog as machines
from damoos.model.space import Param, Params, Space, parse_param
from damoos.model.trial import History, Run, Score, Trial
from damoos.policies.base import DamosPolicy
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher
from damoos.store.studies import StudyRecord
from damoos.units import format_us
from damoos.verdict import mean_measurement
from damoos.workloads import catalog as workloads
from damoos.workloads.base import Tuning, Workload

PRCL = "4K max  min min  MIN_AGE max  pageout"
BLOCK = 5


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
            what = self._command().name
        return f"{what}-{Path(self.machine).stem}"

    def workload_on(self, which: workloads.Which) -> Workload:
        """The workload as a machine can run it; ``which`` finds a program there."""
        if self.workload:
            return workloads.workload(self.workload, which, self.require_real)
        return self._command()

    def _command(self) -> Workload:
        return workloads.command(self.command or "", Tuning())

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        scorers.scorer(self.scorer)
        machines.machine(self.machine)
        if self.workload:
            workloads.find(self.workload)
        else:
            self._command()
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


class Study:
    """A study in its store."""

    def __init__(self, record: StudyRecord) -> None:
        self.record = record
        self.name = record.name
        self.config = StudyConfig(**record.config)
        self.scorer = scorers.scorer(self.config.scorer)

    @cached_property
    def setting(self) -> Setting:
        """What the study found on its machine, read once; ConfigError before its first run."""
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
        """``min_age`` of the hand-made scheme, whatever is tuned here."""
        return {"min_age_us": self.setting.manual_us}

    @property
    def manual_policy(self) -> DamosPolicy:
        """The hand-made scheme that the tuned one is compared with: the paper's prcl."""
        text = fill_template(PRCL, {"MIN_AGE": format_us(self.setting.manual_us)})
        return DamosPolicy(parse_schemes(text), self.config.operations)

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
