"""A keeper whose disk is full, or refuses what it writes: the policy stays, and what was not written is told later."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.dispatch import own_process
from damoos.service import keeper, patient
from damoos.service.journal import Journal
from damoos.service.patient import PatientJournal
from damoos.testing.rollout_fleet import spec
from tests.conftest import until
from tests.unit.service.conftest import Host, run

CANNOT = "could not write from "


@pytest.fixture
def full(kept_by: tuple[Journal, Host, dict[str, Any]]) -> Iterator[Path]:
    """The journal's folder is a file system of its own, of 128 KiB; returns a file that takes all that is free."""
    journal, _, _ = kept_by
    mounted = ["mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "damoos-test", str(journal.folder)]
    done = subprocess.run(mounted, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield journal.folder / "filler"
    subprocess.run(["umount", "-l", str(journal.folder)], check=True)


def fill(file: Path) -> None:
    with open(file, "ab", buffering=0) as out:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while out.write(b"x" * size):
                    pass


def test_a_full_disk_neither_ends_the_keeper_nor_takes_the_policy_off(
    kept_by: tuple[Journal, Host, dict[str, Any]], full: Path
) -> None:
    journal, host, wanted = kept_by
    journal.want("redis", wanted)
    thread = run(journal)
    until(lambda: journal.wanted()["redis"].get("confirmed"))
    fill(full)
    host.restarts = 1  # a line for the audit log
    # A draft that the keeper was writing gives its room back: that is taken, too.
    until(lambda: fill(full) or journal._keeper.liveness().unwritten_s)
    looks = len(host.calls)
    until(lambda: len(host.calls) > looks + 10)
    assert thread.is_alive()
    assert host.applied.keys() == {"redis"}
    full.unlink()
    lines = until(lambda: CANNOT in (text := (journal.folder / "audit.log").read_text()) and text.splitlines())
    assert "put on the processes that have come" in "".join(lines)
    assert lines[-1].endswith(": No space left on device")
    until(lambda: not journal._keeper.liveness().unwritten_s)
    until(lambda: journal.states()["redis"]["in_force"])
    journal.forget("redis")
    thread.join(60)
    assert host.applied == {}


@pytest.mark.parametrize("stay", [[], ["--stay"]])
def test_a_keeper_that_begins_on_a_full_disk_says_so_in_a_line(
    kept_by: tuple[Journal, Host, dict[str, Any]], full: Path, stay: list[str]
) -> None:
    """One that is to stay, as after a boot, begins once there is room."""
    journal, _, _ = kept_by
    fill(full)
    argv = [sys.executable, "-m", "damoos.service.keeper", str(journal.folder), *stay]
    begun = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert begun.stderr is not None
    try:
        line = begun.stderr.readline()
        assert line == f"damoos: {journal.folder / '.keeper'}: No space left on device\n"
        assert not journal.keeper_pid
        if stay:
            full.unlink()
            until(lambda: journal.keeper_pid == begun.pid)
        else:
            assert begun.wait(60) == 3
            assert begun.stderr.read() == ""
    finally:
        begun.kill()
        begun.wait()
        begun.stderr.close()


def test_a_lock_that_the_full_disk_does_not_give_ends_no_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    journal = PatientJournal(tmp_path)
    monkeypatch.setattr("damoos.common.own_file.descriptor", refuse)
    with journal.changing():
        assert journal.is_failing


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Errors of the disk: as long as there is one, nothing can be written."""
    errors: list[int] = []

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        if errors:
            raise OSError(errors[0], os.strerror(errors[0]), str(path))

    for name in ("append", "fill"):
        true = getattr(__import__("damoos.service.journal", fromlist=[name]), name)
        monkeypatch.setattr(
            f"damoos.service.journal.{name}",
            lambda path, *words, true=true, **named: (refuse(path), true(path, *words, **named)),
        )
    return errors


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_what_was_not_written_is_written_later(tmp_path: Path, broken: list[int], error: int) -> None:
    journal = PatientJournal(tmp_path)
    journal.want("redis", spec(on={"kind": "pid", "pid": 7}))
    broken.append(error)
    journal.tell("redis", {"in_force": True})
    journal.audit("redis", "put into force")
    journal.add_window("redis", {"at_s": 1.0})
    journal.confirm("redis", {"kind": "pid", "pid": 7, "started": 4711})
    assert journal.states()["redis"]["in_force"]
    assert journal.wanted()["redis"]["confirmed"], "its keeper must not refuse it because of the disk"
    assert Journal(tmp_path).states() == {}
    broken.clear()
    journal.looked()
    other = Journal(tmp_path)
    assert other.states()["redis"]["in_force"]
    assert other.wanted()["redis"]["on"]["started"] == 4711
    assert [window["at_s"] for window in other.windows("redis")] == [1.0]
    first, second = (tmp_path / "audit.log").read_text().splitlines()
    assert first.endswith("redis: put into force")
    assert f"keeper: {CANNOT}" in second
    assert second.endswith(os.strerror(error))


def test_what_a_person_stops_meanwhile_stays_stopped(tmp_path: Path, broken: list[int]) -> None:
    journal = PatientJournal(tmp_path)
    journal.want("redis", spec())
    broken.append(errno.ENOSPC)
    journal.confirm("redis", None)
    Journal(tmp_path).forget("redis")
    assert journal.wanted() == {}
    broken.clear()
    journal.looked()
    assert Journal(tmp_path).wanted() == {}


def test_lines_that_wait_are_bounded(tmp_path: Path, broken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "MOST_WAITING", 3)
    journal = PatientJournal(tmp_path)
    broken.append(errno.ENOSPC)
    for nth in range(5):
        journal.audit("redis", f"line {nth}")
    broken.clear()
    journal.looked()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert [line[-6:] for line in lines[:-1]] == ["line 2", "line 3", "line 4"]
    assert lines[-1].endswith("; 2 lines were dropped meanwhile")


def test_a_line_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.audit("redis", "first")
    write = os.write
    calls: list[int] = []

    def half(fd: int, data: memoryview) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        journal.audit("redis", "second")
    monkeypatch.undo()
    journal.audit("redis", "third")
    assert [line.rpartition(" ")[2] for line in (tmp_path / "audit.log").read_text().splitlines()] == ["first", "third"]


def test_a_clock_that_jumps_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    for name, at_s in (("b", 2e9), ("a", 2e9 - 86400), ("c", 2e9 + 86400)):
        monkeypatch.setattr("time.time", lambda at_s=at_s: at_s)
        journal.want(name, spec())
    assert list(journal.wanted()) == ["b", "a", "c"]


def test_the_mark_of_an_older_keeper_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process.OwnProcess, "is_running", property(lambda process: process.pid == 4711))
    mark = tmp_path / ".keeper"
    mark.write_text("4711")
    assert not Journal(tmp_path).has_keeper
    with open(mark) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        keeper = Journal(tmp_path).keeper
        assert (keeper.pid, keeper.lives, keeper.is_late) == (4711, True, False)
        mark.write_text(json.dumps([]))
        assert Journal(tmp_path).keeper_pid == 0


def test_a_power_failure_brings_back_nothing_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name, or that there is none any more, is on the disk once its folder is."""
    journal, synced = Journal(tmp_path), list[set[str]]()
    fsync = os.fsync

    def seen(fd: int) -> None:
        fsync(fd)
        if os.readlink(f"/proc/self/fd/{fd}") == str(tmp_path):
            synced.append({file.name for file in tmp_path.iterdir()})

    monkeypatch.setattr(os, "fsync", seen)
    journal.want("a", spec())
    journal.confirm("a", None)
    journal.tell("a", {"failed": "it hurts"})
    journal.stop("a")
    journal.tell("a", None)
    journal.stopped("a")
    journal.want("b", spec())
    journal.forget("b")
    lock, wish = ".changing", "a.json"
    assert [one - {lock} for one in synced] == [
        {wish}, {wish}, {wish, "a.state"}, {"a.stopping", "a.state"}, {"a.stopping"}, set(), {"b.json"}, set()
    ]  # fmt: skip


def test_drafts_that_a_power_failure_has_left_are_removed_by_the_next_keeper(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for name, at_s in ((".4711.redis.json", 1e9), (".4712.redis.state", time.time()), ("redis.windows", 1e9)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at_s, at_s))
    assert journal.take()
    journal.leave()
    assert {file.name for file in tmp_path.iterdir()} == {".keeper", ".4712.redis.state", "redis.windows"}


@pytest.mark.parametrize("name", ["bad.state", "bad.windows", "audit.log"])
def test_a_folder_in_the_place_of_a_file_keeps_no_other_from_being_written(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (name, f"{name}.bad"):
        (tmp_path / folder / "x").mkdir(parents=True)
    journal = PatientJournal(tmp_path)
    for _ in range(2):
        journal.tell("bad", {"failed": "its machine is another one"})
        journal.add_window("bad", {"at_s": 1.0})
        journal.audit("bad", "taken off")
    journal.tell("redis", {"in_force": True})
    journal.add_window("redis", {"at_s": 1.0})
    assert not journal.is_failing
    assert Journal(tmp_path).states()["redis"] == {"in_force": True}
    assert [window["at_s"] for window in Journal(tmp_path).windows("redis")] == [1.0]
    assert capsys.readouterr().err.count(f"{tmp_path / name}: a folder, so nothing is written there; remove it") == 1


def test_metrics_that_cannot_be_written_are_no_failure_of_the_journal(tmp_path: Path) -> None:
    (tmp_path / "metrics.prom").mkdir()
    journal = PatientJournal(tmp_path)
    keeper.Keeper(journal, threading.Event())._publish_metrics()
    journal.retry()
    assert not journal.is_failing
    assert not (tmp_path / "audit.log").exists()
