"""The command that writes a study, a sweep or a rollout as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from damoos.cli import complete
from damoos.cli.common import RESULTS, Format, Results, Storage, check_format
from damoos.errors import ConfigError
from damoos.units import show_count

app = typer.Typer()

_Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A study, a sweep, an evaluation or a rollout.", autocompletion=complete.resumable
    ),
]
_Page = Annotated[
    Path | None, typer.Option("--output", "-o", help="The file, .html (default: report.html in its folder of results).")
]
_Prices = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with gib_hour and core_hour, as for --score cost; the report then shows what is saved in money."
    ),
]


@app.command()
def html(
    name: _Name,
    output: _Page = None,
    prices: _Prices = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Write a study, a sweep, an evaluation or a rollout as one HTML file, which needs no network and opens from disk.

    Its figures are also written as SVG and as CSV, into a folder beside it: report-figures/ beside report.html.

    Example: damoos report html sweep-1 -o report.html
    """
    from damoos.common import toml_file
    from damoos.report.html import write
    from damoos.scorers.cost import Prices

    check_format(form)
    if output is not None and output.suffix != ".html":
        raise ConfigError(f"{output}: a report is an .html file; its figures are also written as .svg and .csv")
    if prices is not None and not prices.is_file():
        raise ConfigError(f"--prices {prices}: there is no such file")
    worth = None if prices is None else toml_file.load(prices, Prices)
    page, *figures = write(name, results, storage, output, worth)
    if form == "json":
        print(json.dumps({"page": str(page), "figures": [str(figure) for figure in figures]}))
        return
    print(f"written: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if figures:
        print(f"figures: {figures[0].parent}/ ({show_count(len(figures), 'file')}, SVG and CSV)")
