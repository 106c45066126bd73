"""What a study is: its configuration, its space, its plan, and its trials as scored from raw runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from damoos import scorers, searchers
from damoos.damon.scheme import Attrs, Quotas
from damoos.damon.text import fill_template, parse_schemes
from damoos.errors import ConfigError, MeasurementError, nearest
from damoos.machines import catalog as machines
from damoos.machines.base import Machine
from damoos.model.space import Param, Params, Space, parse_param
from damoos.model.trial import History, Run, Score, Trial
from damoos.policies.base import DamosPolicy
from damoos.prediction.prior import Prediction, RecordedPrior, can_predict
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher, feasible, value
from damoos.statistics import verdict
from damoos.statistics.verdict import mean_measurement
from damoos.store.studies import StudyRecord
from damoos.units import format_us
from damoos.workloads import catalog as workloads
from damoos.workloads.base import LiveWorkload, Tuning, Workload

PRCL = "4K max  min min  MIN_AGE max  pageout"
BLOCK = 5
# Rounds of validation that may follow the planned ones, where they can change the decision.
MAX_EXTRA_ROUNDS = 3
QUOTA_RESET_MS = 1000
PRIORS = ("auto", "record", "none")
# A recording that takes the place of one of fewer trials than this leaves too few.
RECORD_FROM = 4
# Fewer blocks of a list give no interval to speak of.
MIN_BLOCKS = 3


@dataclass(frozen=True)
class StudyConfig:
    """Everything that makes two studies the same study. Plain values: it is stored as JSON.

    Parameters
    ----------
    workload, command : str or None
        A catalogue name (or file), or a command line.
    pid : int or None
        A process that runs on the machine already; exactly one of the three is given.
    metrics : sequence of str
        With ``pid``: ``qps=cmd:...`` and the like, see `damoos.workloads.catalog.reading`.
    unit_work_s, settle_s : float
        With ``pid``: length of a window, and what is discarded before each.
    machine : str
        Name or file.
    scheme : str
        Scheme text with placeholders, ``MIN_AGE`` for the tunable ``min_age``.
    tune : sequence of str
        ``min_age=low:high`` and others; empty for ``min_age`` over the workload's own range.
    operations : {"vaddr", "paddr"}
        Whether the scheme is put on the process tree or on all memory.
    nr_samples : int
        Number of trials.
    scorer : str
        Name, ``FILE.py:FUNCTION``, or the path of a program.
    scorer_options : dict
        Keyword arguments of the scorer.
    searcher : str
        Name, or ``optuna:NAME``.
    seed : int
        Of the searcher, or of the order in blocks.
    require_real : bool
        Whether a model of the workload is refused.
    repeats : int
        Rounds of validation that are always run.
    candidates : int
        How many of the best points are validated.
    run_limit_s : float or None
        A run that takes longer hangs; None for the workload's own limit.
    kernel : str or None
        Name of a guest's kernel; None for the one that its machine file says.
    prior : {"auto", "record", "none"}
        Whether the first of the trials is a recording that tells the searcher what to expect: where it can be had and
        is of use, always (or the study does not begin), or never.
    configs : dict
        Makes it a listed study: nothing is searched, and these configurations (`damoos.policies.named.resolve`) run in
        ``repeats`` blocks (`damoos.study.configurations`). Empty for a study that tunes.
    """

    workload: str | None
    command: str | None
    machine: str
    nr_samples: int
    scheme: str = PRCL
    tune: Sequence[str] = ()
    operations: str = "vaddr"
    scorer: str = "daos"
    scorer_options: dict[str, Any] = field(default_factory=dict)
    searcher: str = "auto"
    seed: int = 0
    repeats: int = 3
    candidates: int = 2
    run_limit_s: float | None = None
    require_real: bool = False
    kernel: str | None = None
    prior: str = "auto"
    pid: int | None = None
    metrics: Sequence[str] = ()
    unit_work_s: float = 10.0
    settle_s: float = 2.0
    configs: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        if [self.workload, self.command, self.pid].count(None) != 2:
            raise ConfigError("give either a workload, a command or a pid")
        if self.metrics and self.pid is None:
            raise ConfigError("--metric is for a running process (--pid); other workloads declare theirs in their file")
        if self.unit_work_s <= 0 or self.settle_s < 0:
            raise ConfigError(f"a window of {self.unit_work_s:g} s after {self.settle_s:g} s cannot be")
        if self.configs:
            self._refuse_listing()
        elif self.nr_samples < 2:
            raise ConfigError(f"{self.nr_samples} trials are too few; give 2 or more")
        if self.repeats < 2:
            raise ConfigError(f"{self.repeats} validation repeats give no interval; give 2 or more")
        if self.prior not in PRIORS:
            raise ConfigError(f"unknown prior '{self.prior}'{nearest(self.prior, PRIORS)}")
        if self.candidates < 1:
            raise ConfigError(f"{self.candidates} candidates leave nothing to validate; give 1 or more")

    def _refuse_listing(self) -> None:
        if self.pid is not None:
            raise ConfigError(
                f"pid {self.pid} runs for as long as it likes: its runtime says nothing of a configuration"
            )
        if self.repeats < MIN_BLOCKS:
            raise ConfigError(f"{self.repeats} repeats give no interval to speak of; give {MIN_BLOCKS} or more")

    @property
    def nr_steps(self) -> int:
        """How many runs are counted as its progress: trials, or those of its list."""
        return len(self.configs) * self.repeats if self.configs else self.nr_samples

    @property
    def nr_runs(self) -> int:
        """Runs of all kinds, close calls aside."""
        if self.configs:
            return self.nr_steps
        return len(plan(self.nr_samples)) + self.repeats * (2 + self.candidates)

    @property
    def target(self) -> str:
        """What is tuned, in the user's own words."""
        return self.workload or self.command or f"pid {self.pid}"

    @property
    def label(self) -> str:
        """What the study's name starts with."""
        if self.workload:
            stem, chosen = workloads.split(self.workload)
            what = (Path(stem).stem if stem.endswith(".toml") else stem) + (f"-{chosen}" if chosen else "")
        else:
            what = self._own().name
        where = Path(self.machine).stem
        return f"{what}-{where}" + (f"-{self.kernel}" if self.kernel else "")

    def workload_on(self, which: workloads.Which) -> Workload:
        """The workload as a machine can run it; ``which`` finds a program there."""
        if self.workload:
            return workloads.workload(self.workload, which, self.require_real)
        return self._own()

    def machine_for(self) -> Machine:
        """The machine, with what the workload needs on it if it is one of our own."""
        machine = machines.machine(self.machine, self.kernel)
        if self.workload:
            wanted = workloads.wanted(self.workload)
            machine.provide(wanted.packages, wanted.trees)
        return machine

    def _own(self) -> Workload:
        """The user's own command or process."""
        if self.pid is None:
            return workloads.command(self.command or "", Tuning())
        readings = [workloads.reading(text) for text in self.metrics]
        return LiveWorkload(self.pid, readings, self.settle_s, Tuning(unit_work_s=self.unit_work_s))

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        scorers.scorer(self.scorer, self.scorer_options)
        machines.machine(self.machine, self.kernel)
        if self.workload:
            workloads.find(self.workload)
        else:
            self._own()
        if self.configs:
            return
        space = space_of(self, Tuning())
        searchers.searcher(self.searcher, space, self.nr_samples, self.seed)
        for corner in space.corners:
            policy_of(self, space, corner)
        self.wants_record(space)

    def wants_record(self, space: Space) -> bool:
        """Whether the search is to begin with a recording, as far as it can be told without the machine.

        Raises
        ------
        ConfigError : one is asked for and would be of no use
        """
        if self.prior == "none":
            return False
        why = ""
        if self.searcher != "auto":
            why = f"searcher '{self.searcher}' takes no prior; 'auto' does"
        elif self.pid is not None:
            why = "a running process has no runtime to predict"
        elif self.operations != "vaddr":
            why = f"operations '{self.operations}' see more than the workload's memory; 'vaddr' sees that"
        elif not can_predict(space, scorers.scorer(self.scorer, self.scorer_options)):
            why = "a recording predicts min_age of a pageout scheme, for a score of runtime and RSS"
        if why and self.prior == "record":
            raise ConfigError(f"--prior record: {why}")
        return not why and (self.nr_samples >= RECORD_FROM or self.prior == "record")


