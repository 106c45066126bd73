"""How Plotly draws each layer of a panel."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from damoos.report.charts import layers as of
from damoos.report.charts.content import Panel, wrapped
from damoos.report.charts.style import DIVERGING, GREY, NOTHING, RED

PATTERNS = ("", "/", ".", "\\", "x", "-", "+")
_HATCH = {"fillmode": "overlay", "fgcolor": "white", "solidity": 0.2}


def plain(text: str) -> str:
    """Plotly would take tags in a text for its own, and a dollar sign for mathematics."""
    return html.escape(text).replace("$", "&#36;")


def lines(text: str, length: int) -> str:
    """A text in lines of so many letters."""
    return "<br>".join(map(plain, wrapped(text, length)))


def _numbers(values: of.Numbers) -> list[float | None]:
    """Plain numbers, to nine digits: Plotly would encode an array so that only Plotly can read it."""
    return [None if math.isnan(number) else float(f"{number:.9g}") for number in values]


def _reach(layer: of.Points, colour: str) -> dict[str, Any] | None:
    if not np.isfinite(layer.low).any():
        return None
    above = [high - y for high, y in zip(layer.high, layer.y, strict=True)]
    below = [y - low for low, y in zip(layer.low, layer.y, strict=True)]
    return {"array": _numbers(above), "arrayminus": _numbers(below), "color": colour, "thickness": 1.2, "width": 3}


def _points(made: Any, panel: Panel, layer: of.Points, place: dict[str, Any]) -> None:
    marker = {"symbol": layer.marker.replace("x-thick", "x"), "color": layer.colour, "size": 9}
    if layer.marker == "x":
        marker["symbol"] = "x-thin-open"
        marker["line"] = {"width": 2, "color": layer.colour}
    notes = [plain(note) for note in layer.notes]
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
    known = {trace.legendgroup for trace in made.data}  # another panel's stack of the same things
    for name, values, colour in zip(layer.names, layer.values.T, layer.colours, strict=True):
        own = {**place, "name": plain(name), "legendgroup": name, "showlegend": name not in known}
        made.add_scatter(
            x=_numbers(layer.x), y=_numbers(np.append(values, values[-1])), line={"shape": "hv", "width": 0},
            stackgroup="memory", fillcolor=colour, mode="lines", **own,
        )  # fmt: skip
    made.update_layout(hovermode="x unified")


def _bars(made: Any, panel: Panel, layer: of.Bars, place: dict[str, Any]) -> None:
    series = [bars for bars in panel.layers if isinstance(bars, of.Bars)]
    nth, width = series.index(layer), 0.84 / len(series)
    shift = (nth - (len(series) - 1) / 2) * width
    known = layer.known()
    places, means, low, high = map(list, zip(*known, strict=True)) if known else ([], [], [], [])
    x = [at + shift for at in places]
    made.add_bar(
        x=x, y=[mean - layer.neutral for mean in means], base=layer.neutral, width=width,
        error_y=_reach(of.Points("", x, means, low, high), GREY),
        marker={"color": layer.colour, "pattern": {"shape": PATTERNS[nth % len(PATTERNS)], **_HATCH}},
        customdata=means, text=[plain(panel.x.words[round(at)]) for at in places], textposition="none",
        hovertemplate="%{text}: %{customdata:.4g}", **place,
    )  # fmt: skip
    if broken := layer.broken():
        made.add_scatter(
            x=[at + shift for at, _ in broken], y=[mean for _, mean in broken], mode="markers", hoverinfo="skip",
            marker={"symbol": "x", "size": 10, "color": RED, "line": {"width": 1, "color": "white"}},
            **{**place, "showlegend": False},
        )  # fmt: skip
    if nth == 0:
        made.add_hline(y=layer.neutral, line={"color": GREY, "width": 1}, row=place["row"], col=place["col"])


def _cells(made: Any, panel: Panel, layer: of.Cells, place: dict[str, Any]) -> None:
    where = {key: place[key] for key in ("row", "col")}
    number_format = ".1%" if layer.is_share else ".4g"
    made.add_heatmap(
        x=_numbers(layer.x), y=_numbers(layer.y), z=np.round(layer.values.T, 4),
        zmin=-layer.most if layer.is_diverging else 0, zmax=layer.most,
        colorscale=[[n / 2, colour] for n, colour in enumerate(DIVERGING)] if layer.is_diverging else "Inferno",
        colorbar={"title": {"text": lines(layer.name, 30), "side": "right"}, "tickformat": ".0%" * layer.is_share},
        text=[list(map(plain, row)) for row in zip(*layer.texts, strict=True)] if layer.texts else None,
        texttemplate="%{text}" if layer.texts else None,
        hovertemplate=f"%{{x}}, %{{y}}: %{{z:{number_format}}}<extra></extra>", hoverongaps=False, **where,
    )  # fmt: skip
    bare = {"showgrid": False, "zeroline": False}
    made.update_xaxes(**bare, range=[float(layer.x[0]), float(layer.x[-1])], **where)
    made.update_yaxes(**bare, range=[float(layer.y[0]), float(layer.y[-1])], **where)
    made.update_layout(plot_bgcolor=NOTHING)


def _faint(colour: str, share: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share})"


DRAWN: dict[type[of.Layer], Callable[[Any, Panel, Any, dict[str, Any]], None]] = {
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
