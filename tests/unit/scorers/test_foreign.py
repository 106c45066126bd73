"""Scores of people's own: a function of a file, a program; and the words that they get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.errors import ConfigError, MeasurementError, PluginError
from damoos.scorers import scorer
from damoos.store.studies import Store
from damoos.study.study import open_study
from damoos.testing.fake import FakeMachine
from tests.unit.cli.test_corpus import run as command

from .conftest import BASELINE, outcome, run


def file_scorer(tmp_path: Path, text: str, function: str = "score"):
    file = tmp_path / "mine.py"
    file.write_text(text)
    return scorer(f"{file}:{function}")


def test_a_function_of_a_file(tmp_path: Path) -> None:
    made = file_scorer(
        tmp_path,
        'direction = "minimize"\nunit = "seconds"\nneeds = ("runtime_s", "p99_ms")\nmax_slowdown = 0.2\n'
        "def score(run, baseline):\n    return run['runtime_s'] if run['p99_ms'] < 20 else None\n",
    )
    assert (made.direction, made.unit, made.max_slowdown) == ("minimize", "seconds", 0.2)
    assert outcome(made.score(run(), BASELINE, [])) == (100.0, True)
    broken = made.score(run(p99_ms=30.0), BASELINE, [])
    assert outcome(broken) == (None, False)
    assert broken.margins == {"slowdown<=0.2": 1.0}  # of the limit that the file declares


MARGINS = """
needs = ("runtime_s", "p99_ms")
def score(run, baseline):
    return {"value": 1 / run["p99_ms"], "margins": {"p99_ms<=20": 1 - run["p99_ms"] / 20}}
