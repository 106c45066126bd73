"""Studies for people at a Python prompt: one workload on one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from damoos.words import PYTHON, Words, word
from damoos.words.studies import KernelWords, TuneWords

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


@dataclass(frozen=True, kw_only=True)
class ConfigWords(KernelWords, TuneWords):
    """The words of a study in Python, beside how it is conducted."""

    score_options: Mapping[str, Any] | None = word(None, "What a score of a plugin takes besides.", PYTHON)


@dataclass(frozen=True, kw_only=True)
class ConductWords(Words):
    """Who is told how a study goes."""

    progress: Callable[[Progress], object] | None = word(
        None, "Called with a `damoos.Progress` at the end of each run.", PYTHON
    )
    watcher: Watcher | None = word(
        None,
        "Told all that happens, in the place of ``progress``; None for a progress bar in a notebook. The loggers"
        " ``damoos.study.NAME`` tell the same.", PYTHON,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TuneCall(ConductWords, ConfigWords):
    """All words of `tune`."""


@words.takes(TuneCall)
def tune(said: TuneCall) -> TunedStudy:
    """Tune a policy for a workload on a machine; goes on with an unfinished study of the same words.

    Returns
    -------
    TunedStudy

    Raises
    ------
    ConfigError : a word is not valid
    DamoosError : see `damoos.errors`
    """
    watcher = _watcher(said.progress, said.watcher)
    return tuned(config_of(said), said.results, said.storage, watcher, new=said.new)


@words.takes(ConfigWords)
def study_config(said: ConfigWords) -> StudyConfig:
    """What a study is asked to do."""
    return config_of(said)


def config_of(said: TuneWords, kernel: str | None = None) -> StudyConfig:
    """What a study is asked to do, by its words.

    Raises
    ------
    ConfigError : they do not fit together
    """
    machine = said.machine or ("guest" if said.pid is None else "local")
    fields = words.study_fields(said) | words.timing(said)
    return StudyConfig(**fields | {"machine": machine} | ({} if kernel is None else {"kernel": kernel}))


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
