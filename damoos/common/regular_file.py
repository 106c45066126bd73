"""Files in folders that others may have filled: only regular ones are read, and no more of one than it can have."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def is_file_name(name: str) -> bool:
    """Whether a name is that of an entry of a folder, which is not hidden: no path leads out of the folder by it."""
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; a pipe of this name is not waited for.

    Raises
    ------
    OSError : it cannot be opened, or is not a regular file
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(fd, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(fd)


def whole(path: Path, most_bytes: int) -> bytes:
    """The content of a file.

    Raises
    ------
    OSError : it cannot be read, is not a regular file, or has more than so many bytes
    """
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise _too_large(path, most_bytes)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it has grown
        raise _too_large(path, most_bytes)
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


def _too_large(path: Path, most_bytes: int) -> OSError:
    size = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
    return OSError(errno.EFBIG, f"larger than {size}", str(path))
