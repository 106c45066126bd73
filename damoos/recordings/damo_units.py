"""Quantities as damo writes them: raw numbers, or text such as ``1 m 2.500 s``, ``1,234`` and ``4.000 KiB``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from damoos.recordings.recording import Ints

Units = Mapping[str, int]
# damo has nanoseconds and sums such as "1 s 200 ms", which the texts of people in `damoos.units` have not.
TIMES_NS: Units = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
SIZES: Units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
PERCENTS: Units = {"%": 1}
COUNTS: Units = {}

_TERM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*")


def quantity(value: Any, units: Units, bare: int = 1) -> Fraction:
    """One quantity.

    Parameters
    ----------
    value : int, float or str
    units : mapping
        What each unit is in the smallest one.
    bare : int
        The same for a number without a unit.

    Raises
    ------
    ValueError : it is none
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Fraction(value) * bare  # refuses what is not finite
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a quantity")
    text, total, at = value.replace(",", "").strip(), Fraction(0), 0
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    while match := _TERM.match(text, at):
        if match[2] and match[2] not in units:
            break
        total += Fraction(match[1]) * (units[match[2]] if match[2] else bare)
        at = match.end()
    if at < len(text) or not text:
        raise ValueError(f"{value!r} is not a quantity")
    return sign * total


def column(values: Sequence[Any], units: Units, bare: int = 1) -> Ints:
    """Many quantities, rounded down to whole numbers of the smallest unit.

    Raises
    ------
    ValueError : one of them is none, or needs more than 63 bits
    """
    if all(type(value) is int for value in values):  # what most files have, without a Python call for each
        numbers = [value * bare for value in values] if bare != 1 else values
    else:
        numbers = [_whole(value, units, bare) for value in values]
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        raise ValueError("a number of more than 63 bits") from None


def _whole(value: Any, units: Units, bare: int) -> int:
    if bare == 1 and isinstance(value, str):
        digits = value.replace(",", "")
        if digits.isdecimal():
            return int(digits)
    return int(quantity(value, units, bare) // 1)
