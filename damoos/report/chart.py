"""What a report of a recording shows, before it is a picture, a page, text or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from damoos.records.recording import Floats

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's palette from hot to cold, told apart also without colour vision.
STACK_COLOURS = ("#d55e00", "#e69f00", "#f0e442", "#56b4e9", "#0072b2", "#999999")
MIB = float(1 << 20)
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#666666"
# Where a heatmap has no memory.
NOTHING = "#d9d9d9"


@dataclass(frozen=True)
class Chart:
    """What all have.

    Parameters
    ----------
    title : str
        Where the recording comes from.
    x_label, y_label : str
        With the unit.
    text : sequence of str
        The numbers in words, a line each.
    numbers : mapping
        The same for programs; units in the keys.
    table : pandas.DataFrame
        All there is to see, as rows.
    """

    title: str
    x_label: str
    y_label: str
    text: Sequence[str]
    numbers: Mapping[str, Any]
    table: pd.DataFrame

    def later(self, by_s: float) -> Self:
        """The same, of a part of a recording that begins so much later than the recording."""
        table = self.table.copy()
        for name in {"time_s", "start_s", "end_s"} & set(table.columns):
            table[name] += by_s
        moved: dict[str, Any] = {"table": table}
        if "time_s" in self.numbers:
            moved["numbers"] = {**self.numbers, "time_s": [time + by_s for time in self.numbers["time_s"]]}
        if hasattr(self, "x"):
            moved["x"] = self.x + by_s
        return replace(self, **moved)


@dataclass(frozen=True)
class HeatChart(Chart):
    """Cells of shape (t, a) between edges of x (t + 1) and y (a + 1); not a number where there is nothing."""

    x: Floats
    y: Floats
    cells: Floats
    cells_label: str


@dataclass(frozen=True)
class StepChart(Chart):
    """A value between every two edges of x; marks are values that hold for all of x."""

    x: Floats
    values: Floats
    marks: Mapping[str, float]


@dataclass(frozen=True)
class StackChart(Chart):
    """Several values between every two edges of x, shape (t, number of names), one on the other."""

    x: Floats
    names: Sequence[str]
    values: Floats


@dataclass(frozen=True)
class BarChart(Chart):
    """Values of each series for each class."""

    classes: Sequence[str]
    series: Mapping[str, Sequence[float]]
