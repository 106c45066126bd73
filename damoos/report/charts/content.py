"""What a chart shows: panels of layers, and the numbers in words; no form of output."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from damoos.report.charts.layers import Axis, Bars, Cells, Layer, Shown

if TYPE_CHECKING:
    import pandas as pd

# A bar, a word of a matrix, and a panel of a row of several take at least so much room.
_BAR_INCHES, _CELL_INCHES, _PANEL_INCHES = 0.16, (1.5, 0.32), (3.4, 2.6)


@dataclass(frozen=True)
class Panel(Shown):
    """Layers on the same axes, the lowest first."""

    x: Axis
    y: Axis
    layers: Sequence[Layer]
    title: str = ""


@dataclass(frozen=True)
class Content(Shown):
    """One or more panels under a title.

    Parameters
    ----------
    title : str
        What ran where.
    panels : sequence of Panel
    columns : int
        How many panels stand side by side.
    shares_x : bool
        Whether panels one over the other have the same x axis.
    panel_name : str
        What the titles of the panels are; a column of the table, where there are several.
    text : sequence of str
        The numbers in words, a line each.
    numbers : mapping
        The same for programs; units in the keys.
    own_table : pandas.DataFrame or None
        All there is to see, where there is a better table of it than the layers' rows.
    """

    title: str
    panels: Sequence[Panel]
    columns: int = 1
    shares_x: bool = False
    panel_name: str = "panel"
    text: Sequence[str] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    own_table: pd.DataFrame | None = None

    @property
    def table(self) -> pd.DataFrame:
        """All there is to see as a tidy frame, units in the column names."""
        import pandas as pd

        if self.own_table is not None:
            return self.own_table
        rows = [
            ({self.panel_name: panel.title} if len(self.panels) > 1 else {}) | {"series": layer.name} | row
            for panel in self.panels
            for layer in panel.layers
            for row in layer.rows(panel.x, panel.y)
        ]
        return pd.DataFrame(rows)

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height of a picture of it."""
        rows = math.ceil(len(self.panels) / self.columns)
        if len(self.panels) == 1 and not any(isinstance(layer, Bars | Cells) for layer in self.panels[0].layers):
            return 8.0, 4.8
        return self.columns * max(_width(panel, self.columns) for panel in self.panels), 1.0 + rows * max(
            _height(panel) for panel in self.panels
        )

    def __repr__(self) -> str:
        """The title, and the numbers in words."""
        return "\n".join([self.title, *self.text])

    def later(self, by_s: float) -> Self:
        """The content moved to a later time: that of a part of a recording."""
        moved: dict[str, Any] = {}
        if self.own_table is not None:
            table = self.own_table.copy()
            for name in {"time_s", "start_s", "end_s"} & set(table.columns):
                table[name] += by_s
            moved["own_table"] = table
        if "time_s" in self.numbers:
            moved["numbers"] = {**self.numbers, "time_s": [time + by_s for time in self.numbers["time_s"]]}
        moved["panels"] = [
            replace(
                panel,
                layers=[replace(layer, x=layer.x + by_s) if hasattr(layer, "x") else layer for layer in panel.layers],  # type: ignore[call-arg]
            )
            for panel in self.panels
        ]
        return replace(self, **moved)


def _width(panel: Panel, columns: int) -> float:
    bars = sum(isinstance(layer, Bars) for layer in panel.layers)
    if bars:
        return max(8.0, 1.5 + len(panel.x.words) * (bars + 1.2) * _BAR_INCHES) if columns == 1 else 4.5
    if panel.x.words:
        return max(6.0, 3.0 + _CELL_INCHES[0] * len(panel.x.words))
    return 8.0 if columns == 1 else _PANEL_INCHES[0]


def _height(panel: Panel) -> float:
    if panel.y.words:
        return max(1.2, 0.3 + _CELL_INCHES[1] * len(panel.y.words))
    return 3.8 if any(isinstance(layer, Cells) for layer in panel.layers) else _PANEL_INCHES[1]


def label_length(chart: Content) -> int:
    """How many letters fit beside a panel."""
    rows = math.ceil(len(chart.panels) / chart.columns)
    return round(10 * (chart.inches[1] - 1) / rows)


def wrapped(text: str, length: int) -> list[str]:
    """A text in lines of so many letters or fewer."""
    return [line for part in text.split("\n") for line in textwrap.wrap(part, length) or [""]]
