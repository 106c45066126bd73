"""How a study tells how far it is: on a pipe, in words for those who want all, and not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from damoos import api
from damoos.report.study import progress
from damoos.testing.fake import FakeMachine
from tests.unit.cli.test_corpus import run


def told(tmp_path: Path, verbose: bool = False, trials: int = 6) -> list[str]:
    with open("/dev/null", "w") as nothing:
        console = Console(record=True, width=200, force_terminal=False, file=nothing)
        watcher = progress.LineWatcher(console, verbose)
        api.tune(command="true", trials=trials, results=tmp_path, watcher=watcher)
    return console.export_text().splitlines()


def counts(lines: list[str]) -> list[tuple[int, int]]:
    """The numbers of "run 5 of about 14", in order."""
    found = (re.search(r"\(run (\d+) of about (\d+)", line) for line in lines)
    return [(int(one[1]), int(one[2])) for one in found if one]


def test_each_run_says_how_far_the_study_is(fake: Any, tmp_path: Path) -> None:
    fake(FakeMachine())
    lines = told(tmp_path)
    total = int(next(line for line in lines if "study true-guest-1: about" in line).split("about ")[1].split()[0])
    found = counts(lines)
    assert found == [(number, max(number, total)) for number in range(1, len(found) + 1)]
    assert len(found) >= total
    assert "left" in next(line for line in lines if "(run 2 of" in line)


def test_a_search_that_ends_early_needs_fewer(fake: Any, tmp_path: Path) -> None:
    fake(FakeMachine())
    lines = told(tmp_path, trials=30)
    ended = next(number for number, line in enumerate(lines) if "so the search ends after" in line)
    before, after = counts(lines[:ended]), counts(lines[ended:])
    assert after[0][0] == before[-1][0] + 1
    assert after[0][1] < before[-1][1]
    assert after[-1][0] >= after[-1][1]  # no less than the fewest


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
@pytest.mark.slow
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
