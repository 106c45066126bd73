"""The commands. Everything heavy is imported inside them, so that ``--help`` is quick."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from damoos.cli import (
    bench,
    cache,
    comparisons,
    kernels,
    machines,
    recordings,
    report_html,
    reports,
    rollouts,
    service,
    settings,
    setup,
    stored,
    studies,
    sweeps,
    watch,
    workloads,
)
from damoos.cli.common import Loudness, loudness
from damoos.cli.help import TasksHelp, lay_out
from damoos.common import terminal
from damoos.errors import DamoosError

if TYPE_CHECKING:
    from typer._click.core import Command

INTERRUPTED = 130
# As sysexits.h has it: an error inside of the program.
INTERNAL = 70
# After how long an interrupt that was lost comes again.
AGAIN_S = 0.1

app = typer.Typer(
    help="Find the best DAMON-based scheme for a workload on a machine, prove it, put it into service.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    cls=TasksHelp,
    pretty_exceptions_enable=False,
)
for part in (studies, service, rollouts, stored, recordings, sweeps, watch, comparisons, machines, setup):
    app.add_typer(part.app)
app.add_typer(stored.studies, name="studies")
app.add_typer(machines.machines, name="machines")
app.add_typer(sweeps.cluster, name="cluster")
app.add_typer(cache.cache, name="cache")
app.add_typer(settings.config, name="config")
app.add_typer(workloads.workloads, name="workloads")
app.add_typer(bench.bench, name="bench")
app.add_typer(kernels.kernel, name="kernel")
app.add_typer(bench.plugin, name="plugin")
reports.report.add_typer(report_html.app)
app.add_typer(reports.report, name="report")
lay_out(app)


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> None:
    """Take the options that all commands share."""
    if version:
        from damoos import __version__

        print(f"damoos {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _on_sigterm(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _on_unraisable(what: sys.UnraisableHookArgs) -> None:
    """An interrupt that arrives in a finalizer or in a callback of an import, out of which nothing can be raised."""
    if what.exc_type is KeyboardInterrupt:
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGTERM))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(what)


def take_interrupts() -> None:
    """Have SIGTERM do what Ctrl-C does, and lose neither of them."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    sys.unraisablehook = _on_unraisable


@functools.cache
def command() -> Command:
    """All commands. Typer takes .1 s to make them of their functions."""
    return typer.main.get_command(app)


def main() -> NoReturn:
    """Run a command; errors become one line and an exit code."""
    terminal.guard()
    take_interrupts()
    loudness.set(Loudness.NORMAL)
    if sys.argv[1:2] == ["help"]:  # as other tools have it: damoos help tune
        sys.argv[1:] = [*sys.argv[2:], "--help"]
    try:
        code = command()(prog_name="damoos", standalone_mode=False, default_map=settings.default_map(command()))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except DamoosError as error:
        if "--debug" in sys.argv:
            raise
        _end(str(error), error.exit_code, error.shown)
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except OSError as error:  # a full or read-only disk, wherever it was met
        if "--debug" in sys.argv:
            raise
        _end(f"{error.filename or 'this machine'}: {error.strerror or error}", 3)
    except Exception as error:
        # Typer's own errors of use (unknown command, option or value) carry their message and exit code.
        if not hasattr(error, "format_message"):
            if "--debug" in sys.argv:
                raise
            _end(f"internal error: {_said(error)}; --debug shows where, please report it", INTERNAL)
        context = getattr(error, "ctx", None)
        if context is not None and type(error).__name__ == "NoArgsIsHelpError":  # damoos kernel, and nothing else
            print(context.get_help())
            sys.exit(0)
        _end(error.format_message(), 2)
    if code == INTERRUPTED:  # Typer, too, turns a KeyboardInterrupt into this code
        _end("interrupted", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _said(error: Exception) -> str:
    """An error that nobody expected, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")


def _end(message: str, code: int, shown: str = "") -> NoReturn:
    """End with one line, and what is shown below it."""
    print("damoos: " + message.replace("\n", " "), *shown.splitlines(), sep="\n", file=sys.stderr)
    sys.exit(code)
