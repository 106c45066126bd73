"""A study while it runs: a live table on a terminal, plain lines elsewhere. All of it goes to standard error."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from damoos.common import terminal
from damoos.model.trial import Run, Score, best_of
from damoos.report.study.rows import outcome, point, scored
from damoos.study.progress import Count
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, Study
from damoos.units import show_bytes, show_clock


def _number(count: Count, number: int) -> str:
    return f"run {number} of about {count.total(number)}"


def _left(seconds: float | None) -> str:
    return "" if not seconds else f", about {show_clock(seconds)} left"


class LineWatcher(Watcher):
    """One line for each run that ends.

    Parameters
    ----------
    console : rich.console.Console
    verbose : bool
        A line for each that begins, too, and all that it has measured.
    """

    def __init__(self, console: Console, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self.count = Count()
        self._left_s: float | None = None
        self._since = 0.0
        self.study: Study | EvaluationStudy | None = None

    def say(self, text: str) -> None:
        """Print the news."""
        self._console.print(f"damoos: {text}", soft_wrap=True)

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """Say what is going to happen, models and scales first."""
        self.study = study
        self.count.begin(total, done)
        for line in _banner(study):
            self.say(line)
        self.say(f"study {study.name}: about {total} runs" + (f", {done} of them done already" if done else ""))

    def skipped(self, nr_runs: int) -> None:
        """Count fewer."""
        self.count.skip(nr_runs)

    def started(self, run: Run, left_s: float | None) -> None:
        """Keep the time."""
        self._left_s, self._since = left_s, time.monotonic()
        if self._verbose:
            number = _number(self.count, self.count.done + 1)
            self.say(f"{number} begins: {run.key}, {point(run, self.study)}{_left(left_s)}")

    def finished(self, run: Run, score: Score | None) -> None:
        """Print the run's numbers, and how far the study is."""
        runtime, rss, word = outcome(run, score, self.study)
        numbers = f"{run.key:<26} {point(run, self.study):<18} {runtime:>9} {rss:>9}  {word}".rstrip()
        left_s = None if self._left_s is None else self._left_s - (time.monotonic() - self._since)
        self.count.end()
        self.say(f"{numbers}  ({_number(self.count, self.count.done)}{_left(left_s and max(0.0, left_s))})")
        if self._verbose and run.measurement:
            for name, value in sorted(run.measurement.metrics.items()):
                self.say(f"    {name} = {value:g}")


class TableWatcher(Watcher):
    """A table that grows: parameter, runtime, RSS, score, what is running, time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines = LineWatcher(console)
        self._count = self._lines.count
        self.study: Study | EvaluationStudy | None = None
        self._rows: dict[str, tuple[Run, Score | None]] = {}
        self._running: Run | None = None
        self._since = 0.0
        self._left_s: float | None = None
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._render, transient=False)

    def say(self, text: str) -> None:
        """Print the news above the table."""
        self._lines.say(text)

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """Show the table, with what an earlier go has finished."""
        self.study = study
        self._lines.begin(study, total, done)
        self._rows = {run.key: (run, score) for run, score in scored(study)}
        self._live.start()
        terminal.guard_redirected()

    def skipped(self, nr_runs: int) -> None:
        """Count fewer."""
        self._count.skip(nr_runs)

    def started(self, run: Run, left_s: float | None) -> None:
        """Show what runs now."""
        self._running, self._since, self._left_s = run, time.monotonic(), left_s

    def finished(self, run: Run, score: Score | None) -> None:
        """Add a row."""
        self._rows[run.key] = run, score
        self._count.end()
        self._running = None

    def stop(self) -> None:
        """Leave the table as it is and give the terminal back."""
        if self._live.is_started:
            self._live.stop()

    def _render(self) -> Group:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name, justify in (("run", "left"), ("parameter", "left"), ("runtime", "right"), ("RSS", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("score")
        values = [s.value for _, s in self._rows.values() if s and s.feasible and s.value is not None]
        best = best_of(values, self.study.direction if self.study else "maximize")
        for run, score in self._rows.values():
            is_best = score is not None and score.feasible and score.value == best
            style = "bold green" if is_best else "red" if score and not score.feasible else ""
            table.add_row(run.key, point(run, self.study), *outcome(run, score, self.study), style=style)
        return Group(table, Text(self._status(), style="dim"))

    def _status(self) -> str:
        if self._running is None:
            return ""
        passed = time.monotonic() - self._since
        left = _left(None if self._left_s is None else max(0.0, self._left_s - passed))
        what = f"{self._running.key} ({point(self._running, self.study)})"
        return f"{_number(self._count, self._count.done + 1)}: {what} for {show_clock(passed)}{left}"


class QuietWatcher(Watcher):
    """Tells nothing, and knows the study."""

    study: Study | EvaluationStudy | None = None

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """Keep it."""
        self.study = study


def watcher(quiet: bool = False, verbose: bool = False) -> QuietWatcher | LineWatcher | TableWatcher:
    """The one that fits standard error, and what its reader asked for."""
    if quiet:
        return QuietWatcher()
    console = terminal.console(stderr=True)
    return TableWatcher(console) if console.is_terminal and not verbose else LineWatcher(console, verbose)


def _banner(study: Study | EvaluationStudy) -> list[str]:
    from damoos.machines.catalog import machine

    setting = study.setting
    facts = setting.facts
    emulation = f", {facts['emulation']}" if facts.get("emulation") else ""
    lines = [
        f"machine {study.config.machine}: {machine(study.config.machine).describe()}",
        f"Linux {facts['kernel']}, {facts['vcpus']} vCPU, {show_bytes(facts['mem_bytes'])},"
        f" accel {facts['accel']}{emulation}; clock: {facts['clock']}",
    ]
    if setting.variant == "model":
        lines.append(setting.note)
    return lines
