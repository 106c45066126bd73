"""Which files of a file system are opened and closed, as the kernel tells it: fanotify.

References
----------
fanotify(7), fanotify_init(2), fanotify_mark(2)
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from damoos.errors import UnsupportedError

_CLOEXEC, _NONBLOCK = 0x1, 0x2
_MARK_ADD, _MARK_FILESYSTEM = 0x1, 0x100
_CLOSE_WRITE, _CLOSE_NOWRITE, _OPEN = 0x8, 0x10, 0x20
_OVERFLOW = 0x4000
_AT_FDCWD = -100
_EVENT = struct.Struct("=IBBHQii")  # event_len, vers, reserved, metadata_len, mask, fd, pid
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class FileEvent:
    """A file was opened or closed.

    Parameters
    ----------
    fd : int
        The file, opened to read; whoever takes the event closes it.
    pid : int
        Who did it.
    is_open : bool
    """

    fd: int
    pid: int
    is_open: bool


class FileWatch:
    """All that is opened and closed on the file system that a folder is on, from now on.

    Raises
    ------
    UnsupportedError : the kernel has no fanotify, or this process may not use it
    """

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.fanotify_init(_CLOEXEC | _NONBLOCK, os.O_RDONLY | os.O_CLOEXEC)
        if self._fd < 0:
            raise UnsupportedError(f"files cannot be watched here: fanotify: {os.strerror(ctypes.get_errno())}")
        mask = ctypes.c_uint64(_OPEN | _CLOSE_WRITE | _CLOSE_NOWRITE)
        if libc.fanotify_mark(self._fd, _MARK_ADD | _MARK_FILESYSTEM, mask, _AT_FDCWD, os.fsencode(folder)) != 0:
            why = os.strerror(ctypes.get_errno())
            self.close()
            raise UnsupportedError(f"files of {folder} cannot be watched: fanotify: {why} (it needs Linux 4.20)")

    def events(self) -> Iterator[FileEvent]:
        """Events since the last call; what the kernel could not keep is lost.

        What one process does to one file before anybody reads is one event of the kernel's: it is told here as one
        opening and one closing, whatever their number and order was.
        """
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at + _EVENT.size <= len(data):
                length, _, _, _, mask, fd, pid = _EVENT.unpack_from(data, at)
                at += length
                if fd < 0 or mask & _OVERFLOW:
                    continue
                if mask & _OPEN and mask & (_CLOSE_WRITE | _CLOSE_NOWRITE):
                    yield FileEvent(os.dup(fd), pid, True)
                    mask &= ~_OPEN
                yield FileEvent(fd, pid, bool(mask & _OPEN))

    def close(self) -> None:
        """Watch no more."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
