"""Defaults of the user's own: ``damoos.toml`` in the folder, and a file in the home directory.

What stands on the command line goes first, then ``damoos.toml``, then the file in the home directory.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from damoos.cli.common import Format, check_format, say
from damoos.common import addresses

HERE = Path("damoos.toml")
KEYS = {
    "machine": "machine of tune, record and the like",
    "results": "folder of studies and raw data",
    "storage": "Optuna storage URL",
    "trials": "the most trials of a study",
    "run_limit": "a run that takes longer hangs",
}

# Commands whose --trials are something else: those of each policy, of a race on curves.
_OTHER_TRIALS = ("league", "bench")

config = typer.Typer(no_args_is_help=True, help="Defaults of your own.\n\nExample: damoos config show")


@dataclass(frozen=True)
class Setting:
    """A default of the user's own, and the file that it is from."""

    value: Any
    file: Path


def in_home() -> Path:
    """The file in the home directory."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "damoos" / "config.toml"


@cache
def settings() -> dict[str, Setting]:
    """What the files say, by key.

    Raises
    ------
    ConfigError : a file is wrong
    """
    found: dict[str, Setting] = {}
    for file in (in_home(), HERE):
        if not file.is_file():
            continue
        if file.stat().st_uid not in (0, os.getuid()):
            say(f"{file.resolve()} belongs to another user, so it is not read")
            continue
        found |= {key: Setting(value, file) for key, value in _read(file).items() if value is not None}
    return found


def _read(file: Path) -> dict[str, Any]:
    # Pydantic takes a while, and most people have no such file.
    from pydantic import Field

    from damoos.common import toml_file
    from damoos.model.quantities import SomeTime

    class Settings(toml_file.Table):
        machine: str | None = None
        results: str | None = None
        storage: str | None = None
        trials: int | None = Field(None, ge=2)
        run_limit: SomeTime | None = None

    said = toml_file.load(file, Settings).model_dump()
    if said["results"] is not None:
        said["results"] = str(Path(said["results"]).expanduser())
    return said


def machine(pid: int | None = None) -> str:
    """Where a command runs that is told no machine; a process that runs already is one of this machine."""
    if pid is not None:
        return "local"
    own = settings().get("machine")
    return "guest" if own is None else str(own.value)


def default_map(command: Any, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The settings as Click wants them: for each command the options that have one, for a group its commands.

    Parameters
    ----------
    known : dict or None
        Those that may stand here; None for all.
    """
    if known is None:
        known = {key: setting.value for key, setting in settings().items() if key != "machine"}
    if not known:
        return {}
    own = {param.name: known[param.name] for param in command.params if param.name in known}
    if not isinstance(command, TyperGroup):
        return own
    others = {key: value for key, value in known.items() if key != "trials"}
    return own | {
        name: default_map(one, others if name in _OTHER_TRIALS else known) for name, one in command.commands.items()
    }


def is_default(context: typer.Context, name: str) -> bool:
    """Whether an option's value was not given on the command line."""
    source = context.get_parameter_source(name)
    return source is None or source.name != "COMMANDLINE"


def _shown(key: str, value: Any) -> Any:
    return addresses.hidden_store(value) if key == "storage" else value


@config.command()
def show(form: Format = "text") -> None:
    """Show each default, and the file that it is from.

    Example: damoos config show
    """
    check_format(form)
    found = settings()
    if form == "json":
        rows = {key: {"value": _shown(key, one.value), "file": str(one.file)} for key, one in found.items()}
        print(json.dumps({key: rows.get(key) for key in KEYS}, indent=2))
        return
    for key, what in KEYS.items():
        said = f"{_shown(key, found[key].value)}  ({found[key].file})" if key in found else "not set"
        print(f"{key:<10} {said:<40} {what}")
    print(f"files: {HERE.resolve()}, {in_home()}")
