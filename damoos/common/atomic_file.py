"""A file that is put in its place in one step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from damoos.ownership import make_folders


def fill(path: Path, parts: Iterable[bytes], mode: int = 0o600, *, sync: bool = False) -> None:
    """Write parts into a file that by default only its owner may read.

    Parameters
    ----------
    path : Path
        Folders on the way are made.
    mode : int
        Permissions, from which the umask is taken away; 0o644 for a file of the cache, which users may share.
    sync : bool
        Whether it and its name are on the disk before this returns, so that a power failure leaves the new one.

    Raises
    ------
    OSError : it cannot be written; what was there stays, and nothing is left beside it
    """
    make_folders(path.parent)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        put(folder, path.name, lambda out: out.writelines(parts), mode, sync=sync)
    finally:
        os.close(folder)


def sync_names(folder: Path) -> None:
    """Have the names in a folder on the disk: a power failure brings back no file that was renamed or removed.

    Raises
    ------
    OSError : the disk fails
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def put(folder: int, name: str, write: Callable[[BinaryIO], object], mode: int, *, sync: bool = False) -> None:
    """Have ``write`` fill a new file in an open folder, then give it its name; a link of this name is replaced.

    Raises
    ------
    OSError : it cannot be written; what was there stays, and nothing is left beside it
    """
    draft = f".{os.getpid()}.{name}"
    _remove(folder, draft)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(draft, flags, mode, dir_fd=folder), "wb") as out:
            write(out)
            if sync:
                out.flush()
                os.fsync(out.fileno())
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        if sync:
            os.fsync(folder)
    except BaseException:
        _remove(folder, draft)
        raise


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
