"""The commands about many studies on many machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, words
from damoos.cli.common import DryRunWords, FormatWords, Loudness, check_format, loudness, say
from damoos.common import terminal
from damoos.errors import NothingFeasible, TooManyFailures, UnsupportedError
from damoos.units import show_count
from damoos.words import OUTPUT, WHERE, again
from damoos.words.studies import DriveWords, SweepWords

if TYPE_CHECKING:
    from damoos.api.comparisons import Evaluated, League
    from damoos.dispatch.ray_address import RayCluster
    from damoos.sweeps.config import SweepConfig
    from damoos.sweeps.sweep import Sweep

app = typer.Typer()
cluster = typer.Typer(
    no_args_is_help=True, help="A Ray cluster on this computer.\n\nExample: damoos cluster up --local i3,m5d"
)

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Ray cluster: auto, or HOST:PORT; without it, all work is done in this process.",
        rich_help_panel=WHERE,
    ),
]
InsecureCluster = Annotated[
    bool,
    typer.Option(
        "--insecure-cluster",
        help="Use a Ray cluster that asks for no token, or is another user's; it can run programs as you.",
        rich_help_panel=WHERE,
    ),
]
SweepFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="text, json (one object at the end), or jsonl (one event on each line).",
        autocompletion=complete.choices("text", "json", "jsonl"),
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SweepFormatWords(FormatWords):
    """How a sweep prints what happens and what it has found."""

    form: str = again(
        FormatWords, "form", help="text, json (one object at the end), or jsonl (one event on each line).",
        choices=("text", "json", "jsonl"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SweepOptions(SweepFormatWords, DryRunWords, SweepWords):
    """All words of the command."""


@app.command()
@words.takes(SweepOptions)
def sweep(said: SweepOptions) -> None:
    """Tune every workload on every machine, on all machines at once, and print one table at the end.

    Example: damoos sweep --workloads 'splash2x/*' --machines i3,m5d,z1d --trials 10
    """
    from damoos import api

    begin(api.tuning_config(said), said, said.form, said.dry_run)


def ray_cluster(address: str | None, insecure: bool) -> RayCluster | None:
    """The cluster that the options name; None for this process alone."""
    from damoos.dispatch.ray_address import RayCluster

    return RayCluster.named(address, insecure)


def begin(config: SweepConfig, said: DriveWords, form: str, dry_run: bool) -> None:
    """Drive a new sweep, or an unfinished one of the same words; or say what it would take."""
    from damoos.sweeps.sweep import Sweep

    config.check()
    if dry_run:
        _print_estimate(config, form)
        return
    run(Sweep.begun(said.results, config, said.storage), ray_cluster(said.ray, said.insecure_cluster), form)


def run(found: Sweep, ray: RayCluster | None, form: str) -> None:
    """Drive a sweep and print what it has come to."""
    from damoos import api
    from damoos.api import comparisons
    from damoos.report.sweep.progress import summary

    check_format(form, "jsonl")
    with watched(form) as event:
        try:
            result = api.drive_sweep(found, ray, event)
        except KeyboardInterrupt:
            say(f"the same command again, or 'damoos resume {found.name}', goes on")
            raise
    listed = comparisons.is_evaluation(found)
    done = any(row["state"] == "done" for row in result["studies"])
    if listed and done:
        _print_evaluation(comparisons.Evaluated(found), form)
    elif found.config.is_league and done and form != "jsonl":
        _print_league(comparisons.League(found), form)
    elif form == "json":
        print(json.dumps({**result, "studies": [found.finished(row["study"]) or row for row in result["studies"]]}))
    elif form == "text":
        print(summary(result))
    if form == "jsonl":
        event("end", result)
    check(result, listed or found.config.is_league)


def _print_evaluation(evaluated: Evaluated, form: str) -> None:
    written = evaluated.write()
    if form == "json":
        print(evaluated.to_json())
    elif form == "text":
        print(f"evaluation {evaluated.name}")
        print(repr(evaluated))
        print("\n".join(map(str, written)))


def _print_league(league: League, form: str) -> None:
    written = league.write()
    if form == "json":
        print(json.dumps({"sweep": league.name, "machines": league.result, "studies": league.entries}))
        return
    print(f"league {league.name}")
    print(repr(league))
    print("\n".join(map(str, written)))


def told(sweep: Sweep) -> dict[str, Any]:
    """How far a sweep is, and whether a process of this computer drives it now."""
    return {**sweep.status, "driven": sweep.driven()}


def show_status(name: str, results: Path, form: str) -> None:
    """How far a sweep is that another process drives."""
    from damoos.report.sweep.progress import plain
    from damoos.sweeps import sweep as sweeps

    sweep = sweeps.load(results, name)
    status = told(sweep)
    if form == "json":
        print(json.dumps(status))
        return
    done = sum(row["state"] == "done" for row in status["studies"])
    state = "a process drives it" if status["driven"] else "nobody drives it"
    print(f"sweep {sweep.name}: {done} of {show_count(len(status['studies']), 'study')} done; {state}")
    if status["studies"]:
        print(plain(status["studies"]))
    if not status["driven"] and sweep.result is None:
        print(f"continue it with: damoos resume {sweep.name}")


@cluster.command()
def up(
    local: Annotated[
        str,
        typer.Option(
            help="Machines, one node for each: i3,m5d,z1d; a machine may be named twice.",
            autocompletion=complete.several(complete.machines),
        ),
    ],
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Start Ray's dashboard, which asks for the token.")
    ] = False,
) -> None:
    """Start a Ray cluster on this computer, on loopback, with a node for each machine.

    Example: damoos cluster up --local i3,m5d,z1d
    """
    from damoos.dispatch import cluster as clusters

    names = [word.strip() for word in local.split(",") if word.strip()]
    started = clusters.up(names, dashboard)
    print(f"cluster at {started.address}: {', '.join(names)}; 'damoos sweep --ray auto' uses it")
    if started.dashboard:
        print(f"Ray's dashboard: {started.dashboard}; it asks for the token in {started.token_file}")


@cluster.command()
def down() -> None:
    """End the Ray cluster that 'damoos cluster up' started.

    Example: damoos cluster down
    """
    from damoos.dispatch import cluster as clusters

    print(f"cluster at {clusters.down().address} ended")


@cluster.command()
def token() -> None:
    """Print the file of the token for Ray clusters of several hosts; it is made if need be.

    Copy it to each host by SSH; docs/fleet.md shows how. A cluster of 'damoos cluster up' has a token of its own.

    Example: damoos cluster token
    """
    from damoos.dispatch import ray_token

    print(ray_token.own_file())


@contextmanager
def watched(form: str) -> Iterator[Any]:
    """What is told how a sweep goes: a table, lines, or JSON lines."""
    from damoos.report.sweep.progress import JsonLines, Lines, LiveTable, Silent

    console = terminal.console(stderr=True)
    if form == "jsonl":
        display: Any = JsonLines(sys.stdout)
    elif loudness.get() is Loudness.QUIET:
        display = Silent()
    elif console.is_terminal and loudness.get() is not Loudness.VERBOSE:
        display = LiveTable(console)
    else:
        display = Lines(console)
    try:
        yield display
    finally:
        display.close()


def _print_estimate(config: Any, form: str) -> None:
    from damoos.sweeps.estimate import estimate

    rows = estimate(config)
    if form != "text":
        print(json.dumps(rows))
        return
    for row in rows:
        money = "" if row["usd"] is None else f", {row['usd']:.2f} USD"
        print(
            f"{row['machine']:<12} {show_count(row['studies'], 'study')}, {show_count(row['trials'], 'trial')},"
            f" {show_count(row['runs'], 'run')},"
            f" about {row['hours']:.1f} h{money}"
        )
    hours = sum(row["hours"] for row in rows)
    print(f"{'all':<12} {sum(row['runs'] for row in rows)} runs, about {hours:.1f} machine-hours")


def check(said: dict[str, Any], listed: bool) -> None:
    """The exit code: machines that were not fit, studies that failed, nothing found where something was sought."""
    failures = said["failures"]
    if any(failure["of"] == "machine" for failure in failures):
        raise UnsupportedError(_failed(said))
    if failures:
        raise TooManyFailures(_failed(said))
    if not listed and all(row["score"] is None for row in said["studies"]):
        raise NothingFeasible(
            f"sweep '{said['sweep']}': no study has a scheme that kept the limits of the score. Leave the workloads"
            " without a scheme, or start a new sweep with wider limits (--limit, or --score weighted --limit"
            " 'slowdown<=0.2'), other ranges (--tune) or more trials"
        )


def _failed(said: dict[str, Any]) -> str:
    failures, count = said["failures"], show_count(len(said["studies"]), "study")
    return (
        f"sweep '{said['sweep']}': {len(failures)} of {count} failed, the first one:"
        f" {failures[0]['error']}; 'damoos resume {said['sweep']}' tries them again"
    )
