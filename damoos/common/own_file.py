"""Files that damoos writes in folders of results and services: it follows no link there, and waits for no pipe."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from damoos.errors import StoreError
from damoos.ownership import objection_to_use, user_name

_NOT_REGULAR = "not a regular file"
_LINK = "a symbolic link, which damoos does not follow; remove it"


def is_file_name(name: str) -> bool:
    """Whether a name is that of an entry of a folder, which is not hidden: no path leads out of the folder by it.

    Signs that are not to be seen are refused, too: a name with a line feed would be two lines of whatever it stands in.
    """
    return name.isprintable() and bool(name) and not name.startswith(".") and "/" not in name


def check_place(folder: Path) -> None:
    """Refuse a folder of results or of a store that another user could exchange for a link while damoos uses it.

    Every command and every function of the API that takes a results folder begins with this. After it nobody else can
    put anything in the place of the folder or of what lies in it.

    Raises
    ------
    StoreError : it is another user's, or every user may write to it, or could make it
    """
    if objection := objection_to_use(folder, may_be_sudoers=True):
        remedy = (
            "take a folder of your own with --results or --storage, or copy what lies there into one"
            if os.path.lexists(folder)
            else "make it first, or take a folder of your own with --results or --storage"
        )
        raise StoreError(f"{folder} {objection}, so damoos uses nothing there; {remedy}")


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """Descriptor of a folder, for the files in it; whatever takes the folder's place afterwards, it is still this one.

    Raises
    ------
    OSError : it cannot be opened, the last part of its path is a link, or another user could have put it there
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _named(error, path) from None
    try:
        if objection := objection_to_use(path, may_be_sudoers=True):
            raise OSError(errno.EPERM, f"{objection}, so damoos uses nothing there", str(path))
        yield fd
    finally:
        os.close(fd)


def descriptor(path: Path, flags: int, mode: int = 0o600) -> int:
    """Descriptor of a regular file; neither the file nor its folder is a link, and a pipe is not waited for.

    A file that is opened for writing is this user's own and has no other name. It is never truncated here, so that
    nothing is lost if it is refused.

    Parameters
    ----------
    path : Path
    flags : int
        ``os.O_RDONLY``, ``os.O_RDWR | os.O_CREAT`` and so on.
    mode : int
        Permissions of a new file, from which the umask is taken away.

    Raises
    ------
    OSError : it cannot be opened, or is another kind of file, or another user's
    """
    with folder(path.parent) as around:
        return descriptor_in(around, path, flags, mode)


def lock(path: Path) -> int:
    """Descriptor of a file to be locked, made if need be, which nobody else can open: who reads a file can lock it.

    Raises
    ------
    OSError : as of `descriptor`
    """
    fd = descriptor(path, os.O_RDWR | os.O_CREAT)
    os.fchmod(fd, 0o600)  # one of an earlier version
    return fd


def descriptor_in(around: int, path: Path, flags: int, mode: int = 0o600, is_shared: bool = False) -> int:
    """Descriptor of a file as `descriptor` gives it, in a folder that is open.

    Parameters
    ----------
    is_shared : bool
        Whether it may be another user's, as a lock to which nothing is written.

    Raises
    ------
    OSError : as of `descriptor`
    """
    try:
        fd = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=around)
    except OSError as error:
        raise _named(error, path) from None
    if objection := _objection(os.fstat(fd), is_written=not is_shared and flags & os.O_ACCMODE != os.O_RDONLY):
        os.close(fd)
        raise OSError(errno.EINVAL, objection, str(path))
    return fd


def objection_to_names(status: os.stat_result) -> str | None:
    """Why a file is not written to, whoever owns it, behind its path and a colon; None if it is.

    Parameters
    ----------
    status : os.stat_result
        Of lstat(2) or fstat(2).
    """
    if stat.S_ISLNK(status.st_mode):
        return _LINK
    if not stat.S_ISREG(status.st_mode):
        return f"{_NOT_REGULAR}; remove it"
    if status.st_nlink > 1:
        return "has a second name (a hard link), so damoos does not write to it; remove it"
    return None


def _objection(status: os.stat_result, is_written: bool) -> str | None:
    """Why a file is not used, behind its path and a colon; None if it is."""
    if not is_written:
        return None if stat.S_ISREG(status.st_mode) else f"{_NOT_REGULAR}; remove it"
    if stat.S_ISREG(status.st_mode) and status.st_uid != os.geteuid():
        return f"belongs to {user_name(status.st_uid)}, so damoos does not write to it; run damoos as that user"
    return objection_to_names(status)


def _named(error: OSError, path: Path) -> OSError:
    """The error of an opening with the whole path, and in plainer words where it is a link or a pipe."""
    what = error.strerror
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
        what = _LINK
    elif error.errno == errno.ENXIO:  # a pipe that nobody reads, or a socket
        what = f"{_NOT_REGULAR}; remove it"
    return OSError(error.errno, what, str(path))
