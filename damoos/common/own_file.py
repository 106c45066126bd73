"""Files that damoos writes in folders of results and services: it follows no link there, and waits for no pipe."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from damoos.ownership import user_name

_NOT_REGULAR = "not a regular file"


def is_file_name(name: str) -> bool:
    """Whether a name is that of an entry of a folder, which is not hidden: no path leads out of the folder by it."""
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """Descriptor of a folder, for the files in it; whatever takes the folder's place afterwards, it is still this one.

    Raises
    ------
    OSError : it cannot be opened, or the last part of its path is a link
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _named(error, path) from None
    try:
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


def descriptor_in(around: int, path: Path, flags: int, mode: int = 0o600) -> int:
    """Descriptor of a file as `descriptor` gives it, in a folder that `folder` has opened."""
    try:
        fd = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=around)
    except OSError as error:
        raise _named(error, path) from None
    if objection := _objection(os.fstat(fd), is_written=flags & os.O_ACCMODE != os.O_RDONLY):
        os.close(fd)
        raise OSError(errno.EINVAL, objection, str(path))
    return fd


def _objection(status: os.stat_result, is_written: bool) -> str | None:
    """Why a file is not used, behind its path and a colon; None if it is."""
    if not stat.S_ISREG(status.st_mode):
        return f"{_NOT_REGULAR}; remove it"
    if is_written and status.st_uid != os.geteuid():
        return f"belongs to {user_name(status.st_uid)}, so damoos does not write to it; run damoos as that user"
    if is_written and status.st_nlink > 1:
        return "has a second name (a hard link), so damoos does not write to it; remove it"
    return None


def _named(error: OSError, path: Path) -> OSError:
    """The error of an opening with the whole path, and in plainer words where it is a link or a pipe."""
    what = error.strerror
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
        what = "a symbolic link, which damoos does not follow; remove it"
    elif error.errno == errno.ENXIO:  # a pipe that nobody reads, or a socket
        what = f"{_NOT_REGULAR}; remove it"
    return OSError(error.errno, what, str(path))
