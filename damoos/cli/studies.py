"""The commands about studies, from the first run to the scheme in service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, options, rollouts, settings
from damoos.cli.common import (
    OUTPUT,
    RESULTS,
    SCORE,
    SEARCH,
    WHAT,
    WHERE,
    Format,
    Loudness,
    Results,
    Storage,
    StudyName,
    check_format,
    comma_separated,
    loudness,
    say,
)
from damoos.cli.sweeps import InsecureCluster, RayAddress, SweepFormat, ray_cluster, run
from damoos.errors import NothingFeasible

if TYPE_CHECKING:
    from damoos.api import EvaluatedStudy, TunedStudy
    from damoos.study.config import StudyConfig

app = typer.Typer()


@app.command()
def tune(
    context: typer.Context,
    named: options.NamedWorkload = None,
    workload: options.Workload = None,
    command: options.CommandLine = None,
    pid: Annotated[
        int | None,
        typer.Option(help="Tune a running process instead; it is not restarted.", rich_help_panel=WHAT),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="--pid: 'qps=cmd:PROGRAM ARGS', 'qps=file:PATH', 'qps=http://HOST/#json.path'; several times.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    settle: Annotated[
        str, typer.Option(help="--pid: time that is discarded after each change.", rich_help_panel=WHAT)
    ] = "2s",
    machine: options.Machine = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            help="Kernels to tune on, comma-separated; several are compared at the end.",
            autocompletion=complete.several(complete.kernels),
            rich_help_panel=WHERE,
        ),
    ] = None,
    run_limit: options.RunLimit = None,
    require_real: options.RequireReal = False,
    memory: options.Memory = None,
    write_limit: options.WriteLimit = None,
    policy: options.Policy = "damos",
    scheme: options.SchemeText = None,
    tunables: options.Tunables = None,
    operations: options.Operations = "vaddr",
    scorer: Annotated[
        str | None,
        typer.Option(
            "--score",
            help="daos, sla, weighted, cost, psi, FILE.py:FUNCTION, or a program (a path). Default: daos;"
            " with --pid sla where there is a --limit, else psi.",
            autocompletion=complete.scorers,
            rich_help_panel=SCORE,
        ),
    ] = None,
    maximize: options.Maximize = None,
    minimize: options.Minimize = None,
    limits: options.Limits = None,
    weights: options.Weights = None,
    prices: options.Prices = None,
    trials: Annotated[int | None, typer.Option(help="The most trials (default 10).", rich_help_panel=SEARCH)] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(help="Time for all trials, e.g. 1h; trials = limit / unit work.", rich_help_panel=SEARCH),
    ] = None,
    unit_work: Annotated[
        str | None,
        typer.Option(
            help="Time of one run, for --time-limit; with --pid, time of each window (default 10s).",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    searcher: options.Searcher = "auto",
    prior: options.Prior = "auto",
    like: options.Like = None,
    seed: options.Seed = 0,
    repeats: options.Repeats = 6,
    candidates: options.Candidates = 3,
    runs: options.Runs = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            help="Begin a new study, also where an unfinished one of the same words is there.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would run, what is searched and for how long; run nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Tune a scheme for a workload: baselines, trials, recommendation, validation, verdict.

    Example: damoos tune parsec3/raytrace --trials 10
    """
    from damoos import api
    from damoos.machines import catalog as machines

    check_format(form)
    workload = options.one_workload(named, workload)
    if time_limit is not None and settings.is_default(context, "trials"):
        trials = None  # a setting gives way to what is said here
    machine = machine or settings.machine(pid)
    words: dict[str, Any] = {
        "command": command,
        "pid": pid,
        "metrics": metrics or [],
        "machine": machine,
        "memory": memory,
        "write_limit": write_limit,
        "policy": policy,
        "scheme": scheme,
        "tune": tunables or [],
        "operations": operations,
        "score": scorer,
        **options.score_options(maximize, minimize, limits, weights, prices),
        "trials": trials,
        "time_limit": time_limit,
        "unit_work": unit_work,
        "searcher": searcher,
        "prior": prior,
        "like": like or [],
        "seed": seed,
        "repeats": repeats,
        "candidates": candidates,
        "runs": runs,
        "run_limit": run_limit,
        "settle": settle,
        "require_real": require_real,
    }
    names = [None] if kernels is None else comma_separated(kernels, "--kernels")
    for name in names:
        machines.machine(machine, name)  # the last wrong word is found before the first study
    if dry_run:
        configs = [api.study_config(workload, kernel=name, **words) for name in names]
        _print_outlines(configs, new, results, storage, form)
        return
    tuned: dict[str, TunedStudy] = {}
    for name in names:
        with Watching() as watcher:
            study = api.tune(workload, kernel=name, new=new, results=results, storage=storage, watcher=watcher, **words)
        tuned[name or ""] = study
        if len(names) == 1 or form == "text":
            _print_result(study, form, results)
    if len(names) > 1:
        _compare(tuned, form, results, storage)
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


def _print_outlines(configs: list[StudyConfig], new: bool, results: Path, storage: str | None, form: str) -> None:
    """What studies would be; nothing is started or stored."""
    from damoos.report.study import outline as report
    from damoos.store.studies import Store
    from damoos.study.outline import outline

    store = Store.there(results, storage)
    found = [outline(config, store, new) for config in configs]
    if form == "json":
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
