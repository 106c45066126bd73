"""Files that others may have put there: only regular ones are read, and no more of one than it can have.

The agent and the controller both use it, so it needs only the standard library.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """A pipe, a device, a socket or a folder."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


class OutsideError(OSError):
    """A file that is not in the folder in which it should be: a link, or a ``..``, leads out of it."""

    def __init__(self, path: str, folder: str) -> None:
        super().__init__(errno.EXDEV, f"leads out of {folder}", path)


class TooLargeError(OSError):
    """A file with more bytes than are read of it.

    Parameters
    ----------
    path : str
    most_bytes : int
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        size = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
        super().__init__(errno.EFBIG, f"larger than {size}", path)


def descriptor(path: Path | str, flags: int = 0, dir_fd: int | None = None) -> int:
    """Open a file for reading; a pipe of this name is not waited for.

    Parameters
    ----------
    path : Path or str
    flags : int
        Of open(2), beside those for reading: O_NOFOLLOW, say.
    dir_fd : int or None
        Descriptor of the folder that a relative path begins in; None for the current folder.

    Returns
    -------
    int
        Descriptor, for the caller to close.

    Raises
    ------
    NotRegularError : it is no regular file
    OSError : it cannot be opened
    """
    name = os.fspath(path)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegularError(name)
    return fd


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, as `descriptor` does.

    Raises
    ------
    NotRegularError : it is no regular file
    OSError : it cannot be opened
    """
    with open(descriptor(path), "rb") as file:
        yield file


def whole(path: Path, most_bytes: int) -> bytes:
    """The content of a file; one of the kernel's, which has no size beforehand, is read to its end.

    Raises
    ------
    NotRegularError : it is no regular file
    TooLargeError : it has more than so many bytes
    OSError : it cannot be read
    """
    with opened(path) as file:
        return _content(file, path, most_bytes)


def dated(path: Path, most_bytes: int) -> tuple[bytes, float | None]:
    """The content of a file, and when it was written: seconds since 1970, None for a file of the kernel's.

    Those are made as they are read, and have no blocks on any disk.

    Raises
    ------
    NotRegularError, TooLargeError, OSError : as of `whole`
    """
    with opened(path) as file:
        status = os.fstat(file.fileno())
        return _content(file, path, most_bytes), status.st_mtime if status.st_blocks else None


def whole_below(folder: Path, path: Path, most_bytes: int) -> bytes:
    """The content of a file of somebody else's folder, out of which no link leads.

    Parameters
    ----------
    folder : Path
        With all links in it followed (`Path.resolve`).
    path : Path
        Of the file, the folder included.

    Raises
    ------
    OutsideError : it is elsewhere
    NotRegularError, TooLargeError, OSError : as of `whole`
    """
    with opened(path) as file:
        # Where the open file is, and not where its path leads by now.
        if folder not in Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).parents:
            raise OutsideError(str(path), str(folder))
        return _content(file, path, most_bytes)


def _content(file: BinaryIO, path: Path, most_bytes: int) -> bytes:
    if os.fstat(file.fileno()).st_size > most_bytes:
        raise TooLargeError(str(path), most_bytes)
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it has grown
        raise TooLargeError(str(path), most_bytes)
    return content


def tail(file: BinaryIO, start: int, most_bytes: int) -> tuple[int, bytes]:
    """What a file has behind a place; of more bytes than there may be, the last ones, from the beginning of a line.

    Parameters
    ----------
    file : BinaryIO
        As `opened` gives it.
    start : int, bytes

    Returns
    -------
    int, bytes
        Where in the file the content begins; not before ``start``.
    bytes
        The content.
    """
    first = max(start, os.fstat(file.fileno()).st_size - most_bytes)
    file.seek(first)
    content = file.read(most_bytes)
    if first > start:
        cut = content.find(b"\n") + 1 or len(content)
        first, content = first + cut, content[cut:]
    return first, content
