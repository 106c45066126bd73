"""Charts to look closer at, by Plotly: as a figure, and as an HTML page that holds all it needs and asks no network."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from damoos.report.charts import layers as of
from damoos.report.charts.chart import Axis, Chart, Panel, label_length, wrapped
from damoos.report.charts.style import DIVERGING, GREY, HOT_TO_COLD, NOTHING, RED

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Ink by theme; that of "either" is as far from white as it is from black.
INKS = {"light": "#1f1f1f", "dark": "#ececec", "either": "#767676"}
_GRID, _CLEAR = "rgba(128, 128, 128, 0.25)", "rgba(0, 0, 0, 0)"
_PATTERNS = ("", "/", ".", "\\", "x", "-", "+")
_HATCH = {"fillmode": "overlay", "fgcolor": "white", "solidity": 0.2}
_PIXELS_PER_INCH = 90


def template(theme: str) -> go.layout.Template:
    """Colours of text, grid and background; the background is clear, so that a page's own shows.

    Parameters
    ----------
    theme : {"light", "dark", "either"}
        A page that switches between two gives the other's ``layout`` to ``Plotly.relayout``.
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


def save(chart: Chart, path: Path) -> None:
    """Write a chart as a page.

    Raises
    ------
    OSError : the file cannot be written
    """
    from damoos.report.html import document

    path.write_text(document.of_chart(chart), encoding="utf-8")


def bundle(chart: Chart) -> dict[str, Any]:
    """What a notebook that knows Plotly is given."""
    import plotly.io

    found: dict[str, Any] = plotly.io.renderers["plotly_mimetype"].to_mimebundle(figure(chart).to_plotly_json())
    return found


