"""Expressions that take for ever, and what they are matched with."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from damoos.agent import regex
from damoos.agent.regex import Matches, RegexProcess, groups_in


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegexProcess]:
    monkeypatch.setattr(regex, "LIMIT_S", 0.3)
    with RegexProcess() as process:
        yield process


def test_what_matches_is_told(process: RegexProcess) -> None:
    assert process.matches(r"p=(\d+)", "p=1 p=22\np=3") == Matches(3, "3")
    assert process.matches(r"\d+$", "1\n22\nx", re.MULTILINE) == Matches(2, "22")
    assert process.matches("x", "\udcff\0\n") == Matches(0, "")
    assert process.matches("(x)?y", "y") == Matches(1, "")
    assert process.matches("", "ab") == Matches(3, "")


ENDLESS = {
    "a repetition in a repetition": (r"(?:a+)+b", "a" * 100),
    "several ways": (r"(?:a|aa)*b", "a" * 100),
    "one repetition and a long text": (r"a*b", "a" * (1 << 20)),
    "words between two others": (r"per read:[\s\S]*?P50: ([\d.]+)", "per read:" * (1 << 15)),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_match_ends_in_one_line(process: RegexProcess, name: str) -> None:
    with pytest.raises(ValueError, match=r"takes more than 0\.3 s on this text; write an expression that") as told:
        process.matches(*ENDLESS[name])
    assert str(told.value).isprintable()
    assert process.matches("b", "b").count == 1


@pytest.mark.slow
def test_memory_is_bounded(process: RegexProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "LIMIT_S", 60.0)
    with pytest.raises(ValueError, match="it takes more than 512 MiB of memory"):
        process.matches(r"\A(?:ab|cd)*e", "ab" * (4 << 20))
    assert process.matches("b", "b").count == 1


def test_what_is_no_expression_there_is_told(process: RegexProcess) -> None:
    with pytest.raises(ValueError, match=r"^'\(': missing \)"):
        process.matches("(", "b")


def test_one_that_was_killed_is_started_anew(process: RegexProcess) -> None:
    for _ in range(3):
        assert process.matches("b", "b").count == 1
        assert process._child
        os.kill(process._child.pid, signal.SIGKILL)
        process._child.wait()


def test_one_that_cannot_live_is_told(process: RegexProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex.sys, "executable", "/bin/true")
    with pytest.raises(ValueError, match="'b' cannot be matched: the process that does it was ended"):
        process.matches("b", "b" * (1 << 20))


def test_groups() -> None:
    assert [groups_in(text) for text in ("", "(a)", "(a)(?:b)(c)")] == [0, 1, 2]
    for text in ("(", "a{99999999999999}", "a" * 1001):
        with pytest.raises(ValueError, match=r"\w"):
            groups_in(text)