def plain(config: Any) -> dict[str, Any]:
    """A configuration as it comes back from the store, with lists for tuples, so that the two can be compared."""
    form: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return form


def space_of(config: StudyConfig, tuning: Tuning) -> Space:
    """The space of a study: the ranges asked for, or the workload's own, in steps of DAMON's aggregation interval."""
    step = Attrs().aggr_us
    if isinstance(config.tune, str):
        raise ConfigError(f"tune is a list: ['{config.tune}']")
    params = [parse_param(text, step) for text in config.tune]
    return Space(config.scheme, tuple(params) or (Param("min_age", "us", tuning.low_us, tuning.high_us, step),))


def policy_of(config: StudyConfig, space: Space, point: Params) -> DamosPolicy:
    """The schemes of one point; a tuned quota belongs to each of them."""
    schemes = parse_schemes(fill_template(space.template, space.texts(point)))
    quotas = space.quotas(point)
    if quotas:
        limits = Quotas(quotas.get("time_ms", 0), quotas.get("sz_bytes", 0), QUOTA_RESET_MS)
        schemes = tuple(replace(scheme, quotas=limits) for scheme in schemes)
    return DamosPolicy(schemes, config.operations)


def manual_policy(min_age_us: int, operations: str) -> DamosPolicy:
    """The hand-made scheme: the paper's prcl."""
    return DamosPolicy(parse_schemes(fill_template(PRCL, {"MIN_AGE": format_us(min_age_us)})), operations)


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
    reports: tuple[str, ...] = ()
    record: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Setting:
        """Read what `to_json` wrote."""
        params = tuple(Param(**param) for param in form["params"])
        return cls(**{**form, "params": params, "reports": tuple(form.get("reports", ()))})


