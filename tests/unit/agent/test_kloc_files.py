"""When the cache of a file moves: after its last user has closed it, and when somebody opens it again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent.controllers import kloc_files
from damoos.agent.controllers.kloc_files import KlocFiles
from damoos.agent.file_cache import _spans
from damoos.agent.file_watch import FileEvent

FAST, SLOW = [0], [1]


class Watch:
    """What was opened and closed, as the test tells it."""

    def __init__(self) -> None:
        self.told: list[FileEvent] = []

    def add(self, file: Path, is_open: bool, pid: int = 7) -> None:
        self.told.append(FileEvent(os.open(file, os.O_RDONLY), pid, is_open))

    def events(self) -> Iterator[FileEvent]:
        while self.told:
            yield self.told.pop(0)

    def close(self) -> None:
        pass


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """Inodes that were moved, and where to."""
    found: list[tuple[int, list[int]]] = []

    def move(fd: int, nodes: list[int]) -> int:
        found.append((os.fstat(fd).st_ino, nodes))
        return 4096

    monkeypatch.setattr(kloc_files.file_cache, "move", move)
    return found


def steered(tmp_path: Path, delay_s: float = 0.0, promote: bool = True) -> tuple[KlocFiles, Watch, Path]:
    (tmp_path / "cgroup.procs").write_text("7\n8\n")
    file = tmp_path / "file"
    file.write_text("x")
    rule, watch = KlocFiles(tmp_path, delay_s, promote), Watch()
    rule._watch, rule._fast, rule._slow = watch, FAST, SLOW  # type: ignore[assignment]
    return rule, watch, file


def test_a_file_moves_when_its_last_user_has_closed_it(tmp_path: Path, moved: list[tuple[int, list[int]]]) -> None:
    rule, watch, file = steered(tmp_path)
    for is_open, pid in ((True, 7), (True, 8), (False, 7)):
        watch.add(file, is_open, pid)
    rule.decide(0.1)
    assert moved == []
    watch.add(file, False, 8)
    row = dict(zip(rule.columns, rule.decide(0.1), strict=True))
    inode = file.stat().st_ino
    assert moved == [(inode, SLOW)]
    assert (row["nr_open"], row["nr_demoted"]) == (0, 1)
    watch.add(file, True)
    rule.decide(0.1)
    assert moved[1:] == [(inode, FAST)]


def test_a_file_that_is_opened_in_time_stays(tmp_path: Path, moved: list[tuple[int, list[int]]]) -> None:
    rule, watch, file = steered(tmp_path, delay_s=60.0)
    watch.add(file, False)  # it was open before anybody watched
    row = dict(zip(rule.columns, rule.decide(0.1), strict=True))
    assert row["nr_waiting"] == 1
    watch.add(file, True)
    row = dict(zip(rule.columns, rule.decide(0.1), strict=True))
    assert (row["nr_waiting"], row["nr_open"], moved) == (0, 1, [])


def test_others_do_not_count_and_nothing_stays_open(tmp_path: Path, moved: list[tuple[int, list[int]]]) -> None:
    rule, watch, file = steered(tmp_path, promote=False)
    before = len(os.listdir("/proc/self/fd"))
    watch.add(file, False, pid=os.getpid())
    rule.decide(0.1)
    assert moved == []
    for _ in range(3):
        watch.add(file, True)
        watch.add(file, False)
        rule.decide(0.1)
    assert [nodes for _, nodes in moved] == [SLOW] * 3
    rule.end()
    assert len(os.listdir("/proc/self/fd")) == before


def test_parts_of_a_file_that_are_cached() -> None:
    assert list(_spans(bytes([1, 1, 0, 129, 0, 1]))) == [(0, 2), (3, 4), (5, 6)]
    assert list(_spans(b"")) == []
