"""What the commands share: options, and how they speak."""

from __future__ import annotations

import json
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from damoos import words
from damoos.cli import complete
from damoos.common.own_file import check_place
from damoos.errors import ConfigError, nearest
from damoos.units import of_option, parse_bytes, parse_time
from damoos.words import OUTPUT, Words, word

# Sections of a command's help, in this order. MOST_USED is made of the other ones.
MOST_USED = "Most used"
SECTIONS = (MOST_USED, *filter(None, words.SECTIONS))
GENERAL = "General"


def own_results(context: typer.Context, results: Path) -> Path:
    """The folder of results; one that another user could exchange is refused, before anything else is done."""
    if not context.resilient_parsing:
        check_place(results)
    return results


Results = Annotated[
    Path, typer.Option(help="Folder of studies and raw data.", callback=own_results, rich_help_panel=OUTPUT)
]
Storage = Annotated[
    str | None,
    typer.Option(help="Optuna storage URL; default: SQLite in the results folder.", rich_help_panel=OUTPUT),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="text or json (one object on stdout, logs on stderr).",
        autocompletion=complete.formats,
        rich_help_panel=OUTPUT,
    ),
]
StudyName = Annotated[
    str, typer.Argument(help="Name of a study; 'damoos studies' lists them.", autocompletion=complete.studies)
]

RESULTS = Path("results")
MarkdownFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="text, json or markdown.",
        autocompletion=complete.choices("text", "json", "markdown"),
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class FormatWords(Words):
    """How a command prints what it has found."""

    form: str = word(
        "text", "text or json (one object on stdout, logs on stderr).", OUTPUT, option="--format",
        choices=("text", "json"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DryRunWords(Words):
    """Whether a command only tells what it would do."""

    dry_run: bool = word(
        False, "Show what would run, what is searched, how long it takes and what it costs; run nothing.", OUTPUT
    )


class Loudness(Enum):
    """How much a command says on standard error while it works."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


loudness: ContextVar[Loudness] = ContextVar("loudness", default=Loudness.NORMAL)

# Exit code of a command that did its work and found what it was to watch for.
FAILED = 1


def say(text: str) -> None:
    """Tell people something, beside what the command prints."""
    print(f"damoos: {text}", file=sys.stderr)


def progress(text: str) -> None:
    """Tell what is under way, unless nobody wants to know."""
    if loudness.get() is not Loudness.QUIET:
        say(text)


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


def confirm(
    question: str,
    otherwise: str = "nothing is deleted without being asked; give --yes",
    refused: str = "nothing is deleted: the answer was no",
) -> None:
    """Ask before something is lost or changed.

    Raises
    ------
    ConfigError : nobody can answer, so it has to be said beforehand, as ``otherwise`` says; or the answer is no
    """
    if not sys.stdin.isatty():
        raise ConfigError(otherwise)
    if not typer.confirm(question, err=True):
        raise ConfigError(refused)


def number(word: str) -> float:
    """A number of an option's text."""
    try:
        return float(word)
    except ValueError:
        raise ConfigError(f"'{word}' is not a number") from None


def time_us(words: str, option: str) -> int:
    """A time of an option, in microseconds; it must have a unit."""
    return of_option(parse_time, words, option)


def size_bytes(words: str, option: str) -> int:
    """A size of an option, in bytes; not 0."""
    sz_bytes = of_option(parse_bytes, words, option)
    if not sz_bytes:
        raise ConfigError(f"{option}: '{words}' is not above 0")
    return sz_bytes


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
