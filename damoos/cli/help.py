"""How help is laid out: the commands by task, an example for each task, and one or more at the end of every command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from damoos.cli.common import GENERAL, MOST_USED, SECTIONS
from damoos.cli.general import OPTIONS
from damoos.errors import ConfigError, nearest
from damoos.words import EMPTY

_EXAMPLE = re.compile(r"^Example: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """What somebody wants to do, the commands for it, and an example.

    Parameters
    ----------
    title : str
    commands : tuple of str
        In the order in which they are shown.
    example : str
    """

    title: str
    commands: tuple[str, ...]
    example: str


TASKS = (
    Task(
        "Tune and prove",
        ("tune", "resume", "validate", "evaluate", "compare", "league"),
        "damoos tune --workload parsec3/raytrace --trials 10",
    ),
    Task(
        "Look at studies",
        ("studies", "show", "watch", "dashboard", "report"),
        "damoos show parsec3-raytrace-guest-1",
    ),
    Task(
        "Put into service",
        ("apply", "rollout", "status", "metrics", "stop"),
        "damoos apply parsec3-raytrace-guest-1 --on unit:redis.service",
    ),
    Task(
        "Look at memory",
        ("record", "predict", "rightsize"),
        "damoos record synthetic/stairs",
    ),
    Task(
        "Fleet",
        ("sweep", "plan", "cluster"),
        "damoos sweep --workloads 'splash2x/*' --machines i3,m5d,z1d --dry-run",
    ),
    Task(
        "Machines and kernels",
        ("doctor", "look", "machines", "kernel", "setup", "cache", "config"),
        "damoos doctor guest",
    ),
    Task(
        "Workloads",
        ("workloads",),
        "damoos workloads show redis/idle",
    ),
    Task(
        "Extend",
        ("plugin", "bench"),
        "damoos plugin new scorer my_sla",
    ),
)


def text(help: str | None) -> str:
    """What a command's help says before its examples."""
    return _EXAMPLE.sub("", help or "").strip()


def examples(help: str | None) -> list[str]:
    """The command lines that a command's help gives as examples, in its docstring lines ``Example: damoos ...``."""
    return _EXAMPLE.findall(help or "")


def summary(help: str | None) -> str:
    """What a command does, for a list of commands: its first sentence, as far as the first colon or semicolon."""
    paragraph = " ".join(text(help).partition("\n\n")[0].split())
    return re.split(r"[:;] |\.$|\. ", paragraph)[0]


# With more options than this, help has sections; with more than that, the ten that matter most come first.
_SECTIONS_ABOVE = 12
_MOST_USED_ABOVE = 24
_FIRST = (
    "named", "workloads", "command", "pid", "machine", "machines", "memory", "policy", "score", "limits",
    "trials", "dry_run",
)  # fmt: skip


class _General:
    """A command that takes the options that all take, and whose help ends with its examples, so that each is a line of
    its own and can be copied.
    """

    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options, then those that every command takes, then ``--help``."""
        own = super().get_params(ctx)  # type: ignore[misc]
        return [*own[:-1], *OPTIONS, own[-1]]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Without the examples, which come last."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text(self.help))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples."""
        if lines := examples(self.help):
            _write_examples(formatter, lines)


class CommandHelp(_General, TyperCommand):
    """A command's help, and what is refused of the words of every command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words. An empty one is refused: it is what a script says whose variable is not set."""
        if not ctx.resilient_parsing:
            for before, word in zip(["", *args], args, strict=False):
                option, is_joined, value = word.partition("=")
                if before.startswith("--") and not word.strip():
                    raise ConfigError(EMPTY.format(before))
                if option.startswith("--") and is_joined and not value.strip():
                    raise ConfigError(EMPTY.format(option))
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for param in self.params:
                value = ctx.params.get(param.name)
                if param.param_type_name == "argument" and isinstance(value, str) and not value.strip():
                    raise ConfigError(EMPTY.format(str(param.name).upper()))
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options by section."""
        shown = [(param, record) for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
        nr_own = len(shown) - len(OPTIONS) - 1
        has_sections, has_first = nr_own > _SECTIONS_ABOVE, nr_own > _MOST_USED_ABOVE
        rows: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", "Options", *SECTIONS, GENERAL)}
        for param, record in shown:
            if param in OPTIONS or param.name == "help":
                section = GENERAL
            elif has_first and param.name in _FIRST:
                section = MOST_USED
            elif param.param_type_name == "argument":
                section = "Arguments"
            else:
                section = (has_sections and getattr(param, "rich_help_panel", None)) or "Options"
            rows[section].append(record)
        for name, found in rows.items():
            if found:
                with formatter.section(name):
                    formatter.write_dl(found)


class GroupHelp(_General, TyperGroup):
    """The help of a command that has commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; of a wrong word the nearest ones are named."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            known = [name for name, command in self.commands.items() if not command.hidden]
            raise ConfigError(f"no command '{ctx.command_path} {args[0]}'{nearest(args[0], known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List them; none has more than a line or two to say."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, summary(command.help)) for name, command in self.commands.items() if not command.hidden]
            )


class TasksHelp(GroupHelp):
    """The help of damoos itself: by task."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One section for each task; what no task has named comes last."""
        named = {name for task in TASKS for name in task.commands}
        rest = Task("More", tuple(name for name in self.commands if name not in named), "")
        width = max(map(len, self.commands))
        for task in (*TASKS, rest):
            rows = [
                (f"{name:<{width}}", summary(self.commands[name].help))
                for name in task.commands
                if name in self.commands
            ]
            if rows:
                with formatter.section(task.title):
                    formatter.write_dl(rows)
                    if task.example:
                        formatter.write(f"{'':>{formatter.current_indent}}$ {task.example}\n")


def lay_out(app: typer.Typer) -> None:
    """Give all commands of an app, and those of the apps in it, this help."""
    for command in app.registered_commands:
        command.cls = CommandHelp
    for group in app.registered_groups:
        group.cls = GroupHelp
        if group.typer_instance is not None:
            lay_out(group.typer_instance)


def _write_examples(formatter: Any, lines: list[str]) -> None:
    with formatter.section("Example" if len(lines) == 1 else "Examples"):
        for line in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
