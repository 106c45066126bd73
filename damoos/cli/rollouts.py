"""The commands about fleets in service: what one would save, and a policy that goes on it step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, options
from damoos.cli.common import (
    FAILED,
    RESULTS,
    Format,
    Results,
    Storage,
    StudyName,
    check_format,
    comma_separated,
    progress,
    time_us,
)
from damoos.cli.sweeps import InsecureCluster
from damoos.common.terminal import printable
from damoos.errors import ConfigError, MachineError, NothingFeasible
from damoos.words import OUTPUT, STEPS, WHAT, WHERE

if TYPE_CHECKING:
    from damoos.rollouts.rollout import Rollout

app = typer.Typer()


@app.command()
def rollout(
    study: StudyName,
    machines: Annotated[
        str,
        typer.Option(
            help="Machine names or TOML files, equal ones or nearly, separated by commas.",
            autocompletion=complete.several(complete.machines),
            rich_help_panel=WHERE,
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            help="unit:NAME.service, cgroup:/PATH, pid-file:/PATH, match:exe=NAME or machine, on each machine.",
            autocompletion=complete.choices("unit:", "cgroup:/", "pid-file:/", "match:exe=", "machine"),
            rich_help_panel=WHAT,
        ),
    ],
    arm: Annotated[
        str,
        typer.Option(
            help="tuned, or manual where the validation found that better.",
            autocompletion=complete.choices("tuned", "manual"),
            rich_help_panel=WHAT,
        ),
    ] = "tuned",
    name: options.NameInService = None,
    steps: Annotated[
        str, typer.Option(help="How many machines have it after each step, or shares of all.", rich_help_panel=STEPS)
    ] = "1,10%,50%,100%",
    bake: Annotated[
        str,
        typer.Option(help="For how long a step is watched; half as long before it.", rich_help_panel=STEPS),
    ] = "1h",
    tolerance: Annotated[
        str,
        typer.Option(
            help="By which share of a limit the policy may bring its metric nearer to it.", rich_help_panel=STEPS
        ),
    ] = "10%",
    least_saving: Annotated[
        str, typer.Option(help="Share of the memory that it must save more than.", rich_help_panel=STEPS)
    ] = "0%",
    seed: Annotated[int, typer.Option(help="Of the order in which the machines get it.", rich_help_panel=STEPS)] = 0,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            help="Ray cluster whose nodes keep the machines they offer: auto, or HOST:PORT.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    insecure_cluster: InsecureCluster = False,
    guards: options.Guards = None,
    window: options.Window = "10s",
    metrics: options.GuardMetrics = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="text or json (one object at the end).",
            autocompletion=complete.formats,
            rich_help_panel=OUTPUT,
        ),
    ] = "text",
) -> None:
    """Put a study's policy into service on many machines, step by step; each step is proven beside machines without it.

    Example: damoos rollout redis-idle-guest-1 --machines web1.toml,web2.toml,web3.toml --on unit:redis.service
    """
    from damoos.api.words import share
    from damoos.rollouts import conduct

    check_format(form)
    begun = conduct.begin(
        study, comma_separated(machines, "--machines"), on, results, storage, arm=arm, label=name, steps=steps,
        bake_s=time_us(bake, "--bake") / 1e6, tolerance=share(tolerance, "--tolerance"),
        least_saving=share(least_saving, "--least-saving"), seed=seed, guards=guards or (),
        window_s=time_us(window, "--window") / 1e6, metrics=metrics or (), ray=ray,
        insecure_cluster=insecure_cluster,
    )  # fmt: skip
    drive(begun, form)


@app.command()
def plan(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A sweep or a study.", autocompletion=complete.studies_and_sweeps),
    ],
    fleet: Annotated[
        Path, typer.Option(help="CSV file with the columns workload, hosts and memory_gib (in use on each host).")
    ],
    prices: Annotated[
        Path | None, typer.Option(help="TOML file with gib_hour and core_hour, as for --score cost.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Say what the tuned policies of a sweep would save on a fleet; nothing is run.

    By simulation. It also says which workloads are worth a study, and how many hosts a canary needs.

    Example: damoos plan sweep-1 --fleet fleet.csv --prices prices.toml
    """
    from damoos.api.comparisons import fleet_plan
    from damoos.common import toml_file
    from damoos.report.comparison.fleet_plan import text
    from damoos.scorers.cost import Prices

    check_format(form)
    if prices is not None and not prices.is_file():
        raise ConfigError(f"--prices {prices}: there is no such file")
    if seed < 0:
        raise ConfigError(f"--seed {seed}: give 0 or more")
    worth = None if prices is None else toml_file.load(prices, Prices)
    found = fleet_plan(name, fleet, results=results, storage=storage, prices=worth, seed=seed)
    print(json.dumps(found) if form == "json" else text(found))


def drive(one: Rollout, form: str) -> None:
    """Drive a rollout, and tell how it ended; exit code 1 if somebody has to say how it goes on, 4 if it was undone."""
    from damoos.rollouts import conduct
    from damoos.rollouts.rollout import State, describe

    try:
        state = conduct.run(one, progress)
    except KeyboardInterrupt:
        progress(f"the machines stay as they are, under their guards; go on with: damoos resume {one.name}")
        raise
    print(json.dumps(told(one)) if form == "json" else describe(one))
    if state is State.UNDONE:
        raise NothingFeasible(f"{one.name} was undone: {one.progress.why}")
    if state is State.HELD:
        raise typer.Exit(FAILED)


def undo(one: Rollout, form: str) -> None:
    """Take a rollout back, and tell how far that has come also where a machine could not be told."""
    from damoos.rollouts import conduct
    from damoos.rollouts.rollout import load

    try:
        conduct.undo(one, progress)
    except MachineError:
        show(load(one.results, one.name), form)
        raise
    show(load(one.results, one.name), form)


def show(one: Rollout, form: str) -> None:
    """Print how far a rollout has come, and which machines do not have what they are to have."""
    from damoos.rollouts.rollout import describe

    if form == "json":
        print(json.dumps(told(one)))
        return
    print(describe(one))
    for machine, why in _without(one).items():
        print(printable(f"{one.name}: {machine}: {why}"))


def told(one: Rollout) -> dict[str, Any]:
    """A rollout for programs."""
    from dataclasses import asdict

    return {
        "rollout": one.name,
        "driven": one.driven(),
        "machines": one.machines_with_policy(),
        "watched": one.machines_watched(),
        "without": _without(one),
        **asdict(one.progress),
    }


def _without(one: Rollout) -> dict[str, str]:
    """Machines that are to have the policy and do not, and why; nothing is said where Ray would have to be asked."""
    from damoos.rollouts import overview

    return overview.without(one) if one.plan.ray is None else {}