def figure(chart: Chart, theme: str = "either") -> go.Figure:
    """A chart as a Plotly figure.

    Parameters
    ----------
    theme : {"light", "dark", "either"}
    """
    from plotly.subplots import make_subplots

    rows = math.ceil(len(chart.panels) / chart.columns)
    title = wrapped(chart.title, 110)
    has_titles = any(panel.title for panel in chart.panels)
    top, height = 40 + 20 * len(title) + 20 * has_titles, round(chart.inches[1] * _PIXELS_PER_INCH)
    gap = (30 if chart.shares_x else 60) + 25 * has_titles
    made = make_subplots(
        rows, chart.columns, shared_xaxes="columns" if chart.shares_x else False,
        subplot_titles=[_plain(panel.title) for panel in chart.panels] if has_titles else None,
        vertical_spacing=min(gap / height, 0.9 / (rows - 1)) if rows > 1 else None,
        horizontal_spacing=0.25 / chart.columns if chart.columns > 1 else None,
    )  # fmt: skip
    named: set[str] = set()
    wrap = round(label_length(chart))
    for at, panel in enumerate(chart.panels):
        row, column = at // chart.columns + 1, at % chart.columns + 1
        place = {"row": row, "col": column}
        made.update_xaxes(_axis(panel.x, 80), **place)
        made.update_yaxes(_axis(panel.y, wrap), **place)
        if chart.shares_x and at < len(chart.panels) - chart.columns:
            made.update_xaxes(title_text="", **place)
        for layer in panel.layers:
            _DRAWN[type(layer)](made, panel, layer, {**place, **_legend(layer.name, named)})
    made.update_layout(
        title={"text": "<br>".join(map(_plain, title)), "font": {"size": 15}, "x": 0, "xref": "paper"}
        | {"y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 12}},
        template=template(theme),
        height=top + height + 60,
        legend={"orientation": "h", "yanchor": "top", "y": -65 / height, "x": 0},
        margin={"l": 60, "r": 20, "t": top, "b": 60},
    )
    made.update_annotations(font_size=13)
    return made


def _axis(axis: Axis, length: int) -> dict[str, Any]:
    form: dict[str, Any] = {"title": {"text": _lines(axis.label, length), "standoff": 10}}
    if axis.is_share:
        form["tickformat"] = ".3~p"
    if axis.words:
        count = len(axis.words)
        form |= {"tickvals": list(range(count)), "ticktext": [_plain(one) for one in axis.words]}
        form["range"] = [-0.6, count - 0.4]
    if axis.from_zero:
        form["rangemode"] = "tozero"
    return form


def _legend(name: str, named: set[str]) -> dict[str, Any]:
    """A name stands in the legend once, and hides and shows all that has it."""
    is_new = name not in named
    named.add(name)
    return {"name": _plain(name), "legendgroup": name, "showlegend": is_new}


def _plain(text: str) -> str:
    """Plotly would take tags in a text for its own, and a dollar sign for mathematics."""
    return html.escape(text).replace("$", "&#36;")


def _lines(text: str, length: int) -> str:
    return "<br>".join(map(_plain, wrapped(text, length)))


def _numbers(values: of.Numbers) -> list[float]:
    """Plain numbers, to nine digits: Plotly would encode an array so that only Plotly can read it."""
    return [float(f"{one:.9g}") for one in values]


def _reach(layer: of.Points, colour: str) -> dict[str, Any] | None:
    if not len(layer.low):
        return None
    above = [high - y for high, y in zip(layer.high, layer.y, strict=True)]
    below = [y - low for low, y in zip(layer.low, layer.y, strict=True)]
    return {"array": _numbers(above), "arrayminus": _numbers(below), "color": colour, "thickness": 1.2, "width": 3}


def _points(made: Any, panel: Panel, layer: of.Points, place: dict[str, Any]) -> None:
    marker = {"symbol": layer.marker.replace("x-thick", "x"), "color": layer.colour, "size": 9}
    if layer.marker == "x":
        marker["symbol"] = "x-thin-open"
        marker["line"] = {"width": 2, "color": layer.colour}
    notes = [_plain(note) for note in layer.notes]
    made.add_scatter(
        x=_numbers(layer.x), y=_numbers(layer.y), mode="markers", marker=marker, error_y=_reach(layer, layer.colour),
        text=notes or None, **place,
    )  # fmt: skip


def _line(made: Any, panel: Panel, layer: of.Line, place: dict[str, Any]) -> None:
    x = _numbers(layer.x)
    if len(layer.low):
        band = _numbers(layer.high) + _numbers(layer.low)[::-1]
        made.add_scatter(
            x=x + x[::-1], y=band, fill="toself", fillcolor=_faint(layer.colour, 0.18), line={"width": 0},
            mode="lines", hoverinfo="skip", **{**place, "showlegend": False},
        )  # fmt: skip
    made.add_scatter(x=x, y=_numbers(layer.y), mode="lines", line={"color": layer.colour, "dash": layer.dash}, **place)


def _span(made: Any, panel: Panel, layer: of.Span, place: dict[str, Any]) -> None:
    for nth, (low, high) in enumerate(layer.spans):
        made.add_vrect(
            x0=low, x1=high, fillcolor=layer.colour, opacity=0.08 if layer.is_faint else 0.2, layer="below",
            line={"width": 0}, exclude_empty_subplots=False,
            **{**place, "showlegend": place["showlegend"] and not nth},
        )  # fmt: skip


def _level(made: Any, panel: Panel, layer: of.Level, place: dict[str, Any]) -> None:
    line = {"color": layer.colour, "dash": layer.dash, "width": 1.5}
    made.add_hline(y=layer.at, line=line, exclude_empty_subplots=False, **place)


def _upright(made: Any, panel: Panel, layer: of.Upright, place: dict[str, Any]) -> None:
    for nth, at in enumerate(layer.at):
        line = {"color": layer.colour, "dash": layer.dash, "width": 1.5}
        once = {**place, "showlegend": place["showlegend"] and not nth}
        made.add_vline(x=at, line=line, exclude_empty_subplots=False, **once)


def _steps(made: Any, panel: Panel, layer: of.Steps, place: dict[str, Any]) -> None:
    values = _numbers(np.append(layer.values, layer.values[-1:]))
    line = {"shape": "hv", "color": layer.colour, "dash": layer.dash}
    fill = {"fill": "tozeroy", "fillcolor": _faint(layer.colour, 0.25)} if layer.is_filled else {}
    made.add_scatter(x=_numbers(layer.x), y=values, mode="lines", line=line, **fill, **place)


def _stack(made: Any, panel: Panel, layer: of.Stack, place: dict[str, Any]) -> None:
    for name, values, colour in zip(layer.names, layer.values.T, HOT_TO_COLD, strict=True):
        own = {**place, "name": _plain(name), "legendgroup": name, "showlegend": True}
        made.add_scatter(
            x=_numbers(layer.x), y=_numbers(np.append(values, values[-1])), line={"shape": "hv", "width": 0},
            stackgroup="memory", fillcolor=colour, mode="lines", **own,
        )  # fmt: skip
    made.update_layout(hovermode="x unified")


def _bars(made: Any, panel: Panel, layer: of.Bars, place: dict[str, Any]) -> None:
    series = [one for one in panel.layers if isinstance(one, of.Bars)]
    nth, width = series.index(layer), 0.84 / len(series)
    known = [(at, cell) for at, cell in enumerate(layer.cells) if cell is not None]
    x = [at + (nth - (len(series) - 1) / 2) * width for at, _ in known]
    y = [float(cell["mean"]) for _, cell in known]
    ends = [cell.get("ci95") or (cell["mean"], cell["mean"]) for _, cell in known]
    drawn = of.Points(layer.name, x, y, [low for low, _ in ends], [high for _, high in ends])
    reach = _reach(drawn, GREY) if any(cell.get("ci95") for _, cell in known) else None
    made.add_bar(
        x=x, y=[one - layer.neutral for one in y], base=layer.neutral, width=width, error_y=reach,
        marker={"color": layer.colour, "pattern": {"shape": _PATTERNS[nth % len(_PATTERNS)], **_HATCH}},
        customdata=y, text=[_plain(panel.x.words[at]) for at, _ in known], textposition="none",
        hovertemplate="%{text}: %{customdata:.4g}", **place,
    )  # fmt: skip
    crosses = [(at, cell["mean"]) for at, (_, cell) in zip(x, known, strict=True) if cell.get("broken")]
    if crosses:
        made.add_scatter(
            x=[at for at, _ in crosses], y=[mean for _, mean in crosses], mode="markers", hoverinfo="skip",
            marker={"symbol": "x", "size": 10, "color": RED, "line": {"width": 1, "color": "white"}},
            **{**place, "showlegend": False},
        )  # fmt: skip
    if nth == 0:
        made.add_hline(y=layer.neutral, line={"color": GREY, "width": 1}, row=place["row"], col=place["col"])


def _cells(made: Any, panel: Panel, layer: of.Cells, place: dict[str, Any]) -> None:
    where = {key: place[key] for key in ("row", "col")}
    form = ".1%" if layer.is_share else ".4g"
    made.add_heatmap(
        x=_numbers(layer.x), y=_numbers(layer.y), z=np.round(layer.values.T, 4),
        zmin=-layer.most if layer.is_diverging else 0, zmax=layer.most,
        colorscale=[[n / 2, colour] for n, colour in enumerate(DIVERGING)] if layer.is_diverging else "Inferno",
        colorbar={"title": {"text": _lines(layer.name, 30), "side": "right"}, "tickformat": ".0%" * layer.is_share},
        text=[list(map(_plain, row)) for row in zip(*layer.texts, strict=True)] if layer.texts else None,
        texttemplate="%{text}" if layer.texts else None,
        hovertemplate=f"%{{x}}, %{{y}}: %{{z:{form}}}<extra></extra>", hoverongaps=False, **where,
    )  # fmt: skip
    plain = {"showgrid": False, "zeroline": False}
    made.update_xaxes(**plain, range=[float(layer.x[0]), float(layer.x[-1])], **where)
    made.update_yaxes(**plain, range=[float(layer.y[0]), float(layer.y[-1])], **where)
    made.update_layout(plot_bgcolor=NOTHING)


def _faint(colour: str, share: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share})"


_DRAWN: dict[type[of.Layer], Callable[[Any, Panel, Any, dict[str, Any]], None]] = {
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
