"""Folders that only this user can write to. Nothing that lies in a folder of somebody else's is believed."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from damoos.errors import MachineError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT_STATE, _ROOT_DATA = Path("/run/damoos"), Path("/var/lib/damoos")
# On a disk, not in memory: data that a server reads must not count as memory twice.
_SHARED_DATA = Path("/var/tmp")


def private_folder(path: Path, mode: int = 0o700) -> Path:
    """A folder of this user's own; made if need be.

    Parameters
    ----------
    path : Path
        Its parent exists and is not writable to others, or is sticky, as ``/tmp`` is.
    mode : int
        Of a new folder.

    Raises
    ------
    MachineError : another user made it, others may write to it, or it is a link or no folder
    """
    _make(path, mode)
    if objection := _objection(path):
        raise MachineError(objection)
    return path


def trusted_folder(path: Path) -> Path:
    """A folder that all may read, and that only root or this user has written to; made if need be.

    Parameters
    ----------
    path : Path
        Folders on the way are made, too.

    Raises
    ------
    MachineError : it, or a folder that it lies in, is another user's or may be written to by all; or it is no folder
    """
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            _make(folder, 0o755)
    if objection := _objection(path, may_be_roots=True):
        raise MachineError(objection)
    for parent in path.parents:  # whose owner could put another folder in the place of this one
        status = parent.stat()
        is_open = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()) or is_open:
            whose = "all users may write to it" if is_open else f"it belongs to user {status.st_uid}"
            raise MachineError(f"{path} lies in {parent}, and {whose}, so damoos does not use it; take another folder")
    return path


def _make(path: Path, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
        path.chmod(mode)  # whatever the umask


def is_private(path: Path) -> bool:
    """Whether a folder is there that only this user can write to."""
    return os.path.lexists(path) and not _objection(path)


def _objection(path: Path, may_be_roots: bool = False) -> str | None:
    """Why a folder is not this user's own; None if it is."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a folder; remove it"
    if status.st_uid != os.geteuid() and not (may_be_roots and status.st_uid == 0):
        return f"{path} belongs to user {status.st_uid}, so damoos does not use it; remove it"
    if status.st_mode & _OTHERS_WRITE:
        return f"{path}: other users may write to it, so damoos does not use it; remove it, or chmod go-w"
    return None


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