def plan(nr_samples: int, record: bool = False) -> list[Run]:
    """Every run of a search in order: two baselines, then trials in blocks with a baseline behind each.

    Two at the start, because one tells nothing of the noise. A recording takes the place of the first trial.
    """
    block = min(BLOCK, math.ceil(nr_samples / 2))
    steps = [("baseline", 0), ("baseline", 1)]
    for number in range(nr_samples):
        steps.append(("record", 0) if record and number == 0 else ("trial", number - record))
        if (number + 1) % block == 0 or number + 1 == nr_samples:
            steps.append(("baseline", len(steps) - number - 1))
    return [Run(index, kind, number) for index, (kind, number) in enumerate(steps)]


def validation_round(number: int, arms: Sequence[str], first_index: int) -> list[Run]:
    """The runs of one round; the arms change places, so that none always follows the same one."""
    turn = number % len(arms)
    order = [*arms[turn:], *arms[:turn]]
    return [Run(first_index + number * len(arms) + n, "validation", number, arm) for n, arm in enumerate(order)]


def score_trials(runs: list[Run], scorer: Scorer) -> History:
    """Trials with their scores, from raw runs alone.

    Each trial is judged against the baselines on both sides of it that ran on the same machine as it did, or against
    the one before where the other has not been run yet. Only for as long as its machine has had none is it judged
    against another's.
    """
    runs = sorted(runs, key=lambda run: run.index)
    baselines = [run for run in runs if run.kind == "baseline" and run.measurement]
    trials: list[Trial] = []
    previous: list[float] = []
    for run in (one for one in runs if one.kind == "trial"):
        state, score, error = "fail", Score(None, feasible=False), run.error
        if run.measurement and run.measurement.censored:
            state, error = "censored", f"stopped: runtime >= {run.measurement.metric('elapsed_s'):.2f} s"
        elif run.measurement:
            own = [one for one in baselines if one.host == run.host] or baselines
            before = [one for one in own if one.index < run.index][-1:]
            after = [one for one in own if one.index >= run.index][:1]
            beside = [one.measurement for one in before + after if one.measurement]
            try:
                score = scorer.score(run.measurement, mean_measurement(beside), previous)
                state = "complete"
            except MeasurementError as failure:
                error = str(failure)
            if score.feasible and score.value is not None:
                previous.append(score.value)
        trials.append(Trial(run.number, run.params or {}, state, score, run.measurement, error))
    return tuple(trials)


