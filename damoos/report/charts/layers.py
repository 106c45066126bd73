"""What a panel of a chart is made of, each layer with its numbers as rows of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.common.terminal import plain
from damoos.report.charts.style import BLUE, GREY, HOT_TO_COLD, RED

Floats = NDArray[np.float64]
Row = dict[str, Any]
Numbers = Sequence[float] | Floats


class Shown:
    """Whose words are fit to be drawn: some are of other people's studies, and XML has no control characters."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str):
                object.__setattr__(self, name, plain(value))
            elif isinstance(value, list | tuple) and any(isinstance(inner, str) for inner in value):
                shown = [plain(inner) if isinstance(inner, str) else inner for inner in value]
                object.__setattr__(self, name, type(value)(shown))


@dataclass(frozen=True)
class Axis(Shown):
    """An axis of a panel.

    Parameters
    ----------
    label : str
        With the unit.
    column : str
        The same as the name of a table's column.
    words : sequence of str
        What stands at 0, 1, 2 and so on, instead of numbers.
    is_share : bool
        Whether its numbers are shown as percent.
    from_zero : bool
        Whether 0 is its end.
    is_log : bool
        Whether it is logarithmic, on pictures and pages; a terminal's bars are linear.
    """

    label: str
    column: str
    words: Sequence[str] = ()
    is_share: bool = False
    from_zero: bool = False
    is_log: bool = False

    def word(self, at: float) -> Any:
        """What stands at a place."""
        return self.words[round(at)] if self.words else float(at)


NONE = float("nan"), float("nan")


@dataclass(frozen=True)
class Layer(Shown, ABC):
    """One thing of a panel; its name is what a legend calls it."""

    name: str

    @abstractmethod
    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """All that is drawn of it; the names of the columns are those of the axes."""


@dataclass(frozen=True)
class Points(Layer):
    """Points, with intervals where ``low`` and ``high`` are numbers; ``notes`` are told of one that is pointed at."""

    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    colour: str = BLUE
    marker: str = "circle"
    notes: Sequence[str] = ()

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each point."""
        for nth, (at, value) in enumerate(zip(self.x, self.y, strict=True)):
            yield {x.column: x.word(at), y.column: float(value), **_ends(self, y, nth)}


@dataclass(frozen=True)
class Line(Layer):
    """A line through values, with a band where ``low`` and ``high`` say one."""

    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    colour: str = BLUE
    dash: str = "solid"

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each value."""
        for nth, (at, value) in enumerate(zip(self.x, self.y, strict=True)):
            yield {x.column: x.word(at), y.column: float(value), **_ends(self, y, nth)}


def _ends(layer: Points | Line, y: Axis, nth: int) -> Row:
    if not len(layer.low):
        return {}
    return {f"{y.column}_low": float(layer.low[nth]), f"{y.column}_high": float(layer.high[nth])}


@dataclass(frozen=True)
class Span(Layer):
    """Parts of the x axis that are shaded; a faint one is what may or may not belong to it."""

    spans: Sequence[tuple[float, float]]
    colour: str = RED
    is_faint: bool = False

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each part."""
        for low, high in self.spans:
            yield {x.column: x.word(low), f"{x.column}_to": x.word(high)}


@dataclass(frozen=True)
class Level(Layer):
    """A value that holds for all of x."""

    at: float
    colour: str = GREY
    dash: str = "solid"

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """One row."""
        yield {y.column: float(self.at)}


@dataclass(frozen=True)
class Upright(Layer):
    """Places on the x axis, whatever y is."""

    at: Numbers
    colour: str = GREY
    dash: str = "dash"

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each place."""
        yield from ({x.column: x.word(at)} for at in self.at)


@dataclass(frozen=True)
class Steps(Layer):
    """A value between every two edges of x."""

    x: Floats
    values: Floats
    colour: str = BLUE
    dash: str = "solid"
    is_filled: bool = False

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each value."""
        for low, high, value in zip(self.x[:-1], self.x[1:], self.values, strict=True):
            yield {x.column: float(low), f"{x.column}_to": float(high), y.column: float(value)}


@dataclass(frozen=True)
class Stack(Layer):
    """Several values between every two edges of x, shape (t, number of names), one on the other.

    Parameters
    ----------
    colours : sequence of str
        One for each name.
    """

    x: Floats
    names: Sequence[str]
    values: Floats
    colours: Sequence[str] = HOT_TO_COLD

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each value."""
        for low, high, values in zip(self.x[:-1], self.x[1:], self.values, strict=True):
            for name, value in zip(self.names, values, strict=True):
                yield {"series": name, x.column: float(low), f"{x.column}_to": float(high), y.column: float(value)}


@dataclass(frozen=True)
class Bars(Layer):
    """A bar for each of the x axis's words, drawn from a neutral value.

    Parameters
    ----------
    cells : sequence
        For each word ``mean`` and ``ci95`` (a pair or null), or None where there is no value. One with ``broken`` set
        gets a cross.
    neutral : float
        Where nothing has changed.
    """

    cells: Sequence[Mapping[str, Any] | None]
    neutral: float = 0.0
    colour: str = BLUE

    def known(self) -> list[tuple[int, float, float, float]]:
        """Place, mean and ends of the interval of each that has a value; an end that nobody knows is not a number."""
        return [
            (at, float(cell["mean"]), *(cell.get("ci95") or NONE))
            for at, cell in enumerate(self.cells)
            if cell is not None
        ]

    def broken(self) -> list[tuple[int, float]]:
        """Place and mean of each that broke a limit."""
        return [(at, mean) for at, mean, *_ in self.known() if (self.cells[at] or {}).get("broken")]

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each bar; what has no value is empty."""
        for at, cell in enumerate(self.cells):
            low, high = (cell and cell.get("ci95")) or (None, None)
            values = {y.column: cell and cell["mean"], f"{y.column}_low": low, f"{y.column}_high": high}
            yield {x.column: x.words[at], **values, "limit_broken": bool(cell and cell.get("broken"))}


@dataclass(frozen=True)
class Cells(Layer):
    """Colours on a plane: a heatmap, or a matrix; its name is what the colours mean.

    Parameters
    ----------
    x, y : ndarray of shape (nx + 1,), (ny + 1,)
        Edges; those of an axis of words lie half a step beside them.
    values : ndarray of shape (nx, ny)
        Not a number where there is nothing.
    texts : sequence of sequence of str
        What is written in the cells, in the shape of the values; empty for nothing.
    is_diverging : bool
        Whether better and worse than 0 have colours of their own; else a colour says how much more than 0.
    is_share : bool
        Whether values are shown as percent.
    """

    x: Floats
    y: Floats
    values: Floats
    texts: Sequence[Sequence[str]] = ()
    is_diverging: bool = False
    is_share: bool = False

    def rows(self, x: Axis, y: Axis) -> Iterator[Row]:
        """A row each cell, at its middle."""
        for nx, at in enumerate((self.x[:-1] + self.x[1:]) / 2):
            for ny, height in enumerate((self.y[:-1] + self.y[1:]) / 2):
                value = self.values[nx, ny]
                text = {"text": self.texts[nx][ny]} if self.texts else {}
                yield {x.column: x.word(at), y.column: y.word(height), "value": float(value), **text}

    @property
    def most(self) -> float:
        """The largest value, or the one farthest from 0; a scale also where there is nothing."""
        known = self.values[~np.isnan(self.values)]
        return float(np.abs(known).max(initial=0.0)) or 1.0
