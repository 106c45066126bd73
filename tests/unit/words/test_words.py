"""Words are declared once: what is made of a declaration, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from damoos.api import words as python
from damoos.cli import words as command_line
from damoos.errors import ConfigError
from damoos.units import parse_time
from damoos.words import SEARCH, WHAT, Words, again, declared, shared, word
from damoos.words.studies import EvaluateWords, LeagueWords, SweepWords, TuneWords

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Trip(Words):
    """Some words of every kind."""

    places: Sequence[str] = word((), "Where it goes.", WHAT, separated=True)
    company: Sequence[str] = word((), "Who goes along.", WHAT, option="--with")
    days: int = word(3, "How long.", SEARCH, least=1, most=9)
    pause: str | None = word(None, "Time of a rest.", SEARCH, parse=parse_time)
    season: str = word("summer", "When.", SEARCH, choices=("summer", "winter"))
    at_night: bool = word(False, "Whether it goes on in the dark.", SEARCH)


WRONG = [
    ({"days": 0}, "--days 0: give 1 or more"),
    ({"days": 10}, "--days 10: give 9 or less"),
    ({"pause": "5"}, "--pause: '5' has no unit"),
    ({"pause": ""}, "--pause is empty"),
    ({"season": "sumer"}, "--season: unknown season 'sumer'; did you mean 'summer'"),
    ({"company": ["Ann", " "]}, "--with is empty"),
]


def on_the_command_line(*argv: str) -> tuple[list[Trip], str]:
    """What a command is given, and what it says."""
    given: list[Trip] = []
    app = typer.Typer()
    app.command()(command_line.takes(Trip)(given.append))
    done = CliRunner().invoke(app, list(argv))
    return given, done.output + str(done.exception or "")


@python.takes(Trip)
def travel(said: Trip) -> Trip:
    """Go.

    Returns
    -------
    Trip
    """
    return said


def test_both_sides_give_the_same_words() -> None:
    said = travel(places=["a", "b"], company=["Ann", "Bob"], days=4, pause="5s", season="winter", at_night=True)
    argv = ["--places", "a,b", "--with", "Ann", "--with", "Bob", "--days", "4", "--pause", "5s", "--season", "winter",
            "--at-night"]  # fmt: skip
    assert on_the_command_line(*argv)[0] == [said]
    assert on_the_command_line()[0] == [travel()] == [Trip()]


@pytest.mark.parametrize(("given", "line"), WRONG)
def test_both_sides_refuse_the_same(given: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition(":")[0]) as error:
        travel(**given)
    assert line in str(error.value)
    options = {field.name: said.option for field, said in declared(Trip)}
    argv = [
        part
        for name, value in given.items()
        for each in (value if isinstance(value, list) else [value])
        for part in (options[name], str(each))
    ]
    assert line in on_the_command_line(*argv)[1]


def test_python_tells_types_and_unknown_names() -> None:
    for given, line in (
        ({"day": 4}, "travel() has no parameter 'day'; did you mean 'days'"),
        ({"days": "some"}, "travel(): days should be a valid integer, unable to parse"),
        ({"places": "a"}, "travel(): places is a list: ['a']"),
    ):
        with pytest.raises(ConfigError) as error:
            travel(**given)  # type: ignore[arg-type]
        assert line in str(error.value)


def test_a_docstring_has_the_words_before_what_is_returned() -> None:
    assert "days : int\n    How long.\n" in (travel.__doc__ or "")
    assert (travel.__doc__ or "").endswith("Returns\n-------\nTrip")
    assert "company : sequence of str" in (travel.__doc__ or "")


def test_a_word_can_be_said_again_with_another_default() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Short(Words):
        days: int = again(Trip, "days", default=1, most=2)

    assert Short().days == 1
    assert shared(Trip(days=2), Short) == {"days": 2}
    with pytest.raises(ConfigError, match="give 2 or less"):
        Short(days=3)


def test_a_word_that_does_nothing_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Night(Words):
        tent: str | None = word(None, "Where it sleeps.", WHAT)
        hammock: str | None = word(None, "Where else.", WHAT)
        blankets: int = word(1, "How many.", WHAT, needs=("tent", "hammock"))

    assert Night(blankets=2, hammock="red").blankets == 2
    with pytest.raises(ConfigError, match="--blankets does nothing without --tent or --hammock"):
        Night(blankets=2)


@pytest.mark.parametrize("kind", [TuneWords, SweepWords, EvaluateWords, LeagueWords])
def test_every_word_has_one_declaration_for_people(kind: type[Words]) -> None:
    options = [said.option for _, said in declared(kind)]
    assert len(set(options)) == len(options)
    assert all(said.help.endswith(".") or said.help.endswith(")") for _, said in declared(kind))


def test_a_sweep_takes_no_word_that_its_studies_do_not_heed() -> None:
    only_of_tune = {field.name for field, _ in declared(TuneWords)} - {field.name for field, _ in declared(SweepWords)}
    assert "like" in only_of_tune


# What is made of a declaration, each by its own part of damoos.
EVERYWHERE = """
import dataclasses, inspect, json, sys
import typer.main
import damoos
from damoos.cli import app
from damoos.study.config import StudyConfig
from damoos.study.run_config import plain

commands = typer.main.get_command(app).commands
option = {name: next((o for o in commands[name].params if o.name == "patience"), None) for name in ("tune", "sweep")}
sys.path.insert(0, "docs")
from generate import cli
refused = {}
for name, call in (("tune", lambda: damoos.tune("x", patience=0)), ("sweep", lambda: damoos.sweep(["x"], patience=10))):
    try:
        call()
    except damoos.errors.ConfigError as error:
        refused[name] = str(error)
print(json.dumps({
    "help": {name: one and one.help for name, one in option.items()},
    "python": [str(inspect.signature(one).parameters.get("patience")) for one in (damoos.tune, damoos.sweep)],
    "docstring": "patience : int" in damoos.tune.__doc__,
    "stored": plain(StudyConfig(workload="x", machine="y", nr_samples=2, patience=5))["patience"],
    "reference": cli.page().count("`--patience <int>`: How patient it is."),
    "refused": refused,
}))
"""


def test_a_new_option_is_one_declaration(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "damoos", tmp_path / "damoos", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs/generate", tmp_path / "docs/generate")
    file = tmp_path / "damoos/words/studies.py"
    before = "    runs: int | None = word("
    declaration = '    patience: int = word(3, "How patient it is.", SEARCH, least=1, most=9)\n'
    assert file.read_text().count(before) == 1
    file.write_text(file.read_text().replace(before, declaration + before))
    done = subprocess.run(
        [sys.executable, "-c", EVERYWHERE], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "help": {"tune": "How patient it is.", "sweep": "How patient it is."},
        "python": ["patience: int = 3"] * 2,
        "docstring": True,
        "stored": 5,
        "reference": 2,
        "refused": {"tune": "--patience 0: give 1 or more", "sweep": "--patience 10: give 9 or less"},
    }
