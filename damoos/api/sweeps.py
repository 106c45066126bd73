"""Sweeps for people at a Python prompt: every workload on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.api.studies import RESULTS, EvaluatedStudy, TunedStudy, shown
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


@words.checked
def sweep(
    workloads: Sequence[str],
    machines: Sequence[str],
    *,
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
    searcher: str = "auto",
    prior: str = "auto",
    seed: int = 0,
    repeats: int = 6,
    candidates: int = 3,
    runs: int | None = None,
    run_limit: str | None = None,
    require_real: bool = False,
    ray: str | None = None,
    insecure_cluster: bool = False,
    results: Path = RESULTS,
    storage: str | None = None,
    event: Event | None = None,
) -> TunedSweep:
    """Tune every workload on every machine, on as many at once as there are.

    Goes on with an unfinished sweep of the same words, and tries again what failed in it. The words are those of
    ``damoos sweep``; what is not explained here is as for `damoos.tune`.

    Parameters
    ----------
    workloads, machines : sequence of str
        Names, files, or patterns such as ``splash2x/*``.
    trials : int or None
        The most trials of each study; None for 10.
    ray : str or None
        Address of a Ray cluster, or ``auto``; None for this process alone.
    insecure_cluster : bool
        Whether that cluster may be one that asks for no token.
    event : callable or None
        Told of each thing that happens, see `damoos.sweeps.driver.drive`; None for a progress bar in a notebook.

    Returns
    -------
    TunedSweep

    Raises
    ------
    ConfigError : a word is not valid
    DamoosError : see `damoos.errors`
    """
    given = {name: value for name, value in locals().items() if name not in _CONDUCT}
    config = tuning_config(**given)
    return TunedSweep(driven(config, RayCluster.named(ray, insecure_cluster), results, storage, event))


_CONDUCT = ("ray", "insecure_cluster", "results", "storage", "event")


@words.checked
def load_sweep(name: str, *, results: Path = RESULTS, storage: str | None = None) -> TunedSweep:
    """A stored sweep.

    Raises
    ------
    ConfigError : there is none of this name
    """
    return TunedSweep(load(results, name, storage))


def tuning_config(
    workloads: Sequence[str],
    machines: Sequence[str],
    *,
    scheme: str | None = None,
    score: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    limits: Sequence[str] = (),
    weights: Sequence[str] = (),
    prices: str | None = None,
    score_options: Mapping[str, Any] | None = None,
    trials: int | None = None,
    run_limit: str | None = None,
    **more: Any,
) -> SweepConfig:
    """What a sweep that tunes is asked to do; parameters as of `sweep`."""
    scored = words.scoring(
        score, more=score_options, maximize=maximize, minimize=minimize, limits=limits, weights=weights, prices=prices
    )
    timed = words.timing(trials=trials, run_limit=run_limit)
    return sweep_config(workloads, machines, scheme=words.scheme(scheme), **scored, **timed, **more)


def sweep_config(workloads: Sequence[str], machines: Sequence[str], **settings: Any) -> SweepConfig:
    """What a sweep is asked to do, with all patterns resolved; settings are fields of its studies."""
    from damoos.machines import catalog as known_machines
    from damoos.workloads import catalog as known_workloads

    return SweepConfig(
        expand(workloads, known_workloads.names(), "--workloads"),
        expand(machines, known_machines.names(), "--machines"),
        settings,
    )


def driven(
    config: SweepConfig, ray: RayCluster | None, results: Path, storage: str | None, event: Event | None
) -> Sweep:
    """A new sweep, or the unfinished one of the same words, when all of it is done that can be."""
    config.check()
    found = Sweep.begun(results, config, storage)
    drive_sweep(found, ray, event)
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
