"""What a study is: its configuration, its space, its plan, and its trials as scored from raw runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from damoos import scorers, searchers
from damoos.damon.scheme import Attrs, Quotas, parse_schemes
from damoos.damon.text import fill_template
from damoos.errors import ConfigError, nearest
from damoos.machines import catalog as machines
from damoos.machines.base import Machine
from damoos.model.space import Param, Params, Space, parse_param
from damoos.policies.base import DamosPolicy
from damoos.prediction.prior import can_predict
from damoos.study.plan import plan
from damoos.units import format_us
from damoos.workloads import catalog as workloads
from damoos.workloads.base import LiveWorkload, Tuning, Workload

PRCL = "4K max  min min  MIN_AGE max  pageout"
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
