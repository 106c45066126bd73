"""The manual page damoos(1): ``python -m generate.man FILE``."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from damoos import __version__
from generate.commands import Command, Rows, by_task, general, root

EXIT_CODES = (
    ("0", "Done."),
    ("1", "A comparison or test that was asked for failed."),
    ("2", "Wrong words: the message says which."),
    ("3", "The machine is not fit, or lacks what is needed."),
    ("4", "Nothing feasible: no point kept the limits."),
    ("5", "Too many failures."),
    ("130", "Interrupted; 'damoos resume' goes on."),
)
FILES = (
    ("results/", "Studies and raw data of the folder in which damoos was started; --results names another one."),
    ("~/.cache/damoos/", "Kernels, images and suites, which can be made again; DAMOOS_CACHE names another folder."),
)
ENVIRONMENT = (
    ("DAMOOS_CACHE", "Folder of kernels, images and suites."),
    ("DAMOOS_RESERVATIONS", "Folder in which guests reserve CPUs and memory, apart from those of other users."),
    ("DAMOOS_KERNEL", "Kernel of guests for which neither the command nor the machine file names one."),
)


def page() -> str:
    """The whole page, in the man macros."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    damoos = root()
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), datetime.UTC)
    yield f'.TH DAMOOS 1 {made:%Y-%m-%d} "damoos {__version__}" "User Commands"'
    yield ".ad l"
    yield from (".SH NAME", f"damoos \\- {_text(damoos.text.rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B damoos", _text(damoos.usage), ".SH OPTIONS", *_rows(damoos.options))
    yield from (".SS Of every command", *_rows(general()))
    for task, commands in by_task():
        yield f".SH {task.title.upper()}"
        for command in commands:
            yield from _section(command)
    yield from (".SH EXIT STATUS", *_rows(EXIT_CODES), ".SH ENVIRONMENT", *_rows(ENVIRONMENT))
    yield from (".SH FILES", *_rows(FILES))
    yield from (
        ".SH SEE ALSO",
        "Linux's Documentation/admin-guide/mm/damon/usage.rst, and damo, the DAMON user-space tool.",
    )


def _section(command: Command) -> Iterator[str]:
    yield from (f".SS {_text(command.name)} {_text(command.usage)}",)
    for paragraph in command.text.split("\n\n"):
        yield from (".PP", _text(paragraph))
    yield from _rows(command.arguments + command.options)
    yield from (".PP", "Example:", ".PP", ".in +4n", ".nf", *map(_text, command.examples), ".fi", ".in")


def _rows(rows: Rows) -> Iterator[str]:
    for written, means in rows:
        yield from (".TP", f".B {_text(written)}", _text(means) or "\\&")


def _text(words: str) -> str:
    """Words that mean nothing to roff: hyphens stay what a shell wants, no line begins a request."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
