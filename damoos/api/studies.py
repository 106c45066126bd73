"""Studies for people at a Python prompt: one workload on one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.common import html
from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError, MeasurementError, nearest
from damoos.model.space import Params
from damoos.model.trial import Trial
from damoos.policies.base import DamosPolicy
from damoos.report import notebook
from damoos.store.studies import Store
from damoos.study.conduct import conduct
from damoos.study.config import StudyConfig
from damoos.study.damage import names_damage
from damoos.study.experience import experiences
from damoos.study.frontier import Prospect, frontier, prospect
from damoos.study.progress import Progress, Reported
from damoos.study.proof import proof
from damoos.study.result import write
from damoos.study.run_config import plain
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, StoredStudy, Study, open_study

if TYPE_CHECKING:
    import pandas as pd


RESULTS: Path = Path("results")


class _StoredStudy:
    """What a study that tunes and one that compares configurations have in common: a result, and runs."""

    def __init__(self, study: StoredStudy) -> None:
        self._stored = study
        self.name = study.name

    @property
    def result(self) -> dict[str, Any]:
        """What ``--format json`` prints; empty while the study is unfinished."""
        return self._stored.record.result or {}

    @property
    @names_damage
    def runs_df(self) -> pd.DataFrame:
        """One row per run of any kind, baselines and validation too: its name, kind, parameters, metrics, error.

        ``run`` is what `samples` takes; ``arm`` tells the runs of a validation apart, and those of configurations.
        """
        import pandas as pd

        rows = [
            {
                "run": run.key,
                "kind": run.kind,
                "number": run.number,
                "arm": run.arm,
                **(run.params or {}),
                "censored": bool(run.measurement and run.measurement.censored),
                **(run.measurement.metrics if run.measurement else {}),
                "error": run.error,
            }
            for run in self._stored.runs()
        ]
        return pd.DataFrame(rows)

    def samples(self, run: str) -> pd.DataFrame:
        """The time series of one run: ``t_s`` since it began, ``rss_bytes``, and more; units in the column names.

        Parameters
        ----------
        run : str
            A name of the column ``run`` of `runs_df`: ``trial-000``, ``validation-001-baseline``.

        Raises
        ------
        ConfigError : no such run, or nothing was measured of it
        """
        known = {stored_run.key: stored_run for stored_run in self._stored.runs()}
        if run not in known:
            raise ConfigError(f"study '{self.name}' has no run '{run}'{nearest(run, known)}")
        artifacts = self._stored.record.artifacts
        found = artifacts.read_samples(run)
        if found is None:
            why = f": {known[run].error}" if known[run].error else ""
            raise ConfigError(f"{artifacts.samples_path(run)} is not there{why}")
        return found


class EvaluatedStudy(_StoredStudy):
    """A study that compares configurations, for people at a Python prompt.

    Parameters
    ----------
    study : EvaluationStudy
    """

    def __init__(self, study: EvaluationStudy) -> None:
        super().__init__(study)
        self.study = study

    @names_damage
    def __repr__(self) -> str:
        """The result as text."""
        if not self.result:
            return f"study {self.name}: unfinished"
        from damoos.comparison.configurations import evaluation
        from damoos.report.comparison.configurations import text

        return text({"machines": evaluation([self.result]), "failures": []}, [self.result])

    @names_damage
    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return html.section(f"study {self.name}", html.pre(repr(self)))


class TunedStudy(_StoredStudy):
    """A study for people at a Python prompt.

    Parameters
    ----------
    study : Study
    """

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.study = study

    @property
    def best(self) -> dict[str, Any] | None:
        """Recommended ``params``, the ``scheme`` as text and as damo's JSON; None if there is none."""
        return self.result.get("recommended")

    @names_damage
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
        if self.best["damo"] is None:
            raise ConfigError(f"study '{self.name}' recommends '{self.best['scheme']}', which is no scheme for damo")
        return _damo(context_from_json(self.best["damo"]), pid)

    @names_damage
    def damo_of(self, point: Params, pid: int | None = None) -> dict[str, Any]:
        """The scheme of any point of the study's space as such a document; see `damo`."""
        policy = self.study.policy(point)
        if not isinstance(policy, DamosPolicy):
            raise ConfigError(f"'{policy.text}' is no scheme for damo")
        return _damo(policy.context, pid)

    @property
    @names_damage
    def trials(self) -> list[Trial]:
        """Finished trials with their scores."""
        return list(self.study.trials())

    @property
    @names_damage
    def trials_df(self) -> pd.DataFrame:
        """One row per trial: number, state, feasible, score, margin, parameters, metrics; units in the names."""
        import pandas as pd

        rows = [
            {
                "number": trial.number,
                "state": trial.state,
                "feasible": trial.score.feasible,
                "score": trial.score.value,
                "score_low": None if trial.interval is None else trial.interval[0],
                "score_high": None if trial.interval is None else trial.interval[1],
                "margin": trial.score.margin,
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

    @names_damage
    def prospect(self, *limits: str) -> Prospect | None:
        """What the study expects to be best under other limits; see `damoos.study.frontier.prospect`."""
        return prospect(self.study, limits)

    @names_damage
    def plot(self) -> list[Path]:
        """Draw the study like the paper's Figure 5; returns the PNG and the SVG file."""
        from damoos.report.study.tuning import draw

        return draw(self.study)

    @names_damage
    def __repr__(self) -> str:
        """The result as text."""
        from damoos.report.study.text import summary

        if not self.result:
            return f"study {self.name}: unfinished"
        return "\n".join(filter(None, [summary(self.result), self._expected()]))

    def _expected(self) -> str:
        """What the runs let one expect by the slowdown that is allowed; if they lack a metric for that, which one."""
        from damoos.report.study import frontier as curve

        try:
            return curve.text(self.study, frontier(self.study))
        except (MeasurementError, ConfigError) as error:
            return f"what to expect by the slowdown that is allowed is not known: {error}"

    @names_damage
    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        if not self.result:
            return html.section(f"study {self.name}", html.pre(repr(self)))
        from damoos.report.study.text import to_html

        return to_html(self.result, self.trials_df)


def _damo(context: Context, pid: int | None) -> dict[str, Any]:
    """A document for ``damo start``; ConfigError where it needs a pid and has none."""
    if pid is None and context.operations != "paddr":
        raise ConfigError("a scheme for a process needs its pid for 'damo start': give --pid")
    return context_to_json(context, pid)


@words.checked
def tune(
    workload: str | None = None,
    *,
    command: str | None = None,
    pid: int | None = None,
    metrics: Sequence[str] = (),
    machine: str = "guest",
    kernel: str | None = None,
    memory: str | None = None,
    write_limit: str | None = None,
    policy: str = "damos",
    scheme: str | None = None,
    tune: Sequence[str] = (),
    operations: str = "vaddr",
    score: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    limits: Sequence[str] = (),
    weights: Sequence[str] = (),
    prices: str | None = None,
    score_options: Mapping[str, Any] | None = None,
    trials: int | None = None,
    time_limit: str | None = None,
    unit_work: str | None = None,
    searcher: str = "auto",
    prior: str = "auto",
    like: Sequence[str] = (),
    seed: int = 0,
    repeats: int = 6,
    candidates: int = 3,
    runs: int | None = None,
    run_limit: str | None = None,
    settle: str | None = None,
    require_real: bool = False,
    new: bool = False,
    results: Path = RESULTS,
    storage: str | None = None,
    progress: Callable[[Progress], object] | None = None,
    watcher: Watcher | None = None,
) -> TunedStudy:
    """Tune a policy for a workload on a machine; goes on with an unfinished study of the same words.

    The words are those of ``damoos tune``, which explains each of them.

    Parameters
    ----------
    workload, command : str or None
        A catalogue name or file, or a command line.
    pid : int or None
        A process that runs on the machine already and is not restarted.
    metrics : sequence of str
        With ``pid``, how its performance is read: ``qps=cmd:PROGRAM``, ``qps=file:PATH``, ``qps=http://HOST/#json.path``.
    machine, kernel : str
        Name or file; name of a guest's kernel.
    memory : str or None
        Limit of the memory of each run, baselines too: ``512M``, ``60%`` of the peak, ``high:60%``.
    write_limit : str or None
        What a run under a policy may write to swap, bytes a second: ``1M``.
    policy : str
        ``damos``, whose scheme is tuned, or a name of docs/policies.md; several with commas, or ``any``.
    scheme : str or None
        Scheme text or file with placeholders; None for ``prcl``.
    tune : sequence of str
        Ranges and choices: ``min_age=0s:60s``.
    operations : {"vaddr", "paddr"}
        The process tree, or all memory.
    score : str or None
        ``daos``, ``sla``, ``weighted``, ``cost``, ``psi``, ``FILE.py:FUNCTION`` or a program. None for ``daos``; with
        ``pid`` for ``sla`` where there are limits, else ``psi``.
    maximize, minimize, limits, weights, prices
        What the score takes: ``limits=["slowdown<=0.05"]``, ``weights=["memory_saving=0.7"]``, a file of prices.
    score_options : mapping or None
        What a score of a plugin takes besides.
    trials : int or None
        The most trials; None for 10.
    time_limit, unit_work : str or None
        Time for all trials, and of one run; with ``pid``, of each window (10s).
    searcher, prior : str
        Who searches, and what tells it what to expect.
    like : sequence of str
        Finished studies that do.
    seed : int
        Of the searcher.
    repeats, candidates : int
        The most rounds of validation, and the most points that are validated.
    runs : int or None
        The most runs of all kinds.
    run_limit, settle : str or None
        A run that takes longer hangs (``5m``); with ``pid``, time that is discarded after each change (2s).
    require_real : bool
        Whether a model of the workload is refused.
    new : bool
        Whether a new study begins where an unfinished one of the same words is there.
    results : Path
        Folder of stores and raw data.
    storage : str or None
        Optuna storage URL.
    progress : callable or None
        Called with a `damoos.Progress` at the end of each run.
    watcher : Watcher or None
        Told all that happens, in the place of ``progress``; None for a progress bar in a notebook. The loggers
        ``damoos.study.NAME`` tell the same.

    Returns
    -------
    TunedStudy

    Raises
    ------
    ConfigError : a word is not valid
    DamoosError : see `damoos.errors`
    """
    # Everything but how the study is conducted is a word of it.
    given = {name: value for name, value in locals().items() if name not in _CONDUCT}
    return tuned(study_config(**given), results, storage, _watcher(progress, watcher), new=new)


_CONDUCT = ("new", "results", "storage", "progress", "watcher")


def study_config(
    workload: str | None = None,
    *,
    pid: int | None = None,
    scheme: str | None = None,
    score: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    limits: Sequence[str] = (),
    weights: Sequence[str] = (),
    prices: str | None = None,
    score_options: Mapping[str, Any] | None = None,
    trials: int | None = None,
    time_limit: str | None = None,
    unit_work: str | None = None,
    run_limit: str | None = None,
    settle: str | None = None,
    **more: Any,
) -> StudyConfig:
    """What a study is asked to do; parameters as of `tune`."""
    scored = words.scoring(
        score,
        pid,
        maximize=maximize,
        minimize=minimize,
        limits=limits,
        weights=weights,
        prices=prices,
        more=score_options,
    )
    timed = words.timing(
        workload=workload, pid=pid, trials=trials, time_limit=time_limit, unit_work=unit_work, run_limit=run_limit,
        settle=settle,
    )  # fmt: skip
    return StudyConfig(workload=workload, pid=pid, scheme=words.scheme(scheme), **scored, **timed, **more)


def tuned(
    config: StudyConfig, results: Path, storage: str | None = None, watcher: Watcher | None = None, new: bool = False
) -> TunedStudy:
    """A new study, or the unfinished one of the same words, when all of it is done; parameters as of `tune`."""
    config.check()
    store = Store(results, storage)
    stored_config = plain(config)
    record = None if new else store.unfinished(stored_config)
    is_new = record is None
    if record is None:
        now = datetime.now(UTC).isoformat()
        known = [experience.to_json() for experience in experiences(store, config)]
        record = store.create(
            config.label, stored_config, config.direction, now,
            lambda begun: begun.set("experiences", known) if known else None,
        )  # fmt: skip
    study = Study(record)
    study.load_scorer(is_named_by_user=True)
    try:
        run(study, watcher)
    except BaseException:
        if is_new and record.get("setting") is None:  # it never reached its machine: there is nothing to go on with
            store.discard(record.name)
        raise
    return TunedStudy(study)


def _watcher(progress: Callable[[Progress], object] | None, watcher: Watcher | None) -> Watcher | None:
    if progress is None:
        return watcher
    if watcher is not None:
        raise ConfigError("give either progress or watcher")
    return Reported(progress)


@words.checked
def validate(
    name: str,
    limits: Sequence[str],
    *,
    repeats: int = 6,
    candidates: int = 3,
    results: Path = RESULTS,
    storage: str | None = None,
    progress: Callable[[Progress], object] | None = None,
    watcher: Watcher | None = None,
) -> TunedStudy:
    """Validate on fresh runs what a finished study tells under other limits; a study of its own.

    Parameters
    ----------
    name : str
        Of the finished study.
    limits : sequence of str
        For example ``slowdown<=0.05``; in place of the score's own on the same terms.
    repeats, candidates, results, storage, progress, watcher
        As for `tune`.

    Raises
    ------
    DamoosError : see `damoos.errors`
    """
    study = proof(Store.existing(results, storage, name), name, limits, repeats, candidates)
    run(study, _watcher(progress, watcher))
    return TunedStudy(study)


@words.checked
def load_study(name: str, *, results: Path = RESULTS, storage: str | None = None) -> TunedStudy | EvaluatedStudy:
    """A stored study."""
    return shown(open_study(Store.existing(results, storage, name).load(name)))


def shown(study: Study | EvaluationStudy) -> TunedStudy | EvaluatedStudy:
    """A study in its form for people at a Python prompt."""
    return TunedStudy(study) if isinstance(study, Study) else EvaluatedStudy(study)


@words.checked
def resume(
    name: str,
    *,
    results: Path = RESULTS,
    storage: str | None = None,
    progress: Callable[[Progress], object] | None = None,
    watcher: Watcher | None = None,
) -> TunedStudy | EvaluatedStudy:
    """Do what is left of a stored study; parameters as of `tune`."""
    study = open_study(Store.existing(results, storage, name).load(name))
    run(study, _watcher(progress, watcher))
    return shown(study)


def run(study: Study | EvaluationStudy, watcher: Watcher | None) -> None:
    """Do what is left of a study, and write its files where it is finished."""
    try:
        with notebook.watching(watcher) as active_watcher:
            conduct(study, active_watcher)
    finally:
        if result := study.record.result:
            write(study, result)
            if isinstance(study, Study):
                from damoos.report.study.tuning import draw

                draw(study)
