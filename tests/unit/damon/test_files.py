"""DAMON's files while somebody else uses them: a busy kernel is asked again, a refusal is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from damoos.damon import files
from damoos.errors import MachineError


class Busy:
    """The kernel answers EBUSY some times, as while another task reads a file of DAMON's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        read_text, write_text = Path.read_text, Path.write_text
        monkeypatch.setattr(Path, "read_text", lambda path: self._tried() or read_text(path))
        monkeypatch.setattr(Path, "write_text", lambda path, text: self._tried() or write_text(path, text))

    def _tried(self) -> None:
        if self.left:
            self.left -= 1
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def test_a_busy_kernel_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    busy = Busy(monkeypatch, 2)
    files.write(file, "on")
    busy.left = 2
    assert files.read(file) == "on"
    assert busy.left == 0


def test_one_that_stays_busy_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BUSY_S", 0.05)
    Busy(monkeypatch, 10**9)
    with pytest.raises(MachineError, match=r"state: the kernel refused 'on': Device or resource busy"):
        files.write(tmp_path / "state", "on")
    with pytest.raises(MachineError, match=r"state: cannot be read: Device or resource busy"):
        files.read(tmp_path / "state")


def test_another_refusal_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BUSY_S", 1e9)
    with pytest.raises(MachineError, match="Is a directory"):
        files.write(tmp_path, "on")
