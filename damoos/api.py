"""The public Python interface: `tune`, `sweep`, `load_study`, `load_recording`, and what they return."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos import scorers
from damoos.conduct import Watcher, conduct
from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.errors import ConfigError
from damoos.result import write
from damoos.store.studies import Store
from damoos.study import Study, StudyConfig, plain

if TYPE_CHECKING:
    import pandas as pd

    from damoos.drive import Event
    from damoos.records.recording import Recording
    from damoos.sweeps import Sweep, SweepConfig

RESULTS = Path("results")


class TunedStudy:
    """A study for people at a Python prompt.

    Parameters
    ----------
    study : Study
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.name = study.name

    @property
    def result(self) -> dict[str, Any]:
        """What ``damoos tune --format json`` prints; empty while the study is unfinished."""
        return self.study.record.result or {}

    @property
    def best(self) -> dict[str, Any] | None:
        """Recommended ``params``, the ``scheme`` as text and as damo's JSON; None if there is none."""
        return self.result.get("recommended")

    def damo(self, pid: int | None = None) -> dict[str, Any]:
        """The recommended scheme as a document that ``damo start`` takes.

        Parameters
        ----------
        pid : int or None
            The process to watch; a scheme for a process (vaddr) cannot start without one.

        Raises
        ------
        ConfigError : no recommendation, or no pid where one is needed
        """
        if self.best is None:
            raise ConfigError(f"study '{self.name}' has no recommended scheme")
        context = context_from_json(self.best["damo"])
        if pid is None and context.operations != "paddr":
            raise ConfigError("a scheme for a process needs its pid for 'damo start': give --pid")
        return context_to_json(context, pid)

    @property
    def trials_df(self) -> pd.DataFrame:
        """One row per trial: number, state, feasible, score, parameters and metrics, units in the column names."""
        import pandas as pd

        rows = [
            {
                "number": trial.number,
                "state": trial.state,
                "feasible": trial.score.feasible,
                "score": trial.score.value,
                "score_low": None if trial.interval is None else trial.interval[0],
                "score_high": None if trial.interval is None else trial.interval[1],
                **self.study.space.readable(trial.params),
                **(trial.measurement.metrics if trial.measurement else {}),
            }
            for trial in self.study.trials()
        ]
        return pd.DataFrame(rows)

    @property
    def param_names(self) -> list[str]:
        """Columns of `trials_df` that hold the tuned parameters."""
        return [param.key for param in self.study.space.params]

    def plot(self) -> list[Path]:
        """Draw the study like the paper's Figure 5; returns the PNG and the SVG file."""
        from damoos.report.tuning import draw

        return draw(self.study)

    def __repr__(self) -> str:
        """The result as text."""
        if self.study.config.configs and self.result:
            from damoos.normalised import evaluation
            from damoos.report.configs import text

            return text({"machines": evaluation([self.result]), "failures": []}, [self.result])
        from damoos.report.text import summary

        return summary(self.result) if self.result else f"study {self.name}: unfinished"


def tune(
    workload: str | None = None,
    *,
    command: str | None = None,
    pid: int | None = None,
    machine: str = "guest",
    trials: int = 10,
    results: Path = RESULTS,
    storage: str | None = None,
    watcher: Watcher | None = None,
    **settings: Any,
) -> TunedStudy:
    """Tune a scheme for a workload on a machine; goes on with an unfinished study of the same words.

    Parameters
    ----------
    workload, command : str
        A catalogue name or file, or a command line.
    pid : int
        A process that runs on the machine already and is not restarted; ``metrics`` says how its performance is read.
    machine : str
    trials : int
    results : Path
        Folder of stores and raw data.
    storage : str or None
        Optuna storage URL.
    **settings
        Further fields of `damoos.study.StudyConfig`.

    Raises
    ------
    DamoosError : see `damoos.errors`
    """
    if "scorer" in settings:
        settings["scorer"] = scorers.absolute(settings["scorer"])
    config = StudyConfig(workload=workload, command=command, pid=pid, machine=machine, nr_samples=trials, **settings)
    config.check()
    store = Store(results, storage)
    form = plain(config)
    record = store.unfinished(form)
    if record is None:
        now = datetime.now(UTC).isoformat()
        direction = scorers.scorer(config.scorer, config.scorer_options).direction
        record = store.create(config.label, form, direction, now)
    return _run(Study(record), watcher)


