"""Charts of recordings on a terminal: in colour where there is colour, by brightness of characters elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from damoos.recordings.recording import Floats
from damoos.report.charts.chart import Chart
from damoos.report.charts.layers import Bars, Cells, Layer, Stack, Steps
from damoos.report.charts.style import NOTHING
from damoos.units import MIB, show_bytes

# Matplotlib's inferno in eight steps; between them colours are mixed.
_INFERNO = ("#000004", "#210c4a", "#57106e", "#8a226a", "#bc3754", "#e45a31", "#f98e09", "#f9cb35", "#fcffa4")
_BLOCKS, _ASCII = " ░▒▓█", " .:=#"
_MARGIN = 14
_ROWS = 20


def in_colour(console: Console) -> bool:
    """Whether a heatmap can be drawn in colours, two cells in each character."""
    return console.is_terminal and not console.no_color and console.color_system in ("truecolor", "256")


def cells(console: Console) -> tuple[int, int]:
    """How many cells of time and of addresses fit."""
    return max(10, console.width - _MARGIN), _ROWS * (2 if in_colour(console) else 1)


def show(chart: Chart, console: Console) -> None:
    """Print a chart, then its numbers."""
    console.print(Text(chart.title), soft_wrap=True)
    for panel in chart.panels:
        # One layer says it all where there is so little room; what else is drawn is in the text below.
        layer = panel.layers[0]
        if not isinstance(layer, Cells):
            console.print(Text(panel.y.label), soft_wrap=True)
        for line in _lines(layer, panel.x.words, console):
            console.print(line, no_wrap=True, overflow="crop", crop=True)
    for text in chart.text:
        console.print(Text(text), soft_wrap=True)


def _lines(layer: Layer, words: Sequence[str], console: Console) -> list[Text]:
    if isinstance(layer, Cells):
        return _heat(layer, console)
    if isinstance(layer, Steps):
        return _bars(*_sampled(layer.x, layer.values[:, np.newaxis]), console)
    if isinstance(layer, Stack):
        return _bars(*_sampled(layer.x, layer.values), console, layer.names, layer.colours)
    if isinstance(layer, Bars):
        values = [0.0 if cell is None else cell["mean"] for cell in layer.cells]
        return _bars(words, np.array(values)[:, np.newaxis], console)
    return []


def _heat(layer: Cells, console: Console) -> list[Text]:
    """Rows of addresses, the highest on top; time goes to the right."""
    most = max(float(np.nanmax(layer.values)), 1e-9)
    wide = max(1, cells(console)[0] // len(layer.values))  # a short recording, too, takes the width
    grid = np.repeat(layer.values.T[::-1] / most, wide, axis=1)
    pair = in_colour(console)
    if pair and len(grid) % 2:
        grid = np.vstack([np.full(grid.shape[1], np.nan), grid])
    step = 2 if pair else 1
    rows = [
        _pair_row(grid[at], grid[at + 1]) if pair else _ramp_row(grid[at], console) for at in range(0, len(grid), step)
    ]
    high, low = show_bytes(float(layer.y[-1]) * MIB), show_bytes(float(layer.y[0]) * MIB)
    labels = [high, *[""] * (len(rows) - 2), low] if len(rows) > 1 else [high]
    lines = [Text(f"{label:>{_MARGIN - 2}} ") + row for label, row in zip(labels, rows, strict=True)]
    width, end = grid.shape[1], f"{layer.x[-1]:.4g} s"
    scale = f"{layer.name.partition(';')[0]}: 0 "
    return [
        *lines,
        Text(" " * (_MARGIN - 1) + f"{layer.x[0]:<{max(1, width - len(end))}.4g}" + end),
        Text(" " * (_MARGIN - 1) + scale) + _ramp_row(np.linspace(0, 1, 20), console, pair) + Text(f" {most:.0%}"),
    ]


def _pair_row(upper: Floats, lower: Floats) -> Text:
    row = Text()
    for above, below in zip(upper, lower, strict=True):
        row.append("▀", Style(color=_colour(above), bgcolor=_colour(below)))
    return row


def _ramp_row(values: Floats, console: Console, colours: bool = False) -> Text:
    if colours:
        return Text.assemble(*((" ", Style(bgcolor=_colour(value))) for value in values))
    ramp = _BLOCKS if console.encoding.startswith("utf") else _ASCII
    # Where there is no memory: something that no memory looks like.
    return Text(
        "".join("x" if np.isnan(v) else ramp[min(len(ramp) - 1, int(np.ceil(v * (len(ramp) - 1))))] for v in values)
    )


def _colour(value: float) -> Color:
    if np.isnan(value):
        return Color.parse(NOTHING)
    position = min(max(float(value), 0.0), 1.0) * (len(_INFERNO) - 1)
    low = min(int(position), len(_INFERNO) - 2)
    pairs = zip(Color.parse(_INFERNO[low]).triplet or (), Color.parse(_INFERNO[low + 1]).triplet or (), strict=True)
    return Color.from_rgb(*(first + (second - first) * (position - low) for first, second in pairs))


def _sampled(x: Floats, values: Floats) -> tuple[list[str], Floats]:
    """At most `_ROWS` equal parts of time, each with its mean; a part without an aggregation has none."""
    middles = (x[:-1] + x[1:]) / 2
    edges = np.linspace(x[0], x[-1], min(_ROWS, len(values)) + 1)
    parts = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, len(edges) - 2)
    kept = np.unique(parts)
    means = np.stack([values[parts == part].mean(axis=0) for part in kept])
    return [f"{edges[part]:.4g} s" for part in kept], means


def _bars(
    labels: Sequence[str], values: Floats, console: Console, names: Sequence[str] = (), own: Sequence[str] = ()
) -> list[Text]:
    """A row each label, its values one after the other as characters; ``own`` are the colours of the names."""
    room = max(10, console.width - _MARGIN - 10)
    most = max(float(values.sum(axis=1).max()), 1e-9)
    marks = "█▓▒░+." if console.encoding.startswith("utf") else "#=+:-."
    colours: Sequence[str] = ("",) * len(marks)
    if names and in_colour(console):
        marks, colours = "█" * len(own), own
    width = max(_MARGIN - 2, *map(len, labels))
    lines = []
    for label, row in zip(labels, values, strict=True):
        ends = np.rint(np.cumsum(row) / most * room).astype(int)
        line = Text(f"{label:>{width}} ")
        for mark, colour, begin, end in zip(marks, colours, [0, *ends[:-1]], ends, strict=False):
            line.append(mark * (end - begin), colour)
        lines.append(line + Text(f" {row.sum():.4g}"))
    if names:
        legend = Text(" " * (width + 1))
        for mark, colour, name in zip(marks, colours, names, strict=False):
            legend.append(mark, colour).append(f" {name}   ")
        lines.append(legend)
    return lines
