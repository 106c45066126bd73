"""Lines at the end of a file: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def append(path: Path, line: str) -> None:
    """Write a line at the end of a file, which is made if need be.

    Raises
    ------
    OSError : it cannot be written whole (the disk is full, say); the file is as it was before
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
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
