"""What a study would be, before anything is started for it: what runs, where, what is searched, how long it takes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from damoos.errors import DamoosError
from damoos.machines import catalog as machines
from damoos.model.space import Param
from damoos.scorers.base import Scorer
from damoos.store.studies import Store
from damoos.study.config import StudyConfig, space_of
from damoos.study.plan import plan
from damoos.study.run_config import plain
from damoos.study.study import open_study, with_configs
from damoos.words.studies import DAMOS
from damoos.workloads import catalog as workloads
from damoos.workloads.base import Tuning

_SAME_PLACE = ("workload", "command", "machine", "kernel")


@dataclass(frozen=True)
class RunTime:
    """How long one run of the workload takes, as far as it is known.

    Parameters
    ----------
    source : str
        Where that is from: a study's name, or ``itself`` for the workload file's ``unit_work``.
    seconds : float
    """

    source: str
    seconds: float


@dataclass(frozen=True)
class Outline:
    """What a study would be.

    Parameters
    ----------
    workload, machine : str
        Each with its description.
    policy : str
        The scheme with its placeholders, or names of policies.
    params : tuple of Param
        What is searched.
    score : str
    limits : tuple of str
    searcher : str
    baselines, trials : int
    least_runs, most_runs : int
        Of all kinds: with a verdict that is clear as soon as it can be, and with all rounds of the validation.
    run_times : tuple of RunTime
        Empty where nothing is known.
    goes_on : str or None
        The unfinished study of the same words that would be continued.
    done : int
        How many runs of that are done.
    """

    workload: str
    machine: str
    policy: str
    params: tuple[Param, ...]
    score: str
    limits: tuple[str, ...]
    searcher: str
    baselines: int
    trials: int
    least_runs: int
    most_runs: int
    run_times: tuple[RunTime, ...]
    goes_on: str | None
    done: int

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return asdict(self)


def outline(config: StudyConfig, store: Store | None, new: bool = False) -> Outline:
    """What a study would be.

    Parameters
    ----------
    config : StudyConfig
    store : Store or None
        Whose studies tell how long a run takes, and whether one of the same words is there; None if there are none.
    new : bool
        Whether a new study begins in any case.

    Raises
    ------
    DamoosError : what the study would fail with before it starts anything
    """
    config.check()
    scorer = config.make_scorer()
    file = workloads.find(config.workload)[1] if config.workload else None
    tuning = file.tune.tuning() if file else Tuning()
    kinds = [run.kind for run in plan(config.nr_trials)]
    unfinished = None if new or store is None else store.unfinished(plain(config))
    machine = machines.machine(config.machine, config.kernel)
    described = f"{config.machine}: {machine.describe()}".rstrip(": ")
    return Outline(
        workload=config.target if file is None else f"{config.target}: {file.description}",
        machine=described + (f"; kernel {config.kernel}" if config.kernel else ""),
        policy=config.scheme if config.policy == DAMOS else ", ".join(config.policies),
        params=space_of(config, tuning).params,
        score=f"{config.scorer} ({scorer.unit}; {scorer.direction})",
        limits=_limits(config, scorer),
        searcher=config.searcher,
        baselines=kinds.count("baseline"),
        trials=config.nr_trials,
        least_runs=config.nr_runs,
        most_runs=min(config.runs or math.inf, len(kinds) + config.repeats * config.nr_arms),  # type: ignore[arg-type]
        run_times=_measured(config, store) or _expected(config, file),
        goes_on=unfinished.name if unfinished else None,
        done=len(unfinished.runs()) if unfinished else 0,
    )


def _limits(config: StudyConfig, scorer: Scorer) -> tuple[str, ...]:
    """Limits that the user gave, else that on the slowdown which the score has by itself."""
    given = tuple(config.limits) or tuple(config.scorer_options.get("limits", ()))
    most = scorer.max_slowdown
    return given or (() if math.isinf(most) else (f"slowdown<={most:g}",))


def _measured(config: StudyConfig, store: Store | None) -> tuple[RunTime, ...]:
    """What the newest study of the workload on this machine measured; empty where there is none."""
    if store is None or config.pid is not None:
        return ()
    begun = [study for study in store.listed()[0] if study.nr_done]
    for listed, other in reversed(with_configs(begun)[0]):
        same = all(
            getattr(other, name) == getattr(config, name) for name in ("workload", "command", "machine", "kernel")
        )
        if same:
            try:
                runs = open_study(store.load(listed.name)).runs()
                base = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]
                took = [measurement.metric("runtime_s") for measurement in base]
            except DamoosError:  # another person's, which cannot be read or has a baseline without a runtime
                continue
            if took:
                return (RunTime(listed.name, float(np.mean(took))),)
    return ()


def _expected(config: StudyConfig, file: workloads.WorkloadFile | None) -> tuple[RunTime, ...]:
    """What the workload's file says, or the windows of a running process; empty for a command."""
    if config.pid is not None:
        return (RunTime("a window", config.unit_work_s + config.settle_s),)
    if file is None:
        return ()
    return (RunTime("itself", file.tune.tuning().unit_work_s),)
