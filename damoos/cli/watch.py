"""The commands that let people look on: at a study that another process runs, at all studies in a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from damoos.cli import complete
from damoos.cli.common import RESULTS, Format, Results, Storage, check_format, say
from damoos.cli.studies import Watching, check_feasible
from damoos.cli.sweeps import check, watched

if TYPE_CHECKING:
    from damoos.sweeps.sweep import Sweep

app = typer.Typer()
INTERRUPTED = 130


@app.command()
def watch(
    name: Annotated[
        str, typer.Argument(help="Name of a study, or of a sweep.", autocompletion=complete.studies_and_sweeps)
    ],
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Watch a study or sweep that another process runs until it ends; then print its result.

    The exit code is that of the study or sweep. Ctrl-C ends the looking on, and nothing else.

    Example: damoos watch parsec3-raytrace-guest-1
    """
    from damoos.sweeps import sweep as sweeps

    check_format(form)
    try:
        if name in sweeps.names(results):
            _watch_sweep(sweeps.load(results, name, storage), form)
        else:
            _watch_study(name, results, storage, form)
    except KeyboardInterrupt:
        say(f"stopped watching; {name} continues")
        sys.exit(INTERRUPTED)


def _watch_study(name: str, results: Path, storage: str | None, form: str) -> None:
    from damoos import api
    from damoos.report import follow

    stored = api.load_study(name, results=results, storage=storage)
    with Watching() as watcher:
        result = follow.study(stored.study, watcher)
    print(json.dumps(result, indent=2) if form == "json" else repr(stored))
    check_feasible(stored)


def _watch_sweep(found: Sweep, form: str) -> None:
    from damoos.api import comparisons
    from damoos.report import follow
    from damoos.report.sweep import progress

    with watched(form) as event:
        result = follow.sweep(found, event)
    listed = comparisons.is_evaluation(found)
    if form == "json":
        print(json.dumps(result))
    elif listed and any(row["state"] == "done" for row in result["studies"]):
        print(repr(comparisons.Evaluated(found)))
    else:
        print(progress.summary(result))
    check(result, listed)


@app.command()
def dashboard(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any free port.")] = 8080,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the browser write notes, rename and delete studies.")
    ] = False,
    results: Results = RESULTS,
    storage: Storage = None,
) -> None:
    """Serve optuna-dashboard with the studies and their files, on this computer only and read-only.

    Example: damoos dashboard --port 8080
    """
    from damoos.dashboard import serve

    serve(results, storage, port, allow_writes, lambda text: print(f"dashboard: {text}", flush=True))
