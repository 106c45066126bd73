"""The public Python interface to what stands side by side: `evaluate`, `compare` (manual, tuned), `league`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.api.studies import RESULTS
from damoos.api.sweeps import EventWords, driven, sweep_config
from damoos.comparison import fleet_plan as planning
from damoos.comparison import league as comparison
from damoos.comparison import manual_tuned
from damoos.comparison.configurations import evaluation, rows
from damoos.errors import ConfigError
from damoos.policies import named
from damoos.scorers.cost import Prices
from damoos.store.artifacts import SHARED, Artifacts
from damoos.store.studies import Store, slug
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.protection import protecting
from damoos.study.study import EvaluationStudy, Study
from damoos.sweeps import sweep as sweeps
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.events import Event
from damoos.sweeps.sweep import Sweep
from damoos.words import shared
from damoos.words.studies import EvaluateWords, KernelWords, LeagueWords

if TYPE_CHECKING:
    import pandas as pd

    from damoos.prediction.forecast import Size


class Evaluated:
    """What configurations have come to on workloads and machines.

    Parameters
    ----------
    sweep : Sweep
        Of listed studies, those of which count that have finished.

    Raises
    ------
    MeasurementError : none has
    """

    def __init__(self, sweep: Sweep) -> None:
        self.name = sweep.name
        self.artifacts = sweep.artifacts
        looked = (sweep.look(sweep.study_name(config)) for config in sweep.config.configs())
        self._studies = [EvaluationStudy(record) for record in looked if record and record.result]
        self.studies = [study.record.result or {} for study in self._studies]
        failures = (sweep.result or {}).get("failures", [])
        self.result = {"sweep": self.name, "machines": evaluation(self.studies), "failures": failures}

    @property
    def table(self) -> pd.DataFrame:
        """One row per machine, workload and configuration; units in the column names."""
        import pandas as pd

        return pd.DataFrame(rows(self.studies))

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run: machine, workload, block, configuration, the metrics, and the error of one that failed."""
        import pandas as pd

        return pd.DataFrame(
            {
                "machine": study.config.machine,
                "workload": study.config.target,
                "block": run.number,
                "config": run.arm,
                **(run.measurement.metrics if run.measurement else {}),
                "error": run.error,
            }
            for study in self._studies
            for run in study.runs()
        )

    def write(self) -> list[Path]:
        """Write JSON, CSV and figures into the sweep's folder; returns their paths.

        There is a figure for each machine and, of several machines, one for each workload and configuration.
        """
        from damoos.report.comparison import configurations, over_time

        written = configurations.write(self.result, self.studies, self.artifacts)
        return [*written, *over_time.write(self._studies, self.artifacts)]

    def to_json(self) -> str:
        """All of it as one JSON object."""
        return json.dumps({**self.result, "studies": self.studies})

    def __repr__(self) -> str:
        """The tables as text."""
        from damoos.report.comparison.configurations import text

        return text(self.result, self.studies)

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        from damoos.report.comparison.configurations import to_html

        return to_html(self.result, self.studies)


class Compared:
    """The manual and the tuned schemes of finished studies.

    Parameters
    ----------
    studies : sequence of Study
    """

    def __init__(self, studies: Sequence[Study]) -> None:
        self.result = manual_tuned.compare(studies)

    @property
    def table(self) -> pd.DataFrame:
        """One row per study and scheme, and per machine and scheme for the averages; units in the column names."""
        import pandas as pd

        return pd.DataFrame(manual_tuned.rows(self.result))

    def write(self, folder: Path) -> list[Path]:
        """Write JSON, CSV and a figure for each machine; returns their paths."""
        from damoos.report.comparison.manual_tuned import write

        return write(self.result, Artifacts(folder))

    def __repr__(self) -> str:
        """The tables as text."""
        from damoos.report.comparison.manual_tuned import text

        return text(self.result)

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        from damoos.report.comparison.manual_tuned import to_html

        return to_html(self.result)


@dataclass(frozen=True, kw_only=True)
class EvaluateCall(EventWords, KernelWords, EvaluateWords):
    """All words of `evaluate`."""


@words.takes(EvaluateCall)
def evaluate(said: EvaluateCall) -> Evaluated:
    """Run every workload under every configuration on every machine, the DAOS paper's six by default.

    Goes on with an unfinished evaluation of the same words, and tries again what failed in it.

    Returns
    -------
    Evaluated
        ``table`` and ``runs`` are tidy frames.
    """
    return Evaluated(driven(evaluation_config(said), said, said.event))


class League:
    """What several policies save at a bounded slowdown, on many workloads.

    Parameters
    ----------
    sweep : Sweep
        Of the studies of `StudyConfig.league`, those of which count that have finished.

    Raises
    ------
    ConfigError : none has
    """

    def __init__(self, sweep: Sweep) -> None:
        self.name = sweep.name
        self.artifacts = sweep.artifacts
        studies = manual_tuned.studies_of(sweep)
        self.entries = [comparison.entry(study) for study in studies if study.record.result]
        self.result = comparison.table(self.entries)

    @property
    def table(self) -> pd.DataFrame:
        """One row per validated point of a policy and limit of the slowdown; units in the column names."""
        import pandas as pd

        return pd.DataFrame(comparison.rows(self.entries))

    def write(self) -> list[Path]:
        """Write JSON, CSV and figures into the sweep's folder; returns their paths."""
        from damoos.report.comparison import league as report

        return report.write(self.entries, self.artifacts)

    def __repr__(self) -> str:
        """The tables as text."""
        from damoos.report.comparison import league as report

        return report.text(self.entries)

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        from damoos.report.comparison import league as report

        return report.to_html(self.entries)


