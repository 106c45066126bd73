"""Charts of recordings as HTML pages to look closer at, by Plotly; a page holds all it needs and asks no network."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

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


def save(chart: Chart, path: Path) -> None:
    """Write a chart as a page.

    Raises
    ------
    OSError : the file cannot be written
    """
    import plotly.graph_objects as go
    import plotly.io

    layout = {
        "title": {"text": _plain(chart.title), "font": {"size": 15}},
        "xaxis": {"title": {"text": _plain(chart.x_label)}},
        "yaxis": {"title": {"text": _plain(chart.y_label)}, "rangemode": "tozero"},
        "template": "plotly_white",
    }
    made = go.Figure(layout=layout)
    if isinstance(chart, HeatChart):
        _heat(made, chart)
    elif isinstance(chart, StepChart):
        _steps(made, chart)
    elif isinstance(chart, StackChart):
        _stack(made, chart)
    elif isinstance(chart, BarChart):
        for (name, values), colour in zip(chart.series.items(), (BLUE, ORANGE), strict=False):
            made.add_bar(x=list(chart.classes), y=list(values), name=name, marker_color=colour)
    text = plotly.io.to_html(made, include_plotlyjs=True, include_mathjax=False, config={"displaylogo": False})
    head = f"<head>\n    <title>{html.escape(chart.title)}</title>"
    path.write_text(text.replace("<head>", head, 1), encoding="utf-8")


def _plain(text: str) -> str:
    """Plotly would take tags in a text for its own, and a dollar sign for mathematics."""
    return html.escape(text).replace("$", "&#36;")


def _heat(made: Any, chart: HeatChart) -> None:
    made.add_heatmap(
        x=chart.x,
        y=chart.y,
        z=np.round(chart.cells.T, 4),
        zmin=0,
        zmax=float(np.nanmax(chart.cells)) or 1.0,
        colorscale="Inferno",
        colorbar={"title": {"text": chart.cells_label, "side": "right"}, "tickformat": ".0%"},
        hovertemplate="%{x:.4g} s, %{y:.5g} MiB: %{z:.1%}<extra></extra>",
        hoverongaps=False,
    )
    made.update_layout(plot_bgcolor=NOTHING, xaxis_showgrid=False, yaxis_showgrid=False)


def _steps(made: Any, chart: StepChart) -> None:
    values = np.append(chart.values, chart.values[-1])
    made.add_scatter(x=chart.x, y=values, line={"shape": "hv", "color": BLUE}, name=_plain(chart.y_label))
    for (name, value), colour, dash in zip(chart.marks.items(), (ORANGE, GREY), ("dash", "dot"), strict=False):
        ends = [chart.x[0], chart.x[-1]]
        made.add_scatter(x=ends, y=[value, value], mode="lines", line={"dash": dash, "color": colour}, name=name)


def _stack(made: Any, chart: StackChart) -> None:
    for name, values, colour in zip(chart.names, chart.values.T, STACK_COLOURS, strict=True):
        steps = np.append(values, values[-1])
        line = {"shape": "hv", "width": 0}
        made.add_scatter(
            x=chart.x, y=steps, line=line, stackgroup="memory", fillcolor=colour, name=_plain(name), mode="lines"
        )
    made.update_layout(legend={"title": {"text": "last access"}, "traceorder": "reversed"}, hovermode="x unified")
