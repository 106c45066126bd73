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
        kernel_text, write_bytes = files.kernel_text, Path.write_bytes
        monkeypatch.setattr(files, "kernel_text", lambda path: self._tried() or kernel_text(path))
        monkeypatch.setattr(Path, "write_bytes", lambda path, data: self._tried() or write_bytes(path, data))

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


def test_what_others_have_named_is_read_as_it_is(tmp_path: Path) -> None:
    """A carriage return ends no line, and a byte that is no UTF-8 comes back when the text is written."""
    file = tmp_path / "status"
    file.write_bytes(b"Name:\t\xff\rUid:\t0\x0b\x1c\x85\xe2\x80\xa8\r\nUid:\t7\n\nlast")
    lines = files.kernel_lines(file)
    assert [os.fsencode(line) for line in lines] == file.read_bytes().split(b"\n")
    file.write_bytes(b"/\xff\n")
    files.write(tmp_path / "path", files.read(file))
    assert (tmp_path / "path").read_bytes() == b"/\xff\n"
    (tmp_path / "empty").touch()
    assert files.kernel_lines(tmp_path / "empty") == []
