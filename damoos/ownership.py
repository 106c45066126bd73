"""Folders that only this user can write to. Nothing that lies in a folder of somebody else's is believed.

The agent and the controller both use it, so it needs only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from damoos.errors import MachineError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# The kernel's own bound of links in one path.
_MOST_LINKS = 40


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
    """A folder that only root or this user has written to; made if need be.

    Parameters
    ----------
    path : Path
        Folders on the way are made, too; who may read them, the umask says.

    Raises
    ------
    MachineError : it, or a folder that it lies in, is another user's or may be written to by all; or it is no folder
    """
    with contextlib.suppress(FileExistsError):  # of what is there instead, the objection tells
        make_folders(path, for_group=False)
    if objection := _objection(path, may_be_roots=True):
        raise MachineError(objection)
    if objection := objection_to_use(path):  # of a folder on the way, whose owner could put another one in its place
        raise MachineError(f"{path} {objection}, so damoos does not use it; take another folder")
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


def make_folders(path: Path, for_group: bool = True) -> None:
    """Make a folder and those on the way to it, whatever the umask writable only to this user.

    Parameters
    ----------
    path : Path
    for_group : bool
        Whether a group may write to what is made in a folder that is shared with that group, unless the umask forbids
        it. A folder that every user may write to, such as ``/tmp``, is shared with no group.

    Raises
    ------
    OSError : one cannot be made
    """
    for folder in (*reversed(path.parents), path):
        if folder.is_dir():
            continue
        is_shared = for_group and folder.parent.stat().st_mode & _OTHERS_WRITE == stat.S_IWGRP
        try:
            folder.mkdir(0o755 | (stat.S_IWGRP if is_shared else 0))
        except FileExistsError:
            # Another process of damoos was quicker, or of a group that shares the folder; nobody else.
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or not (is_shared or status.st_uid in (0, os.geteuid())):
                raise


def close_folder(folder: Path, place: Path) -> None:
    """Take from others the right to write to a folder and to all in it, whatever umask it was made with.

    Parameters
    ----------
    folder : Path
        Finished, and of this user's own.
    place : Path
        Folder that it is to be moved to. If that is shared with a group, the group keeps what the umask has given it.

    Raises
    ------
    OSError : a mode cannot be changed
    """
    is_shared = place.stat().st_mode & _OTHERS_WRITE == stat.S_IWGRP
    taken = stat.S_IWOTH if is_shared else _OTHERS_WRITE
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if mode & taken and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~taken)


def objection_to_use(path: Path, may_be_sudoers: bool = False, may_be_made: bool = False) -> str | None:
    """Why what lies in a folder is not believed: a user who is neither root nor this one could have put it there.

    Once there is no objection, there is none later: nobody else can put another folder or link in its place. A folder
    that a group may write to is shared with that group by choice. Links are followed one by one, since the owner of a
    link decides where it leads.

    Parameters
    ----------
    path : Path
    may_be_sudoers : bool
        Whether root believes the user who has become root by sudo(8), and who could do as much without damoos.
    may_be_made : bool
        Whether it may be absent where every user could make it, as in ``/tmp``. Who then makes it asks again.

    Returns
    -------
    str or None
        The rest of a sentence that begins with the path; None if it can be used, or only those who are believed, or
        whom this user cannot follow, could make it.
    """
    folder = Path(os.path.abspath(path))
    believed = {0, os.geteuid()}
    if may_be_sudoers and os.geteuid() == 0 and (sudoer := os.environ.get("SUDO_UID", "")).isdecimal():
        believed.add(int(sudoer))
    is_open = False
    try:
        steps = list(_way(folder))
        for step in steps:
            status, is_last = step.lstat(), step == steps[-1]
            where = "" if is_last or step == folder else f"lies in {step}, which "
            if status.st_uid not in believed:
                return f"{where}belongs to {user_name(status.st_uid)}"
            is_open = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_IWOTH)
            if is_open and (is_last or not status.st_mode & stat.S_ISVTX):
                return f"{where}is writable by every user"
    except FileNotFoundError:
        # Its owner may have taken it away for as long as we look.
        return "is not there, and every user could make it" if is_open and not may_be_made else None
    except OSError:
        return None  # this user does not get there
    return None


def _way(path: Path) -> Iterator[Path]:
    """Each folder and link on the way to an absolute path, itself included."""
    reached, parts, links = Path(path.anchor), list(path.parts[1:]), 0
    yield reached
    while parts:
        part = parts.pop(0)
        if part == "..":
            reached = reached.parent
            continue
        reached /= part
        yield reached
        if reached.is_symlink() and links < _MOST_LINKS:
            links, target = links + 1, Path(os.readlink(reached))
            parts = [*(target.parts[1:] if target.is_absolute() else target.parts), *parts]
            reached = Path(target.anchor) if target.is_absolute() else reached.parent


def user_name(uid: int) -> str:
    """A user as a message calls it: by its name, or by its number where it has none."""
    with contextlib.suppress(KeyError):
        return f"user {pwd.getpwuid(uid).pw_name}"
    return f"user {uid}"
