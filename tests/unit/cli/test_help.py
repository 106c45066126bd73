"""Help: every command belongs to a task and ends with examples that its own parser takes; it is quick."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from damoos.cli import app
from damoos.cli.help import TASKS, examples, summary
from damoos.errors import ConfigError

ROOT_FOLDER = Path(__file__).resolve().parents[3]
PAGES = [ROOT_FOLDER / "README.md", *sorted((ROOT_FOLDER / "docs").rglob("*.md"))]
ROOT = typer.main.get_command(app)


def commands(group=ROOT, words: tuple[str, ...] = ("damoos",)) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every command with the words that call it, those with commands of their own among them."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


ALL = dict(commands())
DONE_WHILE_PARSED = ("--install-completion", "--show-completion", "--help")
EXAMPLES = [(words, line) for words, command in ALL.items() for line in examples(command.help)]
EXAMPLES += [(("damoos",), task.example) for task in TASKS]


def parsed(argv: list[str]) -> tuple[str, ...]:
    """Parse a command line without doing it: the words of the command that it calls."""
    words = [word for word in argv[1:] if word not in DONE_WHILE_PARSED]
    if not words:
        return ("damoos",)
    context = ROOT.make_context("damoos", words)
    called = ["damoos"]
    while context._protected_args:  # what is left for a command of this group
        words = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, words)
        called.append(name)
        context = command.make_context(name, rest, parent=context)
    return tuple(called)


def commands_of(text: str) -> list[list[str]]:
    """The words of each call of damoos in lines for a shell."""
    split = shlex.shlex(text.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="|&<>;")
    split.whitespace_split, split.commenters = True, ""
    calls: list[list[str]] = [[]]
    for word in split:
        if set(word) <= set("|&<>;"):
            calls.append([])
        else:
            calls[-1].append(word)
    return [words for words in calls if words[:1] == ["damoos"]]


def shown_in(page: str) -> list[str]:
    """Lines for a shell, of blocks that are marked as such or indented, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    blocks += re.findall(r"^    (damoos (?:.*\\\n)*.*)$", page, re.MULTILINE)
    return [re.sub(r"(^|\s)#.*", "", line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def test_every_command_belongs_to_one_task() -> None:
    named = [name for task in TASKS for name in task.commands]
    assert sorted(ROOT.commands) == sorted(named)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_an_example_of_its_own(words: tuple[str, ...]) -> None:
    found = examples(ALL[words].help)
    assert found
    assert all(parsed(commands_of(line)[0])[: len(words)] == words for line in found)


@pytest.mark.parametrize(("words", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_every_example_is_taken_by_the_parser(words: tuple[str, ...], line: str) -> None:
    for call in commands_of(line):
        assert parsed(call)[0] == "damoos"
    assert parsed(commands_of(line)[0])[: len(words)] == words


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT_FOLDER)) for page in PAGES])
def test_every_command_in_the_docs_is_taken_by_the_parser(page: Path) -> None:
    for line in shown_in(page.read_text()):
        for call in commands_of(line):
            parsed(call)


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parsed(commands_of("damoos tune --wrokload parsec3/raytrace > file")[0])


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


def sections(words: tuple[str, ...]) -> dict[str, int]:
    """The sections of a command's help, with how many options each has."""
    command = ALL[words]
    shown = command.get_help(command.make_context(words[-1], [], resilient_parsing=True))
    found: dict[str, int] = {}
    title = ""
    for line in shown.splitlines():
        if re.fullmatch(r"[A-Z][A-Za-z ]*:", line):
            title = line[:-1]
            found[title] = 0
        elif re.match(r"  (-|[A-Z]+ <)", line) and title:
            found[title] += 1
    return found


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_that_is_longer_than_a_screen_has_sections(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert sections(words).get("Options", 0) <= 12


def test_the_help_of_tune_begins_with_the_ten_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = sections(("damoos", "tune"))
    assert found["Most used"] == 10
    assert list(found) == ["Most used", "What", "Where", "Policy", "Search", "Score", "Output", "General", "Example"]


# What people type as they like: names, paths, numbers, times, sizes, expressions.
FREE = {
    "address", "aggregation", "bake", "bzimage", "candidates", "cliffs", "command", "curve_seed", "curves",
    "duration", "fd", "fleet", "generate", "guards", "intervals", "into", "least_saving", "like", "limits",
    "made", "max_freq", "max_regions", "maximize", "memory", "metrics", "min_accesses", "min_regions", "minimize",
    "modules",
    "new", "noise", "output", "packages", "params", "path", "pid", "plateaus", "port", "prices", "ray", "repeats",
    "results", "rounds", "run_limit", "runs", "sample", "scheme", "seed", "seeds", "settle", "size", "sizes",
    "slowdown", "source", "steps", "storage", "surface", "surfaces", "target", "time", "time_limit", "tolerance",
    "trials", "tunables", "tune", "unit_work", "unused", "update", "weights", "window", "write_limit",
}  # fmt: skip


# Their option or argument `name` is of something that is not there yet.
OF_A_NEW_NAME = (("kernel", "add"), ("plugin", "new"), ("damoos", "apply"), ("damoos", "rollout"))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_closed_choice_is_completed(words: tuple[str, ...]) -> None:
    missing = {
        param.name
        for param in ALL[words].params
        if not getattr(param, "is_flag", False)
        and param.name not in FREE
        and param._custom_shell_complete is None
        and param.name not in ("install_completion", "show_completion")
    }
    assert missing == (set() if words[-2:] not in OF_A_NEW_NAME else {"name"})


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_no_option_takes_an_empty_word(words: tuple[str, ...]) -> None:
    command = ALL[words]
    if hasattr(command, "commands"):
        return
    for param in command.params:
        if param.param_type_name == "option" and not getattr(param, "is_flag", False):
            for given in ([param.opts[0], ""], [param.opts[0], " "], [f"{param.opts[0]}="]):
                with pytest.raises(ConfigError, match=f"^{param.opts[0]} is empty"):
                    command.make_context(words[-1], given)