def feasible_scores(history: History) -> list[float]:
    """Scores of the trials that kept the limits, in order."""
    return [value(trial) for trial in feasible(history)]


def oriented(history: History, direction: str) -> History:
    """The history as searchers want it: higher is better."""
    if direction == "maximize":
        return history

    def turned(score: Score) -> Score:
        return score if score.value is None else replace(score, value=-score.value)

    return tuple(replace(trial, score=turned(trial.score)) for trial in history)


class Study:
    """A study in its store."""

    def __init__(self, record: StudyRecord) -> None:
        self.record = record
        self.name = record.name
        self.config = StudyConfig(**record.config)
        self._prior: RecordedPrior | None = None

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer; ConfigError if a file that it came from is gone."""
        return scorers.scorer(self.config.scorer, self.config.scorer_options)

    @cached_property
    def setting(self) -> Setting:
        """What the study found on its machine, read once; ConfigError before its first run."""
        form = self.record.get("setting")
        if form is None:
            raise ConfigError(f"study '{self.name}' has not reached its machine yet; damoos resume {self.name}")
        return Setting.from_json(form)

    @cached_property
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
        return manual_policy(self.setting.manual_us, self.config.operations)

    @property
    def searcher(self) -> Searcher:
        """The searcher, with what a recording lets it expect as soon as there is one."""
        self._searcher.prior = self.prior
        return self._searcher

    @cached_property
    def _searcher(self) -> Searcher:
        """Kept, because some are quicker when they are asked again."""
        return searchers.searcher(self.config.searcher, self.space, self.config.nr_samples, self.config.seed)

    @property
    def prior(self) -> RecordedPrior | None:
        """What a recording lets one expect, from the baselines before the first trial; None where there is none."""
        if self._prior is None and self.setting.record and (form := self.record.get("prediction")):
            first = [run.measurement for run in self.runs() if run.kind == "baseline" and run.number < 2]
            baseline = mean_measurement([one for one in first if one])
            self._prior = RecordedPrior(Prediction.from_json(form), baseline, self.scorer)
        return self._prior

    def runs(self) -> list[Run]:
        """Finished runs in the order of the plan."""
        return sorted(self.record.runs().values(), key=lambda run: run.index)

    def trials(self) -> History:
        """Finished trials with their scores, and with intervals as soon as repeated runs tell the noise."""
        runs = self.runs()
        history = score_trials(runs, self.scorer)
        noise = verdict.scheme_noise(verdict.rounds_of(runs), self.scorer, feasible_scores(history))
        if noise is None:
            return history
        return tuple(
            replace(trial, interval=noise.around(trial.score.value))
            if trial.score.feasible and trial.score.value is not None
            else trial
            for trial in history
        )

    def known(self, history: History) -> History:
        """What the searcher is shown of a history."""
        return oriented(history, self.scorer.direction)

    def estimate(self, points: Sequence[Params]) -> list[float] | None:
        """The searcher's idea of the score at some points; None where it has none."""
        history = self.known(self.trials())
        if not any(trial.score.feasible for trial in history):
            return None
        found = self.searcher.estimate(history, points)
        sign = 1 if self.scorer.direction == "maximize" else -1
        return None if found is None else [sign * one for one in found]

    def deviation(self, points: Sequence[Params]) -> list[float] | None:
        """How far the scores may lie from the estimate, as standard deviations; None where the searcher has no idea."""
        history = self.known(self.trials())
        return self.searcher.deviation(history, points) if any(trial.score.feasible for trial in history) else None

    def policy(self, point: Params) -> DamosPolicy:
        """The schemes of one point."""
        return policy_of(self.config, self.space, point)
