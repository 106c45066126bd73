"""What a recording predicts of proactive reclaim, for a terminal and for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from damoos.common import html
from damoos.recordings.recording import Recording
from damoos.units import show_count, show_score

if TYPE_CHECKING:
    from damoos.prediction.forecast import Forecast
    from damoos.prediction.what_if import WhatIf

COLUMNS = ("min_age", "RSS saving", "slowdown", "80 % of what is believed", "score")
_WIDTHS = (8, 11, 9, 25, 7)
NOTE = "predicted from one recording, nothing of it was tried; 'damoos tune' tries the best of it"


def heading(recording: Recording) -> str:
    """What was recorded, and where."""
    about = recording.about
    return (
        f"{about.get('workload')} ({about.get('variant')}) on {about.get('machine')}: Linux {about.get('kernel')},"
        f" {about.get('emulation') or about.get('accel')}; {show_count(recording.nr_snapshots, 'snapshot')}"
    )


def text(recording: Recording, rows: Sequence[Forecast]) -> str:
    """A line for each ``min_age``."""
    lines = [COLUMNS, *map(_cells, rows)]
    table = [" ".join(f"{cell:>{width}}" for cell, width in zip(line, _WIDTHS, strict=True)) for line in lines]
    return "\n".join([heading(recording), *table, NOTE])


def to_html(recording: Recording, rows: Sequence[Forecast]) -> str:
    """The prediction as a table in HTML."""
    note = html.Html(f"<p>{html.escaped(NOTE)}</p>")
    return html.section(heading(recording), html.table(COLUMNS, map(_cells, rows)), note)


def what_if(recording: Recording, found: Sequence[WhatIf]) -> str:
    """A line for each replay of g-swap's rule."""
    lines = [_WHAT_IF, *map(_replayed, found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]
    note = f"promotions are shares of the working set in {found[0].interval_s:g} s; nothing of it was tried"
    return "\n".join([heading(recording), *table, note])


_WHAT_IF = ("percentile", "saved", "promotions", "98 % of intervals", "threshold at the end")


def _replayed(one: WhatIf) -> tuple[str, ...]:
    threshold_s = float(one.threshold_s[-1])
    return (
        f"{one.percent:g}%",
        f"{one.saved:.1%}",
        f"{one.promoted_mean:.2%}",
        f"{one.promoted_p98:.2%}",
        f"{threshold_s:.1f} s" if math.isfinite(threshold_s) else "none yet",
    )


def _cells(row: Forecast) -> tuple[str, ...]:
    return (
        f"{row.min_age_s:.1f} s",
        f"{row.memory_saving:.1%}",
        f"{row.slowdown:.1%}",
        f"{row.slowdown_low:.1%} to {row.slowdown_high:.1%}",
        "limit" if row.score is None else show_score(row.score),
    )
