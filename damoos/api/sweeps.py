"""Sweeps for people at a Python prompt: every workload on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.api.studies import RESULTS, ConfigWords, EvaluatedStudy, TunedStudy, shown
from damoos.common import html
from damoos.dispatch.ray_address import RayCluster
from damoos.errors import ConfigError, nearest
from damoos.model.trial import orientation
from damoos.report import notebook
from damoos.report.sweep import progress
from damoos.study.damage import names_sweep_damage
from damoos.study.study import open_study
from damoos.sweeps.config import SweepConfig, expand
from damoos.sweeps.events import Event
from damoos.sweeps.sweep import Sweep, load
from damoos.words import PYTHON, Words, again, word
from damoos.words.studies import TRIALS, DriveWords, SweepWords

if TYPE_CHECKING:
    import pandas as pd

# Columns of `TunedSweep.studies_df`, as a sweep's rows have them; what is only of interest while it runs is left out.
_ROW = ("study", "workload", "machine", "state", "trials", "runs", "verdict", "score", "slowdown", "saving", "error")


class TunedSweep:
    """A sweep for people at a Python prompt.

    Parameters
    ----------
    sweep : Sweep
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.name = sweep.name

    @property
    def result(self) -> dict[str, Any]:
        """``sweep, studies, machines, failures, cost``, a study each as a row (docs/fleet.md has the keys).

        Of an unfinished sweep what its driver last said: ``sweep, studies, failures, spent_s``.
        """
        return self.sweep.result or self.sweep.status

    @property
    def studies(self) -> list[TunedStudy | EvaluatedStudy]:
        """Studies that have begun, in the order of the sweep."""
        looked = (self.sweep.look(self.sweep.study_name(config)) for config in self.sweep.config.configs())
        return [shown(open_study(record)) for record in looked if record]

    def study(self, name: str) -> TunedStudy | EvaluatedStudy:
        """One of its studies by its name, or by the end of it: ``study("parsec3-raytrace-i3")``.

        Raises
        ------
        ConfigError : it has none of this name, or that has not begun
        """
        names = [self.sweep.study_name(config) for config in self.sweep.config.configs()]
        full_name = name if name in names else f"{self.name}-{name}"
        if full_name not in names:
            raise ConfigError(f"sweep '{self.name}' has no study '{name}'{nearest(full_name, names)}")
        record = self.sweep.look(full_name)
        if record is None:
            raise ConfigError(f"study '{full_name}' has not begun; damoos resume {self.name}")
        return shown(open_study(record))

    @property
    @names_sweep_damage
    def studies_df(self) -> pd.DataFrame:
        """One row per study: where, how far, the verdict, and the tuned scheme beside the manual one.

        ``score`` and ``score_manual`` are of the validation, ``score_gain`` is positive where tuning is better;
        ``slowdown`` and ``saving`` are shares of the baseline's runtime and RSS, ``saved_bytes`` is of its average RSS.
        """
        import pandas as pd

        return pd.DataFrame([self._row(row) for row in self.result["studies"]])

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        cells: dict[str, Any] = {name: row[name] for name in _ROW}
        cells |= dict.fromkeys(("score_manual", "score_gain", "saved_bytes", "scheme"))
        result = self.sweep.finished(row["study"]) or {}
        arms = result.get("validation") or {}
        if "tuned" in arms:
            cells["saved_bytes"] = arms["baseline"]["rss_avg_bytes"] - arms["tuned"]["rss_avg_bytes"]
            cells["scheme"] = result["recommended"]["scheme"]
        manual = arms.get("manual", {}).get("score")
        if manual is not None and cells["score"] is not None:
            sign = orientation(result["score"]["direction"])
            cells |= {"score_manual": manual, "score_gain": sign * (cells["score"] - manual)}
        return cells

    @property
    @names_sweep_damage
    def machines_df(self) -> pd.DataFrame:
        """One row per machine: whether it was fit, why not, for how long it was held, what that has cost."""
        import pandas as pd

        cost = {row["machine"]: row for row in self.result.get("cost", ())}
        machines = self.result.get("machines", {})
        rows = []
        for name in self.sweep.config.machines:
            slots = [about for slot, about in machines.items() if slot.partition("#")[0] == name]
            paid = cost.get(name, {})
            rows.append(
                {
                    "machine": name,
                    "fit": all(about["fit"] for about in slots) if slots else None,
                    "error": "; ".join(about["error"] for about in slots if about.get("error")),
                    **{key: paid.get(key) for key in ("hours", "usd_hour", "usd")},
                }
            )
        return pd.DataFrame(rows)

    @names_sweep_damage
    def __repr__(self) -> str:
        """Its studies as a table of text, and what went wrong."""
        if self.sweep.result:
            return progress.summary(self.sweep.result)
        return f"sweep {self.name}: unfinished\n{progress.plain(self.result['studies'])}"

    @names_sweep_damage
    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        result = self.result
        failures = html.table(
            ["failed", "error"], [(failure["study"], failure["error"]) for failure in result["failures"]]
        )
        state = "" if self.sweep.result else ": unfinished"
        return html.section(
            f"sweep {self.name}{state}",
            progress.to_html(result["studies"]),
            failures if result["failures"] else html.Html(),
        )


