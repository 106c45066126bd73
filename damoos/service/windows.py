"""The windows of a journal: what guards have measured, a line of JSON for each."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from damoos.service.forms import WINDOW

# What was not measured of a window.
_UNKNOWN: dict[str, Any] = {"net_bytes": None, "watched": {}}


class Windows:
    """What was measured of one policy, for whoever looks again and again: only what is new is read.

    Parameters
    ----------
    folder : Path
        The journal's.
    name : str
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.windows"
        self._before = self._file.with_suffix(".windows-before")
        self._inode = self._offset = 0
        self._found: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All of them that there were at any look, the oldest first."""
        with contextlib.suppress(OSError), open(self._file, "rb", opener=_without_waiting) as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:  # the first look, or another file has taken its place
                self._read_before()
                self._inode, self._offset = inode, 0
            file.seek(self._offset)
            self._add(file.read())
        return self._found

    def _read_before(self) -> None:
        """What the former file has beyond the last look."""
        with contextlib.suppress(OSError), open(self._before, "rb", opener=_without_waiting) as file:
            if self._inode not in (0, os.fstat(file.fileno()).st_ino):
                return  # two files have gone since, which takes days
            file.seek(self._offset)
            self._add(file.read())

    def _add(self, text: bytes) -> None:
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # its writer was killed in the middle of one
                self._found.append({**_UNKNOWN, **WINDOW.parse(line)})


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, or a pipe of its name that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)
