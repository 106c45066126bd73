"""The commands as plain values, from the Typer app: for the site's reference and for the manual page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer.main

from damoos.cli import app
from damoos.cli.general import OPTIONS
from damoos.cli.help import TASKS, Task, examples, summary, text

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Command:
    """What is to be said of one command.

    Parameters
    ----------
    name : str
        All words that call it: ``damoos kernel list``.
    usage : str
        What follows them.
    summary : str
    text : str
        Its help without the examples; paragraphs are parted by an empty line.
    arguments, options : tuple of pairs
        How it is written, and what it means.
    examples : tuple of str
    """

    name: str
    usage: str
    summary: str
    text: str
    arguments: Rows
    options: Rows
    examples: tuple[str, ...]


def root() -> Command:
    """``damoos`` itself."""
    group = typer.main.get_command(app)
    return _command("damoos", group, group.make_context("damoos", [], resilient_parsing=True))


def general() -> Rows:
    """Options that every command takes; they are no rows of each."""
    group = typer.main.get_command(app)
    context = group.make_context("damoos", [], resilient_parsing=True)
    return tuple(record for option in OPTIONS if (record := option.get_help_record(context)))


def by_task() -> Iterator[tuple[Task, list[Command]]]:
    """Each task with its commands, those below a command behind it."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("damoos", [], resilient_parsing=True)
    for task in TASKS:
        there = [name for name in task.commands if name in group.commands]
        yield task, [one for name in there for one in _walk(group.commands[name], name, context)]


def _walk(command: Any, name: str, parent: Any) -> Iterator[Command]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield _command(context.command_path, command, context)
    for below, one in getattr(command, "commands", {}).items():
        yield from _walk(one, below, context)


def _command(name: str, command: Any, context: Any) -> Command:
    own = [param for param in command.get_params(context) if param.name != "help" and param not in OPTIONS]
    shown = [(param, param.get_help_record(context)) for param in own]
    rows = [(param.param_type_name, record) for param, record in shown if record is not None]
    return Command(
        name=name,
        usage=" ".join(command.collect_usage_pieces(context)),
        summary=summary(command.help),
        text="\n\n".join(" ".join(one.split()) for one in text(command.help).split("\n\n")),
        arguments=tuple(record for kind, record in rows if kind == "argument"),
        options=tuple(record for kind, record in rows if kind == "option"),
        examples=tuple(examples(command.help)),
    )
