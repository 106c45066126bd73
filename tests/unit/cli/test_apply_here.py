"""A policy goes on this host only if its user has said so."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import damoos
from damoos import cli
from damoos.errors import ConfigError
from damoos.machines import catalog
from damoos.service import keeper
from damoos.testing.fake import FakeMachine

WOULD = "would go on this host, on unit:redis.service"


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Machines on which something was put into service, by a study that was made on another machine."""
    machine, real = FakeMachine(noise=0.001), catalog.machine
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine if name == "lab" else real(name, kernel))
    damoos.tune(command="true", machine="lab", results=tmp_path, trials=2, seed=1)
    found: list[str] = []

    def apply(spec: dict[str, Any]) -> dict[str, Any]:
        found.append(spec["machine"])
        return {**spec, "on": spec["on_text"]}

    monkeypatch.setattr(keeper, "apply", apply)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return found


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    argv = ["damoos", "apply", "true-lab-1", "--arm", "manual", *words, "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Somebody sits at a terminal."""
    terminal = io.StringIO(text)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)


def test_without_a_terminal_this_host_must_be_named(
    tmp_path: Path, applied: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for more in ((), ("--unit",)):
        assert run(tmp_path, monkeypatch, "--on", "unit:redis.service", *more) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == (
            f"damoos: the policy of study 'true-lab-1' {WOULD}; give --machine local if it is to, or the name of"
            " another machine"
        )
    assert applied == []
    assert run(tmp_path, monkeypatch, "--on", "unit:redis.service", "--machine", "local") == 0
    assert applied == ["local"]


@pytest.mark.parametrize(("said", "code", "machines"), [("y\n", 0, ["local"]), ("n\n", 2, []), ("\n", 2, [])])
def test_at_a_terminal_it_is_asked(
    tmp_path: Path, applied: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    said: str, code: int, machines: list[str],
) -> None:  # fmt: skip
    answer(monkeypatch, said)
    assert run(tmp_path, monkeypatch, "--on", "unit:redis.service") == code
    err = capsys.readouterr().err
    assert f"{WOULD}; go on? [y/N]" in err
    assert applied == machines
    if not machines:
        end = f"{WOULD}; give --machine local if it is to, or the name of another machine\n"
        assert ("damoos: nothing is put into service: " in err, err.endswith(end)) == (True, True)


def test_the_study_s_own_machine_is_no_question(
    tmp_path: Path, applied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert run(tmp_path, monkeypatch) == 0
    assert applied == ["lab"]


def test_in_python_it_must_be_named(tmp_path: Path, applied: list[str]) -> None:
    words: dict[str, Any] = {"arm": "manual", "on": "unit:redis.service", "results": tmp_path}
    with pytest.raises(ConfigError, match=f"{WOULD}; give machine='local' if it is to"):
        damoos.apply("true-lab-1", **words)
    assert applied == []
    damoos.apply("true-lab-1", machine="local", **words)
    assert applied == ["local"]


@pytest.mark.parametrize("option", ["--machine", "--on", "--name", "--storage"])
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_name_is_none(
    tmp_path: Path,
    applied: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    empty: str,
) -> None:
    """A script whose variable is not set says that; it would be taken for this host, or for a name of damoos's own."""
    words = {"--on": "unit:redis.service", "--machine": "local", option: empty}
    assert run(tmp_path, monkeypatch, *(word for pair in words.items() for word in pair)) == 2
    assert capsys.readouterr().err == f"damoos: {option} is empty; name something, or leave it out\n"
    named: dict[str, Any] = {"on": "unit:redis.service", "machine": "local", option[2:]: empty}
    with pytest.raises(ConfigError, match=f"^{option[2:]} is empty; name something"):
        damoos.apply("true-lab-1", arm="manual", results=tmp_path, **named)
    assert applied == []
