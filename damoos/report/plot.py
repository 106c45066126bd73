"""Charts of recordings as pictures (PNG, SVG), by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from damoos.report.chart import (
    BLUE,
    GREY,
    NOTHING,
    ORANGE,
    STACK_COLOURS,
    BarChart,
    Chart,
    HeatChart,
    StackChart,
    StepChart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save(chart: Chart, path: Path, form: str) -> None:
    """Draw a chart into a file.

    Parameters
    ----------
    form : {"png", "svg"}

    Raises
    ------
    OSError : the file cannot be written
    """
    from matplotlib import rc_context

    # Text stays text, so that it can be searched; a fixed salt makes equal charts equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "damoos"}):
        figure(chart).savefig(path, format=form, dpi=150)


def figure(chart: Chart) -> Figure:
    """Draw a chart."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = made.add_subplot()
    # A dollar sign in somebody's command is no mathematics.
    axes.set_title(chart.title, fontsize=9, parse_math=False)
    axes.set_xlabel(chart.x_label, parse_math=False)
    axes.set_ylabel(chart.y_label, parse_math=False)
    if isinstance(chart, HeatChart):
        _heat(axes, chart)
        return made
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    if isinstance(chart, StepChart):
        _steps(axes, chart)
    elif isinstance(chart, StackChart):
        _stack(axes, chart)
    elif isinstance(chart, BarChart):
        _bars(axes, chart)
    axes.set_ylim(bottom=0)
    return made


def _heat(axes: Axes, chart: HeatChart) -> None:
    from matplotlib import colormaps

    colours = colormaps["inferno"].with_extremes(bad=NOTHING)
    most = float(np.nanmax(chart.cells)) or 1.0  # a scale also where nothing was accessed
    cells = np.ma.masked_invalid(chart.cells.T)
    image = axes.pcolormesh(chart.x, chart.y, cells, cmap=colours, vmin=0, vmax=most, rasterized=True)
    bar = axes.figure.colorbar(image, ax=axes, format="{x:.0%}")
    bar.set_label(chart.cells_label + ("; grey: no memory" if np.isnan(chart.cells).any() else ""), fontsize=8)


def _steps(axes: Axes, chart: StepChart) -> None:
    axes.stairs(chart.values, chart.x, color=BLUE, fill=True, alpha=0.25)
    axes.stairs(chart.values, chart.x, color=BLUE, baseline=None)
    for (name, value), colour, line in zip(chart.marks.items(), (ORANGE, GREY), ("--", ":"), strict=False):
        axes.axhline(value, color=colour, linestyle=line, label=f"{name}: {value:.4g}")
    axes.set_xlim(chart.x[0], chart.x[-1])
    axes.set_ylim(top=1.15 * max(chart.values.max(), *chart.marks.values(), 1e-9))
    if chart.marks:
        axes.legend(fontsize=8, loc="upper right", ncols=len(chart.marks))


def _stack(axes: Axes, chart: StackChart) -> None:
    tops = np.cumsum(chart.values, axis=1)
    for at, (name, colour) in enumerate(zip(chart.names, STACK_COLOURS, strict=True)):
        below = tops[:, at - 1] if at else np.zeros(len(tops))
        axes.stairs(tops[:, at], chart.x, baseline=below, fill=True, color=colour, label=name)
    axes.set_xlim(chart.x[0], chart.x[-1])
    axes.legend(
        fontsize=8, title="last access", title_fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True
    )


def _bars(axes: Axes, chart: BarChart) -> None:
    width = 0.8 / len(chart.series)
    places = np.arange(len(chart.classes))
    for at, ((name, values), colour) in enumerate(zip(chart.series.items(), (BLUE, ORANGE), strict=False)):
        axes.bar(places + (at - (len(chart.series) - 1) / 2) * width, values, width, color=colour, label=name)
    axes.set_xticks(places, chart.classes, rotation=35, ha="right", fontsize=8)
    axes.legend(fontsize=8)
