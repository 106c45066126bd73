"""What the kernel tells of a file that is opened and closed, also when nobody has read it in time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.agent.file_watch import FileWatch
from damoos.errors import UnsupportedError


@pytest.fixture
def watch(tmp_path: Path) -> FileWatch:
    try:
        return FileWatch(tmp_path)
    except UnsupportedError as error:
        pytest.skip(str(error))


def told(watch: FileWatch, file: Path) -> list[bool]:
    """Openings (True) and closings of one file by this process."""
    found = []
    for event in watch.events():
        if event.pid == os.getpid() and os.fstat(event.fd).st_ino == file.stat().st_ino:
            found.append(event.is_open)
        os.close(event.fd)
    return found


def test_one_that_is_closed_before_anybody_reads_is_told_both_ways(watch: FileWatch, tmp_path: Path) -> None:
    """The kernel makes one event of both."""
    file = tmp_path / "file"
    before = len(os.listdir("/proc/self/fd"))
    file.write_text("x")
    assert told(watch, file) == [True, False]
    held = os.open(file, os.O_RDONLY)
    assert told(watch, file) == [True]
    os.close(held)
    assert told(watch, file) == [False]
    assert len(os.listdir("/proc/self/fd")) == before
    watch.close()
