"""A sweep while it runs: a live table on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from damoos.common import html, terminal
from damoos.report.tables import percent
from damoos.units import show_clock, show_count, show_score

Row = Mapping[str, Any]
_COLUMNS = (
    "workload", "machine", "state", "trials", "best", "left", "verdict", "score", "slowdown", "RSS saving",
)  # fmt: skip
_STYLES = {"running": "bold", "failed": "red", "done": "green", "waiting": "dim"}


class JsonLines:
    """Each event as one JSON object on a line: ``event``, ``t`` (Unix time, s), and what there is to say of it."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def __call__(self, kind: str, said: dict[str, Any]) -> None:
        """Write one."""
        if kind == "rows":
            return  # for those who draw them all again and again
        print(json.dumps({"event": kind, "t": round(time.time(), 3), **said}), file=self._out, flush=True)

    def close(self) -> None:
        """Nothing is held."""


class Silent:
    """Nothing of it."""

    def __call__(self, kind: str, said: dict[str, Any]) -> None:
        """Take an event."""

    def close(self) -> None:
        """Nothing is held."""


class Lines:
    """The events that people care for, one line each."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, kind: str, said: dict[str, Any]) -> None:
        """Print one, if there is anything to print."""
        if text := _line(kind, said):
            self._console.print(f"damoos: {text}", soft_wrap=True)

    def close(self) -> None:
        """Nothing is held."""


class LiveTable(Lines):
    """One row a study, kept up to date; what goes wrong stands above it."""

    _NEWS = ("retry", "machine", "sweep", "say")

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._rows: dict[str, Row] = {}
        self._live = Live(console=console, refresh_per_second=1, get_renderable=self._render, transient=True)
        self._live.start()
        terminal.guard_redirected()

    def __call__(self, kind: str, said: dict[str, Any]) -> None:
        """Print only what the table does not show."""
        if kind == "rows":
            self._rows = said
        if kind in self._NEWS or said.get("state") == "failed":
            super().__call__(kind, said)

    def close(self) -> None:
        """Take the table away, since the sweep's end is printed, and give the terminal back."""
        self._live.stop()

    def _render(self) -> Table:
        # A sweep may have more studies than a terminal has lines: those that run come first.
        order = {"running": 0, "failed": 1, "waiting": 2, "done": 3}
        rows = sorted(self._rows.values(), key=lambda row: order[row["state"]])
        return table(rows[: max(4, self._console.height - 6)], len(rows))


def table(rows: Sequence[Row], total: int = 0) -> Table:
    """Studies of a sweep, one a row."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("workload", "machine", "state", "verdict") else "right")
    for row in rows:
        table.add_row(*_cells(row), style=_STYLES[row["state"]] if row["state"] in ("failed", "waiting") else "")
    if total > len(rows):
        table.add_row(f"... and {total - len(rows)} more")
    return table


def plain(rows: Sequence[Row]) -> str:
    """The progress as text for a file or a pipe."""
    console = terminal.console(width=160, no_color=True, force_terminal=False, force_jupyter=False)
    with console.capture() as taken:
        console.print(table(rows))
    return "\n".join(line.rstrip() for line in taken.get().splitlines())


def to_html(rows: Sequence[Row]) -> html.Html:
    """HTML for a notebook."""
    return html.table(_COLUMNS, map(_cells, rows))


def summary(found: Mapping[str, Any]) -> str:
    """What a sweep has come to."""
    lines = [f"sweep {found['sweep']}", plain(found["studies"])]
    for name, about in found["machines"].items():
        if not about["fit"]:
            lines.append(f"machine {name}: {about.get('error', 'unfit')}")
    for failure in found["failures"]:
        lines.append(f"failed: {failure['study']}: {failure['error']}")
    hours = sum(row["hours"] for row in found["cost"])
    paid = [row["usd"] for row in found["cost"] if row["usd"] is not None]
    lines.append(f"{hours:.2f} machine-hours" + (f", {sum(paid):.2f} USD" if paid else ""))
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    return [
        row["workload"],
        row["on"] or row["machine"],
        row["state"],
        f"{row['trials']}/{row['nr_samples']}",
        _score(row["best"]),
        "" if row["left_s"] is None or row["state"] != "running" else show_clock(row["left_s"]),
        row["verdict"],
        _score(row["score"]),
        percent(row["slowdown"], "", sign="+"),
        percent(row["saving"], "", sign="+"),
    ]


def _score(value: float | None) -> str:
    return "" if value is None else show_score(value)


def _line(kind: str, said: Mapping[str, Any]) -> str:
    if kind == "say":
        return f"{said['study']}: {said['text']}" if said["study"] else said["text"]
    if kind == "sweep":
        return f"sweep {said['sweep']}: {show_count(said['studies'], 'study')}, {said['left']} of them to do"
    if kind == "machine":
        return f"machine {said['machine']} is " + ("fit" if said["fit"] else said.get("error", "unfit"))
    if kind == "retry":
        return f"machine {said['machine']}: {said['error']}; again in {said['backoff_s']:g} s"
    if kind == "study":
        return _study_line(said)
    if kind != "run":
        return ""
    score = "" if said["score"] is None else f"  score {show_score(said['score'])}"
    runtime = f"failed: {said['error']}" if said["error"] else f"{said['runtime_s']:.2f} s"
    if said["stopped"]:
        runtime += " (stopped: limit broken)"
    return f"{said['study']} on {said['machine']}: {said['run']} {runtime}{score}"


def _study_line(said: Mapping[str, Any]) -> str:
    if said["state"] == "running":
        return f"{said['study']}: begins on {said['machine']}"
    if said["state"] == "failed":
        return f"{said['study']}: failed: {said['error']}"
    verdict = f"trials, verdict {said['verdict']}" if said["verdict"] else "runs"
    return f"{said['study']}: done after {said['trials']} {verdict}"
