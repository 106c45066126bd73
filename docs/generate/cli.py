"""The reference of the command line, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generate.commands import Command, Rows, by_task, general, root


def page() -> str:
    """All commands, by task."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from ("## Options of damoos itself", "", *_definitions(root().options))
    yield from ("## Options of every command", "", *_definitions(general()))
    for task, commands in by_task():
        yield from (f"## {task.title}", "")
        for command in commands:
            yield from _section(command)


def _section(command: Command) -> Iterator[str]:
    yield from (f"### {command.name}", "", plain(command.text), "")
    yield from ("```text", f"{command.name} {command.usage}", "```", "")
    yield from _definitions(command.arguments + command.options)
    yield from ("Example:" if len(command.examples) == 1 else "Examples:", "", "```sh", *command.examples, "```", "")


def _definitions(rows: Rows) -> Iterator[str]:
    for written, means in rows:
        yield f"- `{written}`: {plain(means)}".rstrip(": ")
    yield from [""] if rows else []


def plain(words: str) -> str:
    """Words that mean nothing to Markdown; commands in quotes become code."""
    parts = re.split(r"'(damoos [^']*)'", words)
    return "".join(f"`{one}`" if at % 2 else re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", one) for at, one in enumerate(parts))
