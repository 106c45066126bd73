"""The words of the Python interface are those of the command line; wrong ones are told as there."""

from __future__ import annotations

import inspect
import logging
import pydoc
from pathlib import Path
from typing import Any

import pytest
import typer.main

import damoos
from damoos import api
from damoos.api import comparisons
from damoos.cli import app
from damoos.errors import ConfigError
from damoos.testing.fake import FakeMachine

# What has no place in a call, or stands for something else there.
ONLY_ON_THE_LINE = {"quiet", "verbose", "debug", "help", "format", "dry_run", "kernels"}
ONLY_IN_PYTHON = {"kernel", "score_options", "progress", "watcher", "event"}
PLURALS = {"metric": "metrics", "limit": "limits", "weight": "weights", "configs": "configs"}
COMMANDS = {"tune": api.tune, "sweep": api.sweep, "evaluate": comparisons.evaluate, "league": comparisons.league}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_words_are_those_of_the_command(command: str) -> None:
    options = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    said = {option.opts[0].removeprefix("--").replace("-", "_") for option in options if option.opts[0][:2] == "--"}
    line = {PLURALS.get(name, name) for name in said} - ONLY_ON_THE_LINE
    python = set(inspect.signature(COMMANDS[command]).parameters) - ONLY_IN_PYTHON
    assert python == line


@pytest.mark.parametrize("name", ["tune", "validate", "sweep", "evaluate", "league", "record", "predict", "compare"])
def test_help_tells_the_words_and_what_they_are(name: str) -> None:
    text = pydoc.render_doc(getattr(damoos, name))
    assert "Parameters" in text
    assert "**settings" not in text


WRONG = [
    (lambda: damoos.tune(comand="true"), r"tune\(\) has no parameter 'comand'; did you mean 'command'"),
    (lambda: damoos.tune(command="true", scorer="sla"), "has no parameter 'scorer'; did you mean 'score'"),
    (lambda: damoos.tune(command="true", trials="ten"), r"tune\(\): trials should be a valid integer.*, and is 'ten'"),
    (lambda: damoos.tune(command="true", limits="a<=1"), r"tune\(\): limits is a list: \['a<=1'\]"),
    (lambda: damoos.tune("a", "b"), r"tune\(\): too many positional arguments"),
    (lambda: damoos.tune(command="true", run_limit="5"), "--run-limit: '5' has no unit"),
    (lambda: damoos.tune(command="true", run_limit="0s"), "--run-limit: '0s' is not above 0"),
    (lambda: damoos.tune(command="true", trials=3, time_limit="1h"), "either --trials or --time-limit"),
    (lambda: damoos.tune(command="true", progress=print, watcher=api.studies.Watcher()), "either progress or watcher"),
    (lambda: damoos.sweep("parsec3/*", ["guest"]), r"sweep\(\): workloads is a list: \['parsec3/\*'\]"),
    (lambda: damoos.evaluate(["parsec3/*"], repeat=3), "has no parameter 'repeat'; did you mean 'repeats'"),
    (lambda: damoos.league(["redis/idle"], ["damos"], limit=[]), "did you mean 'limits'"),
    (lambda: damoos.load_study(), "missing a required argument: 'name'"),
    (lambda: damoos.record("redis/idle", duration_s="long"), r"record\(\): duration_s should be a valid number"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_words(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_folder_may_be_text(fake: Any, tmp_path: Path) -> None:
    fake(FakeMachine())
    damoos.tune(command="true", trials=3, results=str(tmp_path / "here"))
    assert (tmp_path / "here/true-guest-1/study.log").is_file()


def test_a_function_is_told_each_run(fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake(FakeMachine())
    told: list[damoos.Progress] = []
    with caplog.at_level(logging.INFO, "damoos"):
        found = damoos.tune(command="true", trials=4, results=tmp_path, progress=told.append)
    assert [one.run for one in told] == [run.key for run in found.study.runs()]
    assert [one.done for one in told] == list(range(1, len(told) + 1))
    assert all(one.study == found.name and one.done <= one.total and not one.error for one in told)
    scores = {one.run: one.score for one in told if one.score is not None}
    assert scores == {f"trial-{t.number:03}": t.score.value for t in found.trials if t.score.feasible and t.measurement}
    assert sum(" ended: " in record.message for record in caplog.records) == len(told)