@dataclass(frozen=True, kw_only=True)
class EventWords(Words):
    """Who is told how a sweep goes."""

    event: Event | None = word(
        None,
        "Told of each thing that happens, see `damoos.sweeps.driver.drive`; None for a progress bar in a notebook.",
        PYTHON,
    )


@dataclass(frozen=True, kw_only=True)
class SweepCall(EventWords, SweepWords):
    """All words of `sweep`."""

    score_options: Mapping[str, Any] | None = again(ConfigWords, "score_options")


@words.takes(SweepCall)
def sweep(said: SweepCall) -> TunedSweep:
    """Tune every workload on every machine, on as many at once as there are.

    Goes on with an unfinished sweep of the same words, and tries again what failed in it. The words are those of
    ``damoos sweep``.

    Returns
    -------
    TunedSweep

    Raises
    ------
    ConfigError : a word is not valid
    DamoosError : see `damoos.errors`
    """
    return TunedSweep(driven(tuning_config(said), said, said.event))


@words.checked
def load_sweep(name: str, *, results: Path = RESULTS, storage: str | None = None) -> TunedSweep:
    """A stored sweep.

    Raises
    ------
    ConfigError : there is none of this name
    """
    return TunedSweep(load(results, name, storage))


def tuning_config(said: SweepWords) -> SweepConfig:
    """What a sweep that tunes is asked to do."""
    trials = TRIALS if said.trials is None else said.trials
    return sweep_config(said.workloads, said.machines, nr_samples=trials, **words.study_fields(said))


def sweep_config(workloads: Sequence[str], machines: Sequence[str], **settings: Any) -> SweepConfig:
    """What a sweep is asked to do, with all patterns resolved; settings are fields of its studies."""
    from damoos.machines import catalog as known_machines
    from damoos.workloads import catalog as known_workloads

    return SweepConfig(
        expand(workloads, known_workloads.names(), "--workloads"),
        expand(machines, known_machines.names(), "--machines"),
        settings,
    )


def driven(config: SweepConfig, said: DriveWords, event: Event | None) -> Sweep:
    """A new sweep, or the unfinished one of the same words, when all of it is done that can be."""
    config.check()
    found = Sweep.begun(said.results, config, said.storage)
    drive_sweep(found, RayCluster.named(said.ray, said.insecure_cluster), event)
    return found


def drive_sweep(found: Sweep, ray: RayCluster | None = None, event: Event | None = None) -> dict[str, Any]:
    """Do what is left of a sweep, here or on a Ray cluster."""
    from damoos.sweeps.driver import drive

    found.open_store()  # an error of it ends all of this before a machine is asked for anything
    tell = event or notebook.event() or (lambda kind, said: None)

    def say(text: str) -> None:
        tell("say", {"study": "", "text": text})

    if ray is None:
        from damoos.dispatch.local import LocalDispatcher

        dispatcher: Any = LocalDispatcher(say)
    else:
        from damoos.dispatch.ray import RayDispatcher

        dispatcher = RayDispatcher(ray, say)
    try:
        return drive(found, dispatcher, tell)
    finally:
        dispatcher.close()
