"""Tidy tables as CSV, and numbers as people read them.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-``, ``@`` or a control character for a formula, and names
of workloads, configurations and metrics may come from other people. So such a text has an apostrophe before it. Where a
spreadsheet begins a cell is its own affair: many separate by ``;``, and then see no quotes in the middle of a line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from damoos.common.terminal import plain
from damoos.model.trial import Score
from damoos.statistics.limits import Standing

if TYPE_CHECKING:
    import pandas as pd

# The last four are the same signs of full width, which some spreadsheets read in the same way.
_SIGNS = "=+@\uff1d\uff0b\uff0d\uff20-"
# Behind a separator of cells or lines, or a control character that a spreadsheet may take for one or leave out.
_INNER_FORMULA = re.compile(rf"(?<=[;\x00-\x1f\x7f-\x9f\u2028\u2029])(?=[{_SIGNS}])")


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same keys as CSV; what is not known is empty."""
    out = io.StringIO()
    if rows:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(cell, rows[0]))
        writer.writerows([cell(row.get(key)) for key in rows[0]] for row in rows)
    return out.getvalue()


def frame_to_csv(table: pd.DataFrame) -> str:
    """A table as CSV, without its index."""
    safe = table.rename(columns=cell)
    for name in safe.select_dtypes(exclude=["number", "bool"]).columns:
        safe[name] = safe[name].map(cell)
    text: str = safe.to_csv(index=False)
    return text


def cell(value: Any) -> Any:
    """A value as CSV may have it: a text that a spreadsheet would compute has an apostrophe before it."""
    if not isinstance(value, str):
        return value
    # csv puts no quotes around a carriage return, and spreadsheets begin a row there.
    text = plain(value.replace("\r", "\n"))
    if not text or _is_number(text):
        return text
    begins_one = text[0] in _SIGNS or not text[0].isprintable()
    return ("'" if begins_one else "") + _INNER_FORMULA.sub("'", text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


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


def score_unit(result: Mapping[str, Any]) -> str:
    """By which unit a result's score is printed; studies of 0.2 do not say."""
    return str(result["score"].get("shown_in", ""))


def cpu_key(told: Container[str]) -> str:
    """Where a result has the policy's CPU time; one of an older damoos has DAMON's."""
    return "policy_cpu_share" if "policy_cpu_share" in told else "kdamond_cpu"


IDLE_SCHEME = "it applied nothing, so this is what watching costs"
"""Said of a scheme that was in force and found nothing to do: its numbers say nothing of what it does."""


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