"""


def test_a_function_that_tells_its_margins(tmp_path: Path) -> None:
    made = file_scorer(tmp_path, MARGINS)
    kept, broken = (made.score(run(p99_ms=p99_ms), BASELINE, []) for p99_ms in (10.0, 25.0))
    assert (outcome(kept), kept.margins) == ((0.1, True), {"p99_ms<=20": 0.5})
    assert (outcome(broken), broken.margins, broken.objective) == ((None, False), {"p99_ms<=20": -0.25}, 0.04)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"score": 1}', "its answer has 'score'"),
        ('{"value": 1, "margin": {}}', "its answer has 'margin'; did you mean 'margins'"),
        ('{"value": 1, "margins": [0.5]}', "no mapping of limits to numbers"),
        ('{"value": 1, "margins": {"p99_ms<=20": "much"}}', "margin 'p99_ms<=20' is not a number: 'much'"),
        ('{"value": 1, "margins": {"p99_ms<=20": float("nan")}}', "returned nan"),
        ('{"value": float("inf"), "margins": {}}', "returned inf"),
    ],
)
def test_an_answer_whose_margins_are_wrong_is_never_scored(tmp_path: Path, answer: str, message: str) -> None:
    made = file_scorer(tmp_path, f"def score(run, baseline):\n    return {answer}\n")
    with pytest.raises(MeasurementError, match=message):
        made.score(run(), BASELINE, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def scare(run, baseline): return 1\n", "no function 'score'; did you mean 'scare'"),
        ("def score(run, baseline)\n", "SyntaxError"),
        ('direction = "maximise"\ndef score(run, baseline): return 1\n', "did you mean 'maximize'"),
        ('max_slowdown = "little"\ndef score(run, baseline): return 1\n', "max_slowdown 'little' is not a number"),
    ],
)
def test_a_file_that_holds_no_score(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        file_scorer(tmp_path, text)


@pytest.mark.parametrize("body", ["return run['p99']", "return float('nan')", "return 'much'"])
def test_a_function_that_gives_no_number_is_never_scored(tmp_path: Path, body: str) -> None:
    made = file_scorer(tmp_path, f"def score(run, baseline):\n    {body}\n")
    with pytest.raises(MeasurementError, match=r"mine\.py:score"):
        made.score(run(), BASELINE, [])


def program(tmp_path: Path, text: str):
    file = tmp_path / "sf"
    file.write_text(text)
    file.chmod(0o755)
    return scorer(str(file))


def test_a_program(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        "#!/usr/bin/env python3\n# damoos: needs=runtime_s,p99_ms max_slowdown=0.3\nimport json, sys\n"
        "given = json.load(sys.stdin)\n"
        "slow = given['run']['runtime_s'] / given['baseline']['runtime_s'] - 1\n"
        "print('infeasible' if slow > 0.3 else 1 - slow)\n",
    )
    assert made.needs == ("runtime_s", "p99_ms")
    assert made.max_slowdown == 0.3
    assert outcome(made.score(run(runtime_s=125.0), BASELINE, [])) == (0.75, True)
    assert outcome(made.score(run(runtime_s=140.0), BASELINE, [])) == (None, False)


def test_a_program_that_tells_its_margins(tmp_path: Path) -> None:
    made = program(tmp_path, """#!/bin/sh\necho '{"value": 0.5, "margins": {"p99": -0.1, "errors": 1}}'\n""")
    score = made.score(run(), BASELINE, [])
    assert (outcome(score), score.margins, score.objective) == ((None, False), {"p99": -0.1, "errors": 1.0}, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho no memory >&2; exit 3\n", "exit status 3: no memory"),
        ("#!/bin/sh\necho 1.2.3\n", "it printed '1.2.3', which is not a number"),
        ("#!/bin/sh\necho '{a}'\n", "it printed '{a}', which is not a number"),
        ("#!/bin/sh\necho inf\n", "returned inf, which is not a score"),
    ],
)
def test_a_program_that_prints_no_number_is_never_scored(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        program(tmp_path, text).score(run(), BASELINE, [])


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    file = tmp_path / "sf.sh"
    file.write_text("echo 1\n")
    with pytest.raises(ConfigError, match="not executable; chmod"):
        scorer(str(file))
    file.write_text("#!/bin/sh\n# damoos: need=runtime_s\necho 1\n")
    file.chmod(0o755)
    with pytest.raises(ConfigError, match="unknown declaration 'need'; did you mean 'needs'"):
        scorer(str(file))
    file.write_text("#!/bin/sh\n# damoos: max_slowdown=10%\necho 1\n")
    with pytest.raises(ConfigError, match="max_slowdown '10%' is not a number"):
        scorer(str(file))


@pytest.mark.slow
def test_a_function_that_never_returns_ends_the_study_which_goes_on_when_it_is_mended(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(FakeMachine())
    monkeypatch.setattr("damoos.scorers.foreign.LIMIT_S", 0.05)
    file = tmp_path / "mine.py"
    file.write_text("import threading\n\ndef score(run, baseline):\n    threading.Event().wait()\n")
    words = {"command": "true", "score": f"{file}:score", "trials": 4, "results": tmp_path}
    with pytest.raises(PluginError, match=r"mine\.py:score did not return within 0\.05 s"):
        api.tune(**words)
    done = open_study(Store(tmp_path).load("true-guest-1")).runs()
    file.write_text("def score(run, baseline):\n    return 1 - run['rss_avg_bytes'] / baseline['rss_avg_bytes']\n")
    assert api.tune(**words).name == "true-guest-1"
    assert open_study(Store(tmp_path).load("true-guest-1")).runs()[: len(done)] == done


def test_what_a_function_prints_is_no_part_of_the_commands_output(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(FakeMachine())
    file = tmp_path / "mine.py"
    file.write_text("print('loaded')\n\ndef score(run, baseline):\n    print('asked')\n    return -run['runtime_s']\n")
    argv = ["tune", "--command", "true", "--score", f"{file}:score", "--trials", "4", "--results", str(tmp_path)]
    assert command([*argv, "--format", "json"], monkeypatch) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["study"] == "true-guest-1"
    assert "loaded" in err
    assert "asked" in err
