"""Values and tables as people read them on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from damoos.report.tables import percent
from damoos.scorers.cost import HOURS_A_MONTH, Prices
from damoos.units import show_bytes, show_score

NONE = "-"
# What a column's text is aligned and sorted as.
WORDS, NUMBERS = "words", "numbers"


@dataclass(frozen=True)
class Cell:
    """Text, what it is sorted by (None: last, whichever way), and how it is marked.

    ``mark`` is a class of the style sheet: ``good``, ``bad`` or nothing. It only repeats what the text says.
    """

    text: str
    value: float | str | None
    mark: str = ""
    code: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under names of columns, each with its kind."""

    columns: Mapping[str, str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    sortable: bool = True
    first: str = ""


@dataclass(frozen=True)
class Tile:
    """One number that matters, its name, and what to know of it."""

    name: str
    text: str
    note: str = ""


def worth(saved_bytes: float, prices: Prices) -> Tile:
    """What memory costs in a month."""
    money = saved_bytes / (1 << 30) * prices.gib_hour * HOURS_A_MONTH
    note = f"a month, at {prices.gib_hour:g} per GiB and hour"
    return Tile("Worth of it", f"{money:,.2f} {prices.currency}", note)


def word(text: object, mark: str = "", code: bool = False) -> Cell:
    """A word, a name, or nothing."""
    shown = "" if text is None else str(text)
    return Cell(shown or NONE, shown or None, mark, code)


def count(value: float | None) -> Cell:
    """A number of things."""
    return Cell(NONE, None) if value is None else Cell(f"{value:,.0f}", value)


def score(value: float | None, ends: Sequence[float] | None = None, mark: str = "", unit: str = "") -> Cell:
    """A score, with half of its 95 % interval where there is one, in its unit."""
    if value is None:
        return Cell(NONE, None)
    reach = "" if ends is None else f" ± {show_score((ends[1] - ends[0]) / 2, unit).removeprefix('+')}"
    return Cell(f"{show_score(value, unit)}{reach}", value, mark)


def ratio(quantity: Mapping[str, Any] | None) -> Cell:
    """A ratio to the baseline, with half of its 95 % interval."""
    if quantity is None:
        return Cell(NONE, None)
    ends = quantity["ci95"]
    reach = "" if ends is None else f" ± {(ends[1] - ends[0]) / 2:.3f}"
    return Cell(f"{quantity['mean']:.3f}{reach}", quantity["mean"])


def change(value: float | None, mark: str = "") -> Cell:
    """A change, in percent with its sign."""
    return Cell(percent(value, NONE, sign="+"), value, mark)


def share(value: float | None) -> Cell:
    """A part of something, in percent."""
    return Cell(percent(value, NONE), value)


def seconds(value: float | None) -> Cell:
    """A time, two digits behind the point."""
    return Cell(NONE, None) if value is None else Cell(f"{value:.2f} s", value)


def size(value: float | None) -> Cell:
    """An amount of memory."""
    return Cell(NONE, None) if value is None else Cell(show_bytes(value), value)


def duration(value_s: float) -> str:
    """A time that may be hours: ``2 h 05 min``, ``4 min 25 s``, ``12 s``."""
    total_s = round(value_s)
    hours, minutes, left = total_s // 3600, total_s // 60 % 60, total_s % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{left} s"


def listed(words: Iterable[str]) -> str:
    """Words with commas, and an "and" before the last."""
    all_words = list(words)
    if len(all_words) < 2:
        return "".join(all_words)
    return f"{', '.join(all_words[:-1])} and {all_words[-1]}"


def said_of(form: Any) -> str:
    """A value of a configuration as one line."""
    if isinstance(form, Mapping):
        return ", ".join(f"{key}={said_of(value)}" for key, value in form.items() if value is not None) or NONE
    if isinstance(form, list | tuple):
        return " ".join(map(str, form)) or NONE
    return NONE if form in (None, "") else str(form)
