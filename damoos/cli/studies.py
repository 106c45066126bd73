"""The commands about studies, from the first run to the scheme in service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, options, rollouts, settings, words
from damoos.cli.common import (
    RESULTS,
    DryRunWords,
    Format,
    FormatWords,
    Loudness,
    Results,
    Storage,
    StudyName,
    check_format,
    loudness,
    say,
)
from damoos.cli.sweeps import InsecureCluster, RayAddress, SweepFormat, ray_cluster, run
from damoos.errors import NothingFeasible
from damoos.words import WHERE, word
from damoos.words.studies import TuneWords

if TYPE_CHECKING:
    from damoos.api import EvaluatedStudy, TunedStudy
    from damoos.study.config import StudyConfig

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class TuneOptions(FormatWords, DryRunWords, TuneWords):
    """All words of the command."""

    kernels: Sequence[str] = word(
        (), "Kernels to tune on, comma-separated; several are compared at the end.", WHERE, completion="kernels",
        separated=True,
    )  # fmt: skip


@app.command()
@words.takes(TuneOptions)
def tune(said: TuneOptions) -> None:
    """Tune a scheme for a workload: baselines, trials, recommendation, validation, verdict.

    Example: damoos tune parsec3/raytrace --trials 10
    """
    from damoos.api import studies as api
    from damoos.machines import catalog as machines

    machine = said.machine or settings.machine(said.pid)
    said = replace(said, machine=machine)
    names: Sequence[str | None] = said.kernels or [None]
    for name in names:
        machines.machine(machine, name)  # the last wrong word is found before the first study
    configs = {name: api.config_of(said, name) for name in names}
    if said.dry_run:
        _print_outlines(list(configs.values()), said)
        return
    tuned: dict[str, TunedStudy] = {}
    for name, config in configs.items():
        with Watching() as watcher:
            study = api.tuned(config, said.results, said.storage, watcher, new=said.new)
        tuned[name or ""] = study
        if len(names) == 1 or said.form == "text":
            _print_result(study, said.form, said.results)
    if len(names) > 1:
        _compare(tuned, said.form, said.results, said.storage)
    for study in tuned.values():
        check_feasible(study)


@app.command()
def resume(
    study: Annotated[
        str, typer.Argument(help="Name of a study, a sweep or a rollout.", autocompletion=complete.resumable)
    ],
    ray: RayAddress = None,
    insecure_cluster: InsecureCluster = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: SweepFormat = "text",
) -> None:
    """Continue an interrupted study, sweep or rollout; no finished trial is repeated.

    A rollout that is held goes on: its step is watched as long again.

    Example: damoos resume parsec3-raytrace-guest-1
    """
    from damoos import api
    from damoos.rollouts.rollout import load as load_rollout
    from damoos.rollouts.rollout import names as rollout_names
    from damoos.sweeps import sweep as sweeps

    if study in sweeps.names(results):
        run(sweeps.load(results, study, storage), ray_cluster(ray, insecure_cluster), form)
        return
    check_format(form)
    if study in rollout_names(results):
        rolled = load_rollout(results, study)
        if cluster := ray_cluster(ray, insecure_cluster):
            rolled.move(cluster)
        rollouts.drive(rolled, form)
        return
    with Watching() as watcher:
        resumed = api.resume(study, results=results, storage=storage, watcher=watcher)
    _print_result(resumed, form, results)
    check_feasible(resumed)


@app.command()
def validate(
    study: StudyName,
    limits: Annotated[
        list[str],
        typer.Option(
            "--limit", help="In place of the score's own on the same metric, e.g. 'slowdown<=0.02'; several times."
        ),
    ],
    repeats: options.Repeats = 6,
    candidates: options.Candidates = 3,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Prove on fresh runs what a finished study expects under other limits.

    Example: damoos validate parsec3-raytrace-guest-1 --limit 'slowdown<=0.02'
    """
    from damoos import api

    check_format(form)
    with Watching() as watcher:
        found = api.validate(
            study, limits, repeats=repeats, candidates=candidates, results=results, storage=storage, watcher=watcher
        )
    _print_result(found, form, results)
    check_feasible(found)


def _print_outlines(configs: list[StudyConfig], said: TuneOptions) -> None:
    """What studies would be; nothing is started or stored."""
    from damoos.report.study import outline as report
    from damoos.store.studies import Store
    from damoos.study.outline import outline

    store = Store.there(said.results, said.storage)
    found = [outline(config, store, said.new) for config in configs]
    if said.form == "json":
        print(json.dumps([one.to_json() for one in found] if len(found) > 1 else found[0].to_json(), indent=2))
    else:
        print("\n\n".join(map(report.text, found)))


class Watching:
    """A watcher on standard error that gives the terminal back in every way out."""

    def __enter__(self) -> Any:
        from damoos.report.study.progress import watcher

        said = loudness.get()
        self._watcher = watcher(quiet=said is Loudness.QUIET, verbose=said is Loudness.VERBOSE)
        return self._watcher

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if hasattr(self._watcher, "stop"):
            self._watcher.stop()
        if kind is KeyboardInterrupt and (study := self._watcher.study):
            say(f"the same command again, or 'damoos resume {study.name}', goes on")


def _print_result(found: TunedStudy | EvaluatedStudy, form: str, results: Path) -> None:
    from damoos.api import TunedStudy

    if form == "json":
        print(json.dumps(found.result, indent=2))
    else:
        print(repr(found))
        if isinstance(found, TunedStudy):
            print(f"figure: {results / found.name / 'figure.png'}")


def check_feasible(found: TunedStudy | EvaluatedStudy) -> None:
    """A study without a recommendation has an exit code of its own; what it has to say has been printed."""
    from damoos.api import TunedStudy

    if isinstance(found, TunedStudy) and found.best is None:
        config = found.study.config
        wider = "--limit" if "limits" in config.scorer_options else "--score weighted --limit 'slowdown<=0.2'"
        raise NothingFeasible(
            f"study '{found.name}': none of its trials kept the limits of the score. Leave the workload without a"
            f" scheme, or start a new study with wider limits ({wider}), another range (--tune) or more trials"
        )


def _compare(found: dict[str, TunedStudy], form: str, results: Path, storage: str | None) -> None:
    """Each kernel under its own tuned scheme, in turn; nothing to compare where a kernel has none."""
    from damoos.comparison.kernels import comparison_of
    from damoos.report.comparison.kernels import text

    compared = None
    if all(study.best for study in found.values()):
        comparison = comparison_of({name: study.study for name, study in found.items()})
        with Watching() as watcher:
            compared = comparison.conduct(results, storage, watcher)
    if form == "json":
        print(json.dumps({"studies": [study.result for study in found.values()], "comparison": compared}, indent=2))
    elif compared:
        print(text(compared))
