"""Lines at the end of a file: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from damoos.common import own_file


def append(path: Path, line: str, mode: int = 0o666) -> None:
    """Write a line at the end of a file, which is made if need be.

    Parameters
    ----------
    mode : int
        Permissions of a new file, from which the umask is taken away.

    Raises
    ------
    OSError : it cannot be written whole (the disk is full, say); the file is as it was before. Or it is a link, no
        regular file, or another user's: see `damoos.common.own_file.descriptor`.
    """
    fd = own_file.descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        before, left = os.fstat(fd).st_size, memoryview(f"{line}\n".encode())
        try:
            while left:
                left = left[os.write(fd, left) :]
        except OSError:
            os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)
