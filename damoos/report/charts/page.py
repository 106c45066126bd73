"""Charts to look closer at, by Plotly: as a figure, and as an HTML page that holds all it needs and asks no network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

from damoos.report.charts.content import Content, label_length, wrapped
from damoos.report.charts.layers import Axis
from damoos.report.charts.traces import DRAWN, lines, plain
from damoos.report.page import render

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Ink by theme; that of "either" is as far from white as it is from black.
INKS = {"light": "#1f1f1f", "dark": "#ececec", "either": "#767676"}
_GRID, _CLEAR = "rgba(128, 128, 128, 0.25)", "rgba(0, 0, 0, 0)"
# Pixels: of an inch of a picture, and of what stands below the lowest axis.
_PIXELS_PER_INCH, _BELOW = 90, 65

# Pixels above a figure's panels: for their names, where there are several.
_TOP = 40


@dataclass(frozen=True)
class Figure:
    """A chart on a page.

    Parameters
    ----------
    key : str
        Name of its files, unique on the page.
    title : str
    says : str
        What there is to see, in a sentence or two.
    chart : Chart
    """

    key: str
    title: str
    says: str
    chart: Content

    @cached_property
    def _plotly(self) -> Any:
        plot = figure(self.chart)
        spare = plot.layout.margin.t - _TOP
        plot.update_layout(title=None, margin={"t": _TOP}, height=plot.layout.height - spare)  # the page has a heading
        return plot

    @property
    def height(self) -> int:
        """Pixels that it takes, so that the page keeps them free until it is drawn."""
        return int(self._plotly.layout.height)

    @property
    def data(self) -> str:
        """All that Plotly needs, as JSON that can stand in a page: without a ``<`` nothing ends its element early."""
        import plotly.io

        return str(plotly.io.to_json(self._plotly, validate=False)).replace("<", "\\u003c")


def template(theme: str) -> go.layout.Template:
    """Colours of text, grid and background; the background is clear, so that a page's own shows.

    Parameters
    ----------
    theme : {"light", "dark", "either"}
        A page that switches gives the other's ``font.color`` to ``Plotly.relayout``; nothing else differs much.
    """
    import plotly.graph_objects as go

    ink = INKS[theme]
    axis = {"gridcolor": _GRID, "linecolor": _GRID, "zerolinecolor": _GRID, "automargin": True, "ticks": ""}
    layout = {
        "font": {"color": ink, "size": 12},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "xaxis": axis,
        "yaxis": axis,
        "colorway": [],
        "legend": {"bgcolor": _CLEAR},
        "modebar": {"bgcolor": _CLEAR, "color": _GRID, "activecolor": ink},
    }
    return go.layout.Template(layout=layout)


def save(chart: Content, out: BinaryIO) -> None:
    """Write a chart as a page into an open file.

    Raises
    ------
    OSError : the file cannot be written
    """
    figure = Figure("chart", chart.title, "", chart)
    text = render("chart", figures={figure.key: figure}, heading=chart.title, lines=chart.text)
    out.write(text.encode())


def bundle(chart: Content) -> dict[str, Any]:
    """What a notebook that knows Plotly is given."""
    import plotly.io

    mimebundle: dict[str, Any] = plotly.io.renderers["plotly_mimetype"].to_mimebundle(figure(chart).to_plotly_json())
    return mimebundle


def figure(chart: Content, theme: str = "either") -> go.Figure:
    """A chart as a Plotly figure.

    Parameters
    ----------
    theme : {"light", "dark", "either"}
    """
    plot = _grid(chart)
    named: set[str] = set()
    for at, panel in enumerate(chart.panels):
        subplot = {"row": at // chart.columns + 1, "col": at % chart.columns + 1}
        plot.update_xaxes(_axis(panel.x, 80), **subplot)
        plot.update_yaxes(_axis(panel.y, label_length(chart)), **subplot)
        if chart.shares_x and at < len(chart.panels) - chart.columns:
            plot.update_xaxes(title_text="", **subplot)
        for layer in panel.layers:
            DRAWN[type(layer)](plot, panel, layer, {**subplot, **_legend(layer.name, named)})
    return plot.update_layout(template=template(theme))


def _grid(chart: Content) -> go.Figure:
    """A figure with room for all panels, their titles, and a legend below."""
    from plotly.subplots import make_subplots

    rows, columns = math.ceil(len(chart.panels) / chart.columns), chart.columns
    title, has_titles = wrapped(chart.title, 110), any(panel.title for panel in chart.panels)
    height = round(chart.inches[1] * _PIXELS_PER_INCH)
    top = 40 + 20 * (len(title) + has_titles)
    gap = (30 if chart.shares_x else 60) + 25 * has_titles
    plot = make_subplots(
        rows, columns, shared_xaxes="columns" if chart.shares_x else False,
        subplot_titles=[plain(panel.title) for panel in chart.panels] if has_titles else None,
        vertical_spacing=min(gap / height, 0.9 / (rows - 1)) if rows > 1 else None,
        horizontal_spacing=0.25 / columns if columns > 1 else None,
    )  # fmt: skip
    plot.update_annotations(font_size=13)
    heading = {"text": "<br>".join(map(plain, title)), "font": {"size": 15}, "x": 0, "xref": "paper"}
    return plot.update_layout(
        title={**heading, "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 12}},
        height=top + height + _BELOW,
        legend={"orientation": "h", "yanchor": "top", "y": -_BELOW / height, "x": 0},
        margin={"l": 60, "r": 20, "t": top, "b": _BELOW},
    )


def _axis(axis: Axis, length: int) -> dict[str, Any]:
    layout: dict[str, Any] = {"title": {"text": lines(axis.label, length), "standoff": 10}}
    layout["hoverformat"] = ".3~p" if axis.is_share else ".4~g"
    if axis.is_share:
        layout["tickformat"] = ".3~p"
    if axis.words:
        count = len(axis.words)
        layout |= {"tickvals": list(range(count)), "ticktext": [plain(word) for word in axis.words]}
        layout["range"] = [-0.6, count - 0.4]
    if axis.is_log:
        layout["type"] = "log"
    if axis.from_zero:
        layout["rangemode"] = "tozero"
    return layout


def _legend(name: str, named: set[str]) -> dict[str, Any]:
    """A name stands in the legend once, and hides and shows all that has it."""
    is_new = name not in named
    named.add(name)
    return {"name": plain(name), "legendgroup": name, "showlegend": is_new}
