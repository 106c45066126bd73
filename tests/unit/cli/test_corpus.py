"""Command lines of tests/corpus: what is wrong in them is told in one line, and what is right is done."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from damoos import __version__, cli
from damoos.machines import catalog
from damoos.machines.base import Conditions
from damoos.machines.guest import GuestMachine
from damoos.machines.local import LocalMachine
from damoos.testing.fake import FakeMachine

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = tomllib.loads((CORPUS / "commands.toml").read_text())["case"]
FILES = tomllib.loads((CORPUS / "files.toml").read_text())


class Booted(AssertionError):
    """Nothing of this may come so far."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and machines that must not be opened."""

    def opened(*_: Any) -> None:
        raise Booted

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(GuestMachine, "open", opened)
    monkeypatch.setattr(LocalMachine, "open", opened)


def run(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """What a command line ends with, in this process."""
    monkeypatch.setattr(sys, "argv", ["damoos", *argv])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["argv"])
def test_what_is_wrong_is_told_in_one_line(
    here: None, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(shlex.split(case["argv"]), monkeypatch)
    out, err = capsys.readouterr()
    assert (code, out) == (case.get("exit", 2), ""), err
    line, *shown = err.splitlines()
    assert line.startswith("damoos: ")
    assert case["says"] in line
    assert shown == case.get("shows", [])


def told(argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command line of wrong words ends with."""
    assert run(argv, monkeypatch) == 2
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == ""
    return line


@pytest.mark.parametrize("case", FILES["machine"], ids=lambda case: case["says"])
def test_a_wrong_machine_file_is_told_in_one_line(
    here: None, case: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.toml").write_text(case["text"])
    for argv in (["machines", "show", "./x.toml"], ["tune", "redis/idle", "--machine", "./x.toml"]):
        assert case["says"] in told(argv, monkeypatch, capsys)


@pytest.mark.parametrize("case", FILES["workload"], ids=lambda case: case["says"])
def test_a_wrong_workload_file_is_told_in_one_line(
    here: None, case: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.toml").write_text(case["text"])
    for argv in (["workloads", "show", "./x.toml"], ["tune", "./x.toml"]):
        assert case["says"] in told(argv, monkeypatch, capsys)


@pytest.mark.parametrize("name", ["machines", "workloads"])
def test_a_file_that_is_no_text(
    here: None, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.toml").write_bytes(b"\xff\xfe")
    assert "x.toml: not valid TOML" in told([name, "show", "./x.toml"], monkeypatch, capsys)


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"], ["help"], ["kernel"], ["help", "tune"], ["tune", "-h"]])
def test_help_is_on_standard_output(
    here: None, argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv, monkeypatch) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: ")
    assert err == ""


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version(
    here: None, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([option], monkeypatch) == 0
    assert capsys.readouterr().out == f"damoos {__version__}\n"


@pytest.mark.parametrize("what", ["workloads", "machines", "studies"])
def test_lists_have_two_names(
    here: None, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([what], monkeypatch) == 0
    first = capsys.readouterr().out
    assert run([what, "list"], monkeypatch) == 0
    assert capsys.readouterr().out == first


def test_an_error_inside_is_one_line_too(
    here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", "redis/idle"], monkeypatch) == cli.INTERNAL == 70
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "internal error" in line]
    assert line == "damoos: internal error: Booted; --debug shows where, please report it"
    with pytest.raises(Booted):
        run(["--debug", "tune", "redis/idle"], monkeypatch)


def test_a_start_that_failed_leaves_no_study(
    here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run(["tune", "redis/idle"], monkeypatch) == cli.INTERNAL
    capsys.readouterr()
    assert run(["studies", "--format", "json"], monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert [path.name for path in Path("results").iterdir() if path.is_dir()] == []


def test_an_interruption_promises_only_what_there_is(
    here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GuestMachine, "open", interrupted)
    assert run(["tune", "redis/idle"], monkeypatch) == cli.INTERRUPTED
    assert capsys.readouterr().err == "damoos: interrupted\n"
    machine = FakeMachine()
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
    monkeypatch.setattr(machine, "begin_run", lambda number: interrupted() if number == 3 else None)
    assert run(["tune", "--command", "true"], monkeypatch) == cli.INTERRUPTED
    said = capsys.readouterr().err.splitlines()
    goes_on = "damoos: the same command again, or 'damoos resume true-guest-1', goes on"
    assert said[-2:] == [goes_on, "damoos: interrupted"]


def test_a_machine_that_has_changed_is_not_gone_on_with(
    here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def on(**conditions: Any) -> FakeMachine:
        machine = FakeMachine()
        machine.conditions = Conditions(**conditions)
        monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        return machine

    def interrupted(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    words = ["tune", "--command", "true", "--trials", "4"]
    monkeypatch.setattr(on(thp="never"), "begin_run", interrupted)
    assert run(words, monkeypatch) == cli.INTERRUPTED
    on(thp="always")
    assert run(words, monkeypatch) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        "damoos: study 'true-guest-1' began with thp \"never\", and machine 'fake' has \"always\" now; put that back,"
        " or start a new study (--new)"
    )
    assert run([*words, "--new"], monkeypatch) in (0, 4)
    on(thp="never")
    assert run(["resume", "true-guest-1"], monkeypatch) in (0, 4)


def test_a_folder_of_another_storage_is_not_written_over(
    here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = FakeMachine()
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
    for storage in ("sqlite:///a.sqlite", "sqlite:///b.sqlite"):
        assert run(["tune", "--command", "true", "--storage", storage, "--trials", "4"], monkeypatch) in (0, 4)
    assert sorted(path.name for path in Path("results").iterdir()) == ["true-guest-1", "true-guest-2"]
