"""Help: every command belongs to a task and ends with examples that its own parser takes; it is quick."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main

from damoos.cli import app
from damoos.cli.help import TASKS, examples, summary

ROOT = typer.main.get_command(app)


def commands(group=ROOT, words: tuple[str, ...] = ("damoos",)) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every command with the words that call it, those with commands of their own among them."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


ALL = dict(commands())
EXAMPLES = [(words, line) for words, command in ALL.items() for line in examples(command.help)]
EXAMPLES += [(("damoos",), task.example) for task in TASKS]


def parsed(argv: list[str]) -> tuple[str, ...]:
    """Parse a command line without doing it: the words of the command that it calls."""
    context = ROOT.make_context("damoos", argv[1:])
    called = ["damoos"]
    while context._protected_args:  # what is left for a command of this group
        words = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, words)
        called.append(name)
        context = command.make_context(name, rest, parent=context)
    return tuple(called)


def first_command(line: str) -> list[str]:
    """The words of a shell's line up to the first pipe, redirection or further command."""
    split = shlex.shlex(line, posix=True, punctuation_chars="|&<>")
    split.whitespace_split = True
    words = list(split)
    ends = [at for at, word in enumerate(words) if set(word) <= set("|&<>")]
    return words[: min(ends, default=len(words))]


def test_every_command_belongs_to_one_task() -> None:
    named = [name for task in TASKS for name in task.commands]
    assert len(named) == len(set(named))
    assert set(ROOT.commands) <= set(named)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_an_example_of_its_own(words: tuple[str, ...]) -> None:
    found = examples(ALL[words].help)
    assert found
    assert all(parsed(first_command(line))[: len(words)] == words for line in found)


@pytest.mark.parametrize(("words", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_every_example_is_taken_by_the_parser(words: tuple[str, ...], line: str) -> None:
    assert parsed(first_command(line))[: len(words)] == words


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parsed(first_command("damoos tune --wrokload parsec3/raytrace > file"))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_ends_with_the_examples_as_they_are(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    command = ALL[words]
    monkeypatch.setenv("COLUMNS", "80")
    shown = command.get_help(command.make_context(words[-1], [], resilient_parsing=True)).rstrip()
    for name in getattr(command, "commands", {}):
        assert f"\n  {name} " in shown
    assert shown.endswith("\n".join(f"  {line}" for line in examples(command.help)))


def test_help_is_by_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = ROOT.get_help(ROOT.make_context("damoos", [], resilient_parsing=True))
    assert [line[:-1] for line in shown.splitlines() if line.endswith(":")] == [
        "Options",
        *(task.title for task in TASKS),
    ]
    for task in TASKS:
        assert f"$ {task.example}\n" in shown + "\n"
    for name in ROOT.commands:
        assert f"\n  {name} " in shown
    assert "..." not in shown.replace("[ARGS]...", "")


def test_a_summary_is_one_short_phrase() -> None:
    assert summary("Tune a scheme: baselines, trials.\n\nExample: damoos tune") == "Tune a scheme"
    assert summary("List them; each\nonce.") == "List them"
    assert summary("Reads a.toml. And more.") == "Reads a.toml"


def test_neither_help_nor_completion_imports_what_is_heavy() -> None:
    heavy = {"numpy", "pandas", "pyarrow", "pydantic", "rich", "optuna", "matplotlib", "plotly", "fabric", "sqlalchemy"}
    code = f"import sys, damoos.cli, damoos.cli.complete; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
