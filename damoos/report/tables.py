"""Tidy tables as CSV, and numbers as people read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same keys as CSV; what is not known is empty."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def ratio(quantity: Mapping[str, Any] | None) -> str:
    """A ratio with its interval: ``0.994 [0.991, 0.997]``."""
    if quantity is None:
        return "-"
    ends = quantity["ci95"]
    shown = "[-, -]" if ends is None else "[{:.3f}, {:.3f}]".format(*ends)
    return f"{quantity['mean']:.3f} {shown}"


def change(quantity: Mapping[str, Any] | None) -> str:
    """A change with its interval, both in percent: ``+1.2% [+0.9, +1.5]``."""
    if quantity is None:
        return "-"
    ends = quantity["ci95"]
    shown = "[-, -]" if ends is None else "[{:+.1f}, {:+.1f}]".format(*(100 * end for end in ends))
    return f"{quantity['mean']:+.1%} {shown}"


def percent(value: float | None, otherwise: str, sign: str = "") -> str:
    """A fraction in percent; with ``sign="+"`` a gain shows its sign, too."""
    return otherwise if value is None else f"{value:{sign}.1%}"
