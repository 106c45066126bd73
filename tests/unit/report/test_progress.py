"""How a study tells how far it is: on a pipe, in words for those who want all, and not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from damoos import api
from damoos.report.study import progress
from damoos.testing.fake import FakeMachine
from tests.unit.cli.test_corpus import run


def told(tmp_path: Path, verbose: bool = False) -> list[str]:
    console = Console(record=True, width=200, force_terminal=False, file=open("/dev/null", "w"))  # noqa: SIM115
    api.tune(command="true", trials=6, results=tmp_path, watcher=progress.LineWatcher(console, verbose))
    return console.export_text().splitlines()


def test_each_run_says_how_far_the_study_is(fake: Any, tmp_path: Path) -> None:
    fake(FakeMachine())
    lines = told(tmp_path)
    runs = [line for line in lines if "(run " in line]
    total = int(next(line for line in lines if "study true-guest-1: about" in line).split("about ")[1].split()[0])
    for number, line in enumerate(runs, 1):
        assert f"(run {number} of about {max(total, number)}" in line
    assert len(runs) >= total
    assert "left" in runs[1]


def test_verbose_tells_what_begins_and_all_that_was_measured(fake: Any, tmp_path: Path) -> None:
    fake(FakeMachine())
    lines = told(tmp_path, verbose=True)
    assert any(line.startswith("damoos: run 1 of about") and "begins: " in line for line in lines)
    assert sum("runtime_s = " in line for line in lines) == sum(
        "(run " in line and " stopped " not in line for line in lines
    )


def test_a_study_that_goes_on_counts_what_was_done(fake: Any, tmp_path: Path) -> None:
    class Stop(BaseException):
        pass

    fake(FakeMachine(failures={4: Stop()}))  # type: ignore[dict-item]
    with pytest.raises(Stop):
        api.tune(command="true", trials=6, results=tmp_path)
    fake(FakeMachine())
    assert "(run 5 of about " in next(line for line in told(tmp_path) if "(run " in line)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("option", ["--quiet", "-q", "--verbose", "-v", ""])
def test_how_much_a_command_says(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, option: str, place: str
) -> None:
    fake(FakeMachine())
    words = ["tune", "--command", "true", "--trials", "6", "--results", str(tmp_path)]
    given = [option] if option else []
    code = run([*given, *words] if place == "before" else [*words, *given], monkeypatch)
    out, err = capsys.readouterr()
    assert code == 0
    assert "study true-guest-1" in out
    if option in ("--quiet", "-q"):
        assert err == ""
    else:
        assert ("begins: " in err) == (option in ("--verbose", "-v"))
        assert "(run 1 of about " in err


def test_both_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(["--quiet", "machines", "--verbose"], monkeypatch) == 2
    assert "--quiet and --verbose: give one of them" in capsys.readouterr().err
