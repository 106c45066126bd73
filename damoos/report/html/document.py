"""A report: its page, and its figures as SVG and CSV in a folder beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.report.charts.chart import save
from damoos.report.charts.page import Figure
from damoos.report.page import render
from damoos.store.artifacts import SHARED, Artifacts


def write(path: Path, template: str, figures: Sequence[Figure] = (), **context: Any) -> list[Path]:
    """Write a page, and its figures as SVG and CSV into a folder beside it.

    Parameters
    ----------
    path : Path
        ``report.html``; the figures are then in ``report-figures/``.
    template : str
        Name of a template without its endings.
    figures : sequence of Figure
    **context
        What the template asks for.

    Returns
    -------
    list of Path
        The page first.

    Raises
    ------
    StoreError : a file cannot be written
    """
    folder = path.with_name(f"{path.stem}-figures")
    by_key = {figure.key: figure for figure in figures}
    text = render(template, figures=by_key, folder=folder.name, **context)
    written = [Artifacts(path.parent).write_text(path.name, text, SHARED)]
    return written + [
        save(figure.chart, folder / f"{figure.key}.{ending}") for figure in figures for ending in ("svg", "csv")
    ]
