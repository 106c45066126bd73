"""A chart as a file, whose ending says the form."""

from __future__ import annotations

from pathlib import Path

from damoos.errors import ConfigError
from damoos.report.chart import Chart
from damoos.store.artifacts import Artifacts

FORMS = (".png", ".svg", ".html", ".csv")


def check_ending(path: Path) -> None:
    """Refuse a file of another form.

    Raises
    ------
    ConfigError : none of the four endings
    """
    if path.suffix not in FORMS:
        raise ConfigError(f"{path}: unknown ending '{path.suffix}'; known: {', '.join(FORMS)}")


def save(chart: Chart, path: Path) -> Path:
    """Write a chart to a file, whole or not at all.

    Raises
    ------
    ConfigError : unknown ending
    StoreError : the file cannot be written
    """
    check_ending(path)

    def fill(draft: Path) -> None:
        if path.suffix == ".csv":
            chart.table.to_csv(draft, index=False)
        elif path.suffix == ".html":
            from damoos.report import page

            page.save(chart, draft)
        else:
            from damoos.report import plot

            plot.save(chart, draft, path.suffix[1:])

    return Artifacts(path.parent).write_bytes(path.name, fill)
