"""What the commands share: options, and how they speak."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from damoos.cli import complete
from damoos.errors import ConfigError, nearest
from damoos.units import parse_bytes, parse_time

Results = Annotated[Path, typer.Option(help="Folder of studies and raw data.")]
Storage = Annotated[str | None, typer.Option(help="Optuna storage URL; default: SQLite in the results folder.")]
Format = Annotated[str, typer.Option("--format", help="text or json (one object on stdout, logs on stderr).")]
StudyName = Annotated[
    str, typer.Argument(help="Name of a study; 'damoos studies' lists them.", autocompletion=complete.studies)
]

RESULTS = Path("results")
# Exit code of a command that did its work and found what it was to watch for.
FAILED = 1


def say(text: str) -> None:
    """Tell people something, beside what the command prints."""
    print(f"damoos: {text}", file=sys.stderr)


def check_format(form: str, *more: str) -> None:
    """Refuse a format that the command does not have."""
    known = ["text", "json", *more]
    if form not in known:
        raise ConfigError(f"unknown format '{form}'{nearest(form, known)}")


def print_rows(rows: list[dict[str, str]], form: str) -> None:
    """Print names and descriptions."""
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:<24} {row['description']}")


def number(word: str) -> float:
    """A number of an option's text."""
    try:
        return float(word)
    except ValueError:
        raise ConfigError(f"'{word}' is not a number") from None


def time_us(words: str, option: str) -> int:
    """A time of an option, in microseconds; it must have a unit."""
    return _of_option(parse_time, words, option)


def size_bytes(words: str, option: str) -> int:
    """A size of an option, in bytes; not 0."""
    sz_bytes = _of_option(parse_bytes, words, option)
    if not sz_bytes:
        raise ConfigError(f"{option}: '{words}' is not above 0")
    return sz_bytes


def _of_option(parse: Callable[[str], int], words: str, option: str) -> int:
    try:
        return parse(words)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


def positive(count: int, name: str) -> int:
    """Refuse a count under 1."""
    if count < 1:
        raise ConfigError(f"{name} must be 1 or more")
    return count


def comma_separated(words: str, option: str) -> list[str]:
    """The words of an option that takes several; each only once."""
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"{option}: expected different names, got '{words}'")
    return names
