"""The commands about what there is to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from damoos.cli import complete
from damoos.cli.common import Format, MarkdownFormat, check_format, comma_separated, print_rows, say

FAILED = 1

workloads = typer.Typer(invoke_without_command=True)
_Names = Annotated[
    str,
    typer.Option(
        "--workloads",
        help="Comma-separated names or patterns, such as 'redis/*'.",
        autocompletion=complete.several(complete.workloads),
    ),
]
_Machine = Annotated[str, typer.Option(help="Machine name or TOML file.", autocompletion=complete.machines)]


@workloads.callback()
def list_workloads(context: typer.Context, form: Format = "text") -> None:
    """List the workloads; the commands below explain, add and measure them.

    Example: damoos workloads
    """
    if not context.invoked_subcommand:
        _print_all(form)


def _print_all(form: str) -> None:
    from damoos.workloads import catalog

    check_format(form)
    rows = [{"name": name, "description": catalog.find(name)[1].description} for name in catalog.names()]
    print_rows(rows, form)


@workloads.command("list")
def list_again(form: Format = "text") -> None:
    """List the workloads, as 'damoos workloads' does.

    Example: damoos workloads list
    """
    _print_all(form)


@workloads.command()
def show(
    name: Annotated[str, typer.Argument(help="Workload name or TOML file.", autocompletion=complete.workloads)],
    form: Format = "text",
) -> None:
    """Explain one workload: what it runs, what it needs, what it reports, its range, its model.

    Example: damoos workloads show splash2x/fft
    """
    from damoos.report.workloads import explanation
    from damoos.workloads import catalog

    check_format(form)
    path, file = catalog.find(name)
    if form == "json":
        print(
            json.dumps({"name": name, "path": str(path), **file.model_dump(exclude_none=True, by_alias=True)}, indent=2)
        )
    else:
        print("\n".join(explanation(name, path, file)))


@workloads.command()
def new(path: Annotated[Path, typer.Argument(help="File to write, such as mine.toml.")]) -> None:
    """Write a workload file of your own, with every key explained.

    Example: damoos workloads new mine.toml && damoos tune --workload ./mine.toml
    """
    from damoos.cli.templates import workload_file

    workload_file(path)
    say(f"wrote {path}; try it with: damoos tune --workload {path}")


@workloads.command()
def install(
    suite: Annotated[
        str,
        typer.Argument(
            help="parsec3, splash2x, splash3, cassandra, ycsb, spark or duckdb.",
            autocompletion=complete.choices(*complete.SUITES),
        ),
    ],
    source: Annotated[str, typer.Option("--from", help="Folder with the suite, or a URL that git can clone.")],
    machine: Annotated[
        str, typer.Option(help="Guest in which each program is tried once.", autocompletion=complete.machines)
    ] = "guest",
    form: Format = "text",
) -> None:
    """Build a suite from your copy, install it in the guests, and run each program once at its smallest input.

    What fails to build or to run is named; exit code 1 if nothing works. A program that takes two suites (cassandra and
    ycsb) is tried when both are there.

    Example: damoos workloads install splash3 --from ~/Splash-3
    """
    from damoos.bench.suite import try_out
    from damoos.workloads.install import install as build

    check_format(form)
    about = build(suite, source, say)
    tried = try_out(about["suite"], machine, say)
    if form == "json":
        print(json.dumps({**about, "works": tried.works, "fails": tried.fails, "waits": tried.waits}, indent=2))
    else:
        print(f"{about['suite']} ({about['commit']}): {about['path']}")
        for name, why in about["failed"].items():
            print(f"not built: {name}: {why}")
        print(f"works: {', '.join(tried.works) or 'nothing'}")
        for name, why in tried.fails.items():
            print(f"does not work: {name}: {why}")
        for name, suites in tried.waits.items():
            print(f"not tried yet: {name} needs {' and '.join(suites)}, too")
    if not tried.works and not tried.waits:
        raise typer.Exit(FAILED)


@workloads.command("check-models")
def check_models(
    names: _Names = "parsec3/*,splash2x/*",
    machine: _Machine = "guest",
    curves: Annotated[Path | None, typer.Option(help="Folder of published scores for each min_age.")] = None,
    form: Format = "text",
) -> None:
    """Run the models and print them beside published results; exit code 1 if a model does not follow them.

    Example: damoos workloads check-models --workloads parsec3/raytrace
    """
    from damoos.bench.workloads import chosen, compare

    check_format(form)
    models = chosen(comma_separated(names, "--workloads"))
    comparisons, astray = {}, False
    if form == "text":
        print(f"{'workload':<24} {'':<40} {'model':>9} {'published':>9}")
    for name in models:
        comparisons[name] = compare(name, machine, say, curves)
        astray |= not all(row.follows for row in comparisons[name])
        for row in comparisons[name] if form == "text" else ():
            word = "" if row.follows else "  does not follow"
            print(f"{name:<24} {row.what:<40} {row.model:>9.3g} {row.published:>9.3g}{word}", flush=True)
    if form == "json":
        print(json.dumps({name: [vars(row) for row in rows] for name, rows in comparisons.items()}, indent=2))
    if astray:
        raise typer.Exit(FAILED)


@workloads.command("measure")
def measure_workloads(
    names: _Names,
    machine: _Machine = "guest",
    form: MarkdownFormat = "text",
) -> None:
    """Run workloads without a scheme and under the manual one: time, memory, their own metrics.

    Example: damoos workloads measure --workloads 'redis/*' --format markdown
    """
    from damoos.bench.workloads import COLUMNS, chosen, measure, row_of

    check_format(form, "markdown")
    matches = chosen(comma_separated(names, "--workloads"))
    if form != "json":
        print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}" if form == "markdown" else "  ".join(COLUMNS))
    rows = []
    for name in matches:
        rows.append(row_of(name, measure(name, machine, say)[0]))
        if form == "markdown":
            print(f"| {' | '.join(rows[-1].values())} |", flush=True)
        elif form == "text":
            print("  ".join(rows[-1].values()), flush=True)
    if form == "json":
        print(json.dumps(rows, indent=2))