@dataclass(frozen=True, kw_only=True)
class LeagueCall(EventWords, LeagueWords):
    """All words of `league`."""


@words.takes(LeagueCall)
def league(said: LeagueCall) -> League:
    """Tune each policy on every workload with the same number of trials, validate all, and tell what each saves.

    Goes on with an unfinished league of the same words, and tries again what failed in it.

    Returns
    -------
    League
    """
    return League(driven(league_config(said), said, said.event))


def league_config(said: LeagueWords) -> SweepConfig:
    """What a league is asked to do, with all patterns resolved.

    Raises
    ------
    ConfigError : fewer than two policies
    """
    names = StudyConfig(command="true", machine="guest", nr_samples=1000, policy=",".join(said.policies)).policies
    return sweep_config(
        said.workloads, said.machines, policy=",".join(names), league=True, nr_samples=said.trials * len(names),
        scorer="sla", scorer_options={"maximize": comparison.SAVED, "limits": list(said.limits)}, repeats=said.repeats,
        seed=said.seed, require_real=said.require_real,
    )  # fmt: skip


def prove_size(
    size: Size,
    folder: Path,
    workload: str,
    machine: str,
    *,
    repeats: int = 3,
    results: Path = RESULTS,
    event: Event | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Run a workload under a suggested size and its scheme, beside runs without either.

    Parameters
    ----------
    size : Size
        What `damoos.api.recordings.Predicted.size` suggests.
    folder : Path
        Where the scheme's file is written.
    repeats : int
        Blocks, 3 or more.

    Returns
    -------
    dict
        ``memory_limits`` (bytes by file); ``slowdown`` (``mean``, ``ci95``, ``values``), or ``error``, why its runs
        failed.

    Raises
    ------
    ConfigError : no scheme is suggested
    """
    if not size.scheme:
        raise ConfigError("there is nothing to prove: no scheme keeps the slowdown")
    file = Artifacts(folder).write_text("suggested.damos", size.scheme + "\n", SHARED)
    limit = str(size.limit_bytes)
    evaluated = evaluate(
        [workload], [machine], [str(file)], memory=[limit], repeats=repeats, results=results, event=event, **settings
    )
    config = evaluated.studies[0]["configs"][f"suggested@{limit}"]
    slowdown = config["quantities"].get("slowdown")
    return {"memory_limits": config["memory_limits"], "slowdown": slowdown, "error": config["error"]}


def evaluation_config(said: EvaluateWords) -> SweepConfig:
    """What an evaluation is asked to do, with all patterns, names and files resolved."""
    configs = named.PAPER if said.configs is None else said.configs
    protect = {word: protecting(word, said.results) for word in configs if word.startswith(named.PROTECT)}
    forms = named.resolve(configs, said.operations, protect)
    forms = named.limited(forms, said.memory) if said.memory else forms
    forms = named.write_limited(forms, said.write_limit) if said.write_limit else forms
    # No kernel is said by leaving it out, as on the command line: the two go on with each other's evaluations.
    fields = {name: value for name, value in shared(said, EvaluationConfig).items() if value is not None}
    fields |= words.run_fields(said)
    return sweep_config(said.workloads, said.machines, **{**fields, "configs": forms})


def is_evaluation(found: Sweep) -> bool:
    """Whether a sweep's studies are listed ones."""
    return found.config.is_evaluation


@words.checked
def compare(names: Sequence[str], *, results: Path = RESULTS, storage: str | None = None) -> Compared:
    """Set the manual and the tuned schemes of finished studies side by side; nothing is run.

    Parameters
    ----------
    names : sequence of str
        Studies and sweeps.

    Returns
    -------
    Compared
        ``table`` is a tidy frame.

    Raises
    ------
    ConfigError : an unknown name, or nothing to compare
    """
    return Compared(_studies(names, results, storage))


def _studies(names: Sequence[str], results: Path, storage: str | None) -> list[Study]:
    """The studies of these names, and of sweeps of these names."""
    known = sweeps.names(results)
    studies: dict[str, Study] = {}
    for name in names:
        if name in known:
            sweep = sweeps.load(results, name, storage)
            studies |= {study.name: study for study in manual_tuned.studies_of(sweep)}
        else:
            studies[name] = manual_tuned.load(Store.existing(results, storage, name), name)
    return list(studies.values())


@words.checked
def fleet_plan(
    name: str,
    fleet: str | Path,
    *,
    results: Path = RESULTS,
    storage: str | None = None,
    prices: Prices | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """What the tuned policies of a sweep or a study would save on a fleet; nothing is run.

    Parameters
    ----------
    fleet : str or Path
        CSV file with the columns ``workload``, ``hosts``, ``memory_gib`` (in use on each host).
    prices : Prices or None
        What a GiB is worth for an hour.
    seed : int
        Of the simulation.

    Returns
    -------
    dict
        Of `damoos.comparison.fleet_plan.plan`; with prices, ``saved_money`` in ``total``, a month.

    Raises
    ------
    ConfigError : an unknown name, nothing that has finished, or not such a file
    """
    lines = planning.read(Path(fleet))
    return planning.plan(lines, planning.measured(_studies([name], results, storage)), seed, prices)


def folder_of(names: Sequence[str], results: Path) -> Path:
    """Where a comparison's files belong: the folder of the one sweep or study, or one of their own for several."""
    return results / (names[0] if len(names) == 1 else f"compare-{slug('-'.join(names))}"[:120])
