"""Options that every command takes, before its name or after it: how much is said."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from damoos.cli.common import GENERAL, Loudness, loudness
from damoos.errors import ConfigError


def _says(wanted: Loudness) -> Any:
    """What an option does when it is met: Typer calls this for each command on the line, also where it is not given."""

    def take(context: typer.Context, given: bool) -> None:
        if given and not context.resilient_parsing:  # a shell only completes words
            if loudness.get() not in (Loudness.NORMAL, wanted):
                raise ConfigError("--quiet and --verbose: give one of them")
            loudness.set(wanted)

    return take


def _general(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="No progress: only results, warnings and errors.", rich_help_panel=GENERAL,
            expose_value=False, is_eager=True, callback=_says(Loudness.QUIET),
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Lines in place of a table, with all that each run measured.",
            rich_help_panel=GENERAL, expose_value=False, is_eager=True, callback=_says(Loudness.VERBOSE),
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show a traceback for errors.", rich_help_panel=GENERAL, expose_value=False),
    ] = False,
) -> None:  # fmt: skip
    """Have Typer make the options; nobody calls this."""


def _made() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_general)
    return typer.main.get_command(app).params


OPTIONS = _made()
