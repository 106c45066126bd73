"""Tidy tables as CSV, and numbers as people read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from damoos.model.trial import Score
from damoos.statistics.limits import Standing


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


def limits_text(score: Score, is_bound: bool = False) -> str:
    """What became of each limit, the tightest first: ``slowdown<=0.1 broken by 12.0%``.

    Parameters
    ----------
    score : Score
    is_bound : bool
        The run was stopped, so that its margins are upper bounds: only what is broken is certain.
    """
    margins = sorted(score.margins.items(), key=lambda item: item[1])
    texts = [f"{limit} {margin_text(margin, is_bound)}" for limit, margin in margins if margin < 0 or not is_bound]
    is_told = bool(texts) and (margins[0][1] >= 0) == score.feasible
    return ", ".join(texts) if is_told else "kept" if score.feasible else "broken"


def margin_text(margin: float, is_bound: bool = False) -> str:
    """A margin in words: ``kept by 34.0%``, ``broken by 12.0% or more`` where it is an upper bound."""
    return f"kept by {margin:.1%}" if margin >= 0 else f"broken by {-margin:.1%}{' or more' if is_bound else ''}"


# What is said of an arm, by how it stands to the limits.
STANDINGS = {
    Standing.KEPT: "",
    Standing.BROKEN: "breaks the limit",
    Standing.NOT_SHOWN: "not shown to keep the limit",
}


def percent(value: float | None, otherwise: str, sign: str = "") -> str:
    """A fraction in percent; with ``sign="+"`` a gain shows its sign, too."""
    return otherwise if value is None else f"{value:{sign}.1%}"
