"""Words that other people choose, on a terminal."""

from __future__ import annotations

import io
import re
import sys

import pytest
from rich.live import Live

from damoos.common import terminal
from damoos.report.sweep import progress

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def guarded(monkeypatch: pytest.MonkeyPatch) -> Tty:
    """What a terminal gets behind the guard of the command line."""
    monkeypatch.setenv("TERM", "xterm-256color")
    tty = Tty()
    monkeypatch.setattr(sys, "stderr", tty)
    terminal.guard()
    return tty


@pytest.mark.parametrize(
    "words",
    [
        "x[/x]y",
        "[conceal]hidden[/conceal]",
        "[on red]red",
        ":smile:",
        "[link=http://evil/\x1bc\x9d]here[/link]",
        "a\x1b]0;b",
    ],
)
def test_words_are_no_markup_and_no_codes_of_theirs_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    screen = guarded(monkeypatch)
    numbers = dict.fromkeys(("trials", "nr_samples", "best", "left_s", "score", "slowdown", "saving"))
    rows = [{**numbers, "workload": words, "machine": words, "on": "", "state": "failed", "verdict": words}]
    console = terminal.console(stderr=True)
    console.print(words)
    console.print(progress.table(rows))
    shown = screen.getvalue()
    assert terminal.plain(words) in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x80-\x9f]", CODES.sub("", shown))


def test_a_table_that_is_kept_up_to_date_steers_the_terminal_by_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = guarded(monkeypatch)
    with Live(progress.table([]), console=terminal.console(stderr=True), auto_refresh=False) as live:
        live.refresh()
        terminal.guard_redirected()  # as those do that show such tables
        print("news \x1b[31m of a machine", file=sys.stderr)
    assert "\x1b[" in screen.getvalue()
    assert "?[1" not in screen.getvalue()
    assert "?[?25" not in screen.getvalue()
    assert "news ?[31m of a machine" in CODES.sub("", screen.getvalue())
