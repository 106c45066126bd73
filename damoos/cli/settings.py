"""Defaults of the user's own: ``damoos.toml`` in the folder, and a file in the home directory.

What stands on the command line goes first, then ``damoos.toml``, then the file in the home directory.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from damoos import regular_file
from damoos.cli.common import Format, check_format, say
from damoos.common import addresses
from damoos.ownership import objection_to_use

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
    for file, opened in ((in_home(), _opened_in_home), (HERE, _opened_here)):
        try:
            descriptor = opened(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except _NotOursError as why:
            say(f"{file.absolute()} {why}, so it is not read")
            continue
        except regular_file.NotRegularError:
            say(f"{file.absolute()} is not a regular file, so it is not read")
            continue
        except OSError as error:
            say(f"{file.absolute()}: {error.strerror}, so it is not read")
            continue
        found |= {key: Setting(value, file) for key, value in _read(file, descriptor).items() if value is not None}
    return found


class _NotOursError(Exception):
    """Why another user can have written a file; the rest of a sentence that begins with the file."""


def _opened_in_home(file: Path) -> int:
    """Descriptor of a file that may be a link, as some keep theirs in another folder.

    Raises
    ------
    OSError : it cannot be opened
    _NotOursError : another user can have written it
    """
    descriptor = _checked(regular_file.descriptor(file))
    if objection := objection_to_use(file):
        os.close(descriptor)
        raise _NotOursError(objection)
    return descriptor


def _opened_here(file: Path) -> int:
    """Descriptor of a file in the current folder, by no path that leads elsewhere between the check and the opening.

    A link, or one name of several, can be another user's work although the file itself is this user's. So can any name
    in a folder of another user, or in one that every user may write to, such as ``/tmp``.

    Raises
    ------
    OSError : it cannot be opened
    _NotOursError : another user can have put it there
    """
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = _checked(regular_file.descriptor(file.name, os.O_NOFOLLOW, folder))
        around = os.fstat(folder)
    except OSError as error:
        raise _NotOursError("is a link") if error.errno == errno.ELOOP else error from None
    finally:
        os.close(folder)
    is_open = around.st_uid not in (0, os.geteuid()) or around.st_mode & stat.S_IWOTH
    if is_open or os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise _NotOursError("is in a folder of other users" if is_open else "has a second name (a hard link)")
    return descriptor


def _checked(descriptor: int) -> int:
    """A descriptor of a file that only root or this user, and a group by choice, can have written; else it is closed.

    Raises
    ------
    _NotOursError : another user can
    """
    status = os.fstat(descriptor)
    objection = ""
    if status.st_uid not in (0, os.geteuid()):
        objection = "belongs to another user"
    elif status.st_mode & stat.S_IWOTH:
        objection = "is writable by every user"
    if objection:
        os.close(descriptor)
        raise _NotOursError(objection)
    return descriptor


def _read(file: Path, descriptor: int) -> dict[str, Any]:
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

    said = toml_file.load(file, Settings, lambda path, flags: descriptor).model_dump()
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
