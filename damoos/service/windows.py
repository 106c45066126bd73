"""The windows of a journal: what guards have measured, a line of JSON for each."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, BinaryIO

from damoos import regular_file
from damoos.service.forms import WINDOW

# Some days of windows of 10 s: a file that is larger is renamed, and a new one begun.
MOST_BYTES_OF_WINDOWS = 4 << 20
# Twice as many as that can be.
_MOST_LINES = 100_000
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
        with contextlib.suppress(OSError), regular_file.opened(self._file) as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:  # the first look, or another file has taken its place
                self._read_before()
                self._inode, self._offset = inode, 0
            self._add(file)
        return self._found

    def _read_before(self) -> None:
        """What the former file has beyond the last look."""
        with contextlib.suppress(OSError), regular_file.opened(self._before) as file:
            if self._inode not in (0, os.fstat(file.fileno()).st_ino):
                return  # two files have gone since, which takes days
            self._add(file)

    def _add(self, file: BinaryIO) -> None:
        """What a file has beyond the last look; of more than it can have, the end."""
        # A keeper adds a window to a file of nearly this size, and may then have its old one still open.
        self._offset, text = regular_file.tail(file, self._offset, 2 * MOST_BYTES_OF_WINDOWS)
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        for line in whole.splitlines()[-_MOST_LINES:]:
            with contextlib.suppress(ValueError):  # its writer was killed in the middle of one
                self._found.append({**_UNKNOWN, **WINDOW.parse(line)})
