"""The commands about where there is to run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from damoos.cli import complete
from damoos.cli.common import Format, check_format, print_rows, say
from damoos.errors import UnsupportedError

app = typer.Typer()
machines = typer.Typer(invoke_without_command=True)
_Name = Annotated[str, typer.Argument(help="Machine name or TOML file.", autocompletion=complete.machines)]


@machines.callback()
def list_machines(context: typer.Context, form: Format = "text") -> None:
    """List the machines; 'show' explains one, 'damoos doctor' examines one.

    Example: damoos machines
    """
    if not context.invoked_subcommand:
        _print_all(form)


def _print_all(form: str) -> None:
    from damoos.machines import catalog

    check_format(form)
    print_rows([{"name": name, "description": catalog.description(name)} for name in catalog.names()], form)


@machines.command("list")
def list_again(form: Format = "text") -> None:
    """List the machines, as 'damoos machines' does.

    Example: damoos machines list
    """
    _print_all(form)


@machines.command()
def show(name: _Name, form: Format = "text") -> None:
    """Explain one machine: its file, and everything that follows from it; the machine itself is not asked.

    Example: damoos machines show i3
    """
    from damoos.machines.explain import explain
    from damoos.report.machines import explanation

    check_format(form)
    about = explain(name)
    print(json.dumps(about, indent=2) if form == "json" else "\n".join(explanation(about)))


@app.command()
def doctor(
    name: _Name,
    clean: Annotated[
        bool, typer.Option("--clean", help="First undo what earlier runs could not undo on the machine.")
    ] = False,
    form: Format = "text",
) -> None:
    """Examine a machine: whether runs on it can be trusted, and what to do if not; exit code 3 if it is not fit.

    Example: damoos doctor guest
    """
    from damoos.doctor import examine_machine, fit, why_unfit
    from damoos.machines import catalog
    from damoos.report.machines import findings

    check_format(form)
    examined = examine_machine(catalog.machine(name), say, clean)
    if form == "json":
        answer = {"machine": name, "fit": fit(examined), "findings": [asdict(finding) for finding in examined]}
        print(json.dumps(answer, indent=2))
    else:
        print("\n".join(findings(examined)))
    if not fit(examined):
        raise UnsupportedError(f"machine '{name}' is not fit: {why_unfit(examined)}")


@app.command()
def look(name: _Name, form: Format = "text") -> None:
    """Show what a host's own DAMON_STAT has seen, without taking the host: nothing is changed, and nobody waits.

    Example: damoos look local
    """
    from damoos.machines import catalog
    from damoos.report.machines import first_look

    check_format(form)
    seen = catalog.machine(name).look()
    print(json.dumps({"machine": name, **seen}, indent=2) if form == "json" else "\n".join(first_look(seen)))
