"""Folders in which the agent keeps its state and the data of runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from damoos.errors import MachineError
from damoos.ownership import is_private, private_folder

_ROOT_STATE, _ROOT_DATA = Path("/run/damoos"), Path("/var/lib/damoos")
# On a disk, not in memory: data that a server reads must not count as memory twice.
_SHARED_DATA = Path("/var/tmp")


def state_folder() -> Path:
    """Where the agent's lock and its list of changes lie: on a file system that does not outlive the kernel.

    Raises
    ------
    MachineError : another user made it
    """
    if os.geteuid() == 0:
        return private_folder(_ROOT_STATE)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and is_private(Path(runtime)):
        return private_folder(Path(runtime) / "damoos")
    return private_folder(_cache() / f"agent-{os.uname().nodename or 'host'}")  # a home may be that of several hosts


def _cache() -> Path:
    """Folder ``~/.cache/damoos`` of this user; made step by step, so that nobody else can have made a part of it.

    Raises
    ------
    MachineError : there is no home folder, or others may write to it
    """
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute() or not is_private(home):
        raise MachineError(
            f"user {os.geteuid()} has no runtime folder (XDG_RUNTIME_DIR) and no home folder that is theirs alone"
            f" ({home}); the agent needs one of the two"
        )
    try:
        return private_folder(private_folder(Path(os.path.realpath(home / ".cache"))) / "damoos")
    except OSError as error:
        raise MachineError(f"{home}/.cache/damoos: {error.strerror}; the agent keeps its lock there") from None


def data_folder() -> Path:
    """Where the folders of runs and the swap file lie, on a disk.

    Raises
    ------
    MachineError : another user made it
    """
    if os.geteuid() == 0:
        return private_folder(_ROOT_DATA, 0o711)  # users of runs must get to their folders, which are private
    return _SHARED_DATA if os.access(_SHARED_DATA, os.W_OK) else Path(tempfile.gettempdir())