def load_study(name: str, *, results: Path = RESULTS, storage: str | None = None) -> TunedStudy:
    """A stored study."""
    return TunedStudy(Study(Store(results, storage).load(name)))


def load_recording(name: str | Path, *, results: Path = RESULTS) -> Recording:
    """A recording of memory accesses, for the functions of `damoos.records`.

    Parameters
    ----------
    name : str or Path
        A file of damoos's or of damo's, a recording's folder, or the name of one in the results folder.
    results : Path

    Raises
    ------
    ConfigError : no such recording, or not one
    """
    from damoos.records import damo

    return damo.read(damo.find(name, results))


def resume(
    name: str, *, results: Path = RESULTS, storage: str | None = None, watcher: Watcher | None = None
) -> TunedStudy:
    """Do what is left of a stored study."""
    return _run(Study(Store(results, storage).load(name)), watcher)


def sweep(
    workloads: Sequence[str],
    machines: Sequence[str],
    *,
    trials: int = 10,
    ray: str | None = None,
    results: Path = RESULTS,
    storage: str | None = None,
    event: Event | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Tune every workload on every machine, on as many at once as there are.

    Goes on with an unfinished sweep of the same words, and tries again what failed in it.

    Parameters
    ----------
    workloads, machines : sequence of str
        Names, files, or patterns such as ``splash2x/*``.
    trials : int
        Trials of each study.
    ray : str or None
        Address of a Ray cluster, or ``auto``; None for this process alone.
    event : callable or None
        Told of each thing that happens, see `damoos.drive.drive`.
    **settings
        Further fields of `damoos.study.StudyConfig`.

    Returns
    -------
    dict
        ``sweep, studies, machines, failures, cost``; a study each as a row (`load_study` has the rest).
    """
    from damoos.sweeps import Sweep

    config = sweep_config(workloads, machines, trials, **settings)
    config.check()
    found = Sweep.unfinished(results, config, storage) or Sweep.create(results, config, storage)
    return drive_sweep(found, ray, event)


def sweep_config(workloads: Sequence[str], machines: Sequence[str], trials: int, **settings: Any) -> SweepConfig:
    """What a sweep is asked to do, with all patterns resolved."""
    from damoos.machines import catalog as known_machines
    from damoos.sweeps import SweepConfig, expand
    from damoos.workloads import catalog as known_workloads

    return SweepConfig(
        expand(workloads, known_workloads.names(), "--workloads"),
        expand(machines, known_machines.names(), "--machines"),
        trials,
        settings,
    )


def drive_sweep(found: Sweep, ray: str | None = None, event: Event | None = None) -> dict[str, Any]:
    """Do what is left of a sweep, here or on a Ray cluster."""
    from damoos.drive import drive

    def say(text: str) -> None:
        if event:
            event("say", {"study": "", "text": text})

    if ray is None:
        from damoos.dispatch.local import LocalDispatcher

        dispatcher: Any = LocalDispatcher(say)
    else:
        from damoos.dispatch.ray import RayDispatcher

        dispatcher = RayDispatcher(ray, say)
    try:
        return drive(found, dispatcher, event or (lambda kind, said: None))
    finally:
        dispatcher.close()


def _run(study: Study, watcher: Watcher | None) -> TunedStudy:
    try:
        conduct(study, watcher)
    finally:
        result = study.record.result
        if result is not None:
            _write_results(study, result)
    return TunedStudy(study)


def _write_results(study: Study, result: dict[str, Any]) -> None:
    write(study, result)
    if study.config.configs:
        return
    from damoos.report.tuning import draw

    draw(study)
