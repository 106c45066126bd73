"""Charts as pictures (PNG, SVG), by matplotlib."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from damoos.report.charts import layers as of
from damoos.report.charts.content import Content, Panel, label_length, wrapped
from damoos.report.charts.layers import Axis
from damoos.report.charts.style import DIVERGING, GREY, NOTHING, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "cross": "P", "star": "*",
    "x": "x", "x-thick": "X",
}  # fmt: skip
_DASHES: dict[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)), "longdashdot": (0, (8, 3, 1, 3)),
}  # fmt: skip
# Text stays text, so that it can be searched; a fixed salt makes equal charts equal files; a dollar sign in somebody's
# command is no mathematics.
_RULES: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "damoos", "text.parse_math": False, "font.size": 9}
_ABSENT = "no value"


def _import_matplotlib() -> None:
    """Import matplotlib without the ``matplotlibrc`` of the current folder, which may be another user's.

    matplotlib reads that file before all others, even before the one that ``MATPLOTLIBRC`` names, and it can have
    LaTeX run on text of its author's (``text.usetex``). The user's own, in ``~/.config/matplotlib``, is read.
    """
    if "matplotlib" in sys.modules:
        return
    exists = os.path.exists
    os.path.exists = lambda path: path != "matplotlibrc" and exists(path)
    try:
        import matplotlib  # noqa: F401 - it reads its file now
    finally:
        os.path.exists = exists


def save(chart: Content, out: BinaryIO, form: str) -> None:
    """Draw a chart into an open file.

    Parameters
    ----------
    form : {"png", "svg"}

    Raises
    ------
    OSError : the file cannot be written
    """
    _import_matplotlib()
    from matplotlib import rc_context

    with rc_context(_RULES):
        figure(chart).savefig(out, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)


def png(chart: Content) -> bytes:
    """A picture of a chart as bytes."""
    out = io.BytesIO()
    save(chart, out, "png")
    return out.getvalue()


def figure(chart: Content) -> Figure:
    """Draw a chart."""
    _import_matplotlib()
    from matplotlib.figure import Figure

    picture = Figure(figsize=chart.inches, layout="constrained")
    picture.suptitle("\n".join(wrapped(chart.title, round(13 * chart.inches[0]))), fontsize=10)
    rows = math.ceil(len(chart.panels) / chart.columns)
    grid = picture.subplots(rows, chart.columns, squeeze=False, sharex="col" if chart.shares_x else "none")
    for axes in grid.ravel()[len(chart.panels) :]:
        axes.remove()
    for at, (axes, panel) in enumerate(zip(grid.ravel(), chart.panels, strict=False)):
        _panel(axes, panel)
        axes.set_ylabel("\n".join(wrapped(panel.y.label, label_length(chart))), fontsize=9)
        if not chart.shares_x or at >= len(chart.panels) - chart.columns:
            axes.set_xlabel(panel.x.label, fontsize=9)
    shown: dict[str, Any] = {}
    for axes in picture.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if shown:
        fitting = max(1, int(picture.get_figwidth() * 13 / (6 + max(map(len, shown)))))
        picture.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=fitting, fontsize=8)
    return picture


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9)
    axes.set_axisbelow(True)
    if not any(isinstance(layer, of.Cells) for layer in panel.layers):
        axes.grid(alpha=0.3, axis="y" if panel.x.words else "both")
    for layer in panel.layers:
        _DRAWN[type(layer)](axes, panel, layer)
    _ticks(axes.xaxis, panel.x, panel)
    _ticks(axes.yaxis, panel.y, panel)
    if panel.x.from_zero:
        axes.set_xlim(left=0)
    if panel.y.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")  # its own is TeX, which a chart's words are not read as
    if panel.y.from_zero:
        axes.set_ylim(bottom=0)


def _ticks(axis: Any, of_panel: Axis, panel: Panel) -> None:
    axis.set_tick_params(labelsize=8)
    if of_panel.is_share:
        axis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    if of_panel.words:
        slanted = of_panel is panel.x and len(of_panel.words) > 3
        how: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
        axis.set_ticks(range(len(of_panel.words)), of_panel.words, fontsize=8, **how)


def _points(axes: Axes, panel: Panel, layer: of.Points) -> None:
    y = np.asarray(layer.y, dtype=float)
    reach = [y - np.asarray(layer.low), np.asarray(layer.high) - y] if len(layer.low) else None
    size = 7 if layer.marker.startswith("x") else 5
    axes.errorbar(
        layer.x, y, yerr=reach, fmt=_MARKERS[layer.marker], color=layer.colour, markersize=size, elinewidth=0.9,
        capsize=2, label=layer.name, zorder=3,
    )  # fmt: skip


def _line(axes: Axes, panel: Panel, layer: of.Line) -> None:
    axes.plot(layer.x, layer.y, color=layer.colour, linestyle=_DASHES[layer.dash], label=layer.name)
    if len(layer.low):
        axes.fill_between(np.asarray(layer.x), layer.low, layer.high, color=layer.colour, alpha=0.18, linewidth=0)


def _span(axes: Axes, panel: Panel, layer: of.Span) -> None:
    for low, high in layer.spans:
        axes.axvspan(
            low, high, facecolor=layer.colour, alpha=0.06 if layer.is_faint else 0.16, linewidth=0,
            edgecolor=layer.colour, hatch="///" if layer.is_faint else None, label=layer.name,
        )  # fmt: skip


def _level(axes: Axes, panel: Panel, layer: of.Level) -> None:
    axes.axhline(layer.at, color=layer.colour, linestyle=_DASHES[layer.dash], linewidth=1, label=layer.name)


def _upright(axes: Axes, panel: Panel, layer: of.Upright) -> None:
    for at in layer.at:
        axes.axvline(at, color=layer.colour, linestyle=_DASHES[layer.dash], linewidth=1, label=layer.name)


def _steps(axes: Axes, panel: Panel, layer: of.Steps) -> None:
    if layer.is_filled:
        axes.stairs(layer.values, layer.x, color=layer.colour, fill=True, alpha=0.25)
    axes.stairs(
        layer.values, layer.x, color=layer.colour, baseline=None, linestyle=_DASHES[layer.dash], label=layer.name
    )
    axes.margins(x=0)


def _stack(axes: Axes, panel: Panel, layer: of.Stack) -> None:
    tops = np.cumsum(layer.values, axis=1)
    for at, (name, colour) in enumerate(zip(layer.names, layer.colours, strict=True)):
        below = tops[:, at - 1] if at else np.zeros(len(tops))
        axes.stairs(tops[:, at], layer.x, baseline=below, fill=True, color=colour, label=name)
    axes.margins(x=0)


def _bars(axes: Axes, panel: Panel, layer: of.Bars) -> None:
    series = [bars for bars in panel.layers if isinstance(bars, of.Bars)]
    nth, width = series.index(layer), 0.84 / len(series)
    places = [at + (nth - (len(series) - 1) / 2) * width for at in range(len(layer.cells))]
    known = [(places[at], *rest) for at, *rest in layer.known()]
    if known:
        x, y, low, high = np.array(known).T
        axes.bar(
            x, y - layer.neutral, width, bottom=layer.neutral, yerr=[y - low, high - y], label=layer.name,
            color=layer.colour, edgecolor="white", linewidth=0.3, hatch=HATCHES[nth % len(HATCHES)],
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )  # fmt: skip
    for at, mean in layer.broken():
        axes.plot(places[at], mean, "X", color=RED, markeredgecolor="white", markersize=9, zorder=4)
    for missing in (at for at, cell in zip(places, layer.cells, strict=True) if cell is None):
        axes.text(missing, layer.neutral, _ABSENT, rotation=90, ha="center", va="bottom", fontsize=6, color=GREY)
    axes.axhline(layer.neutral, color=GREY, linewidth=0.8)
    axes.margins(y=0.12)


def _cells(axes: Axes, panel: Panel, layer: of.Cells) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    map_ = LinearSegmentedColormap.from_list("better", DIVERGING) if layer.is_diverging else colormaps["inferno"]
    least, most = (-layer.most if layer.is_diverging else 0.0), layer.most
    cells = np.ma.masked_invalid(layer.values.T)
    colours = map_.with_extremes(bad=NOTHING)
    image = axes.pcolormesh(layer.x, layer.y, cells, cmap=colours, vmin=least, vmax=most, rasterized=not layer.texts)
    bar = axes.figure.colorbar(image, ax=axes, format="{x:.0%}" if layer.is_share else "{x:.3g}")
    bar.set_label("\n".join(wrapped(layer.name, round(0.14 * axes.figure.bbox.height))), fontsize=8)
    middles = [(edges[:-1] + edges[1:]) / 2 for edges in (layer.x, layer.y)]
    for nx, column in enumerate(layer.texts):
        for ny, text in enumerate(column):
            value = layer.values[nx, ny]
            red, green, blue, _ = colours((value - least) / (most - least)) if not math.isnan(value) else (1, 1, 1, 1)
            colour = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            axes.text(middles[0][nx], middles[1][ny], text, ha="center", va="center", fontsize=8, color=colour)


HATCHES = (None, "//", "..", "\\\\", "xx", "--", "oo")
_DRAWN: dict[type[of.Layer], Callable[[Any, Panel, Any], None]] = {
    of.Points: _points,
    of.Line: _line,
    of.Span: _span,
    of.Level: _level,
    of.Upright: _upright,
    of.Steps: _steps,
    of.Stack: _stack,
    of.Bars: _bars,
    of.Cells: _cells,
}
