"""Processes of another user whose names are no text, or look like lines of the kernel's files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent import accounts, cgroup, memory, proc
from damoos.agent.process_sets import process_set
from damoos.damon import files
from tests.adversary.conftest import ATTACKER, PYTHON, needs_two_users
from tests.conftest import until

# Calls itself so, and maps a file of the other name.
NAMED = """
import ctypes, mmap, os, sys
name, file = map(bytes.fromhex, sys.argv[1:])
ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
fd = os.open(file, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
memory = mmap.mmap(fd, 4096)
memory[0] = 1
print("up", flush=True)
sys.stdin.read()
"""
FORGED_UID = b"\rUid:\t1\t1\t1\t1"
NAMES = [b"\xff\xfe", FORGED_UID, b"\rVmSwap:\t9999 ", b") R 1 1 1\x85", b"\x1c\x0b \xc3"]


@pytest.fixture(params=NAMES, ids=ascii)
def named(request: pytest.FixtureRequest, home: Path) -> Iterator[tuple[int, bytes]]:
    """A process of the attacker's, and its name."""
    file = os.fsencode(home) + b"/\xff\r\x1c\x85 00400000-00401000"
    argv = [PYTHON, "-S", "-c", NAMED, request.param.hex(), file.hex()]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    user = ATTACKER if os.geteuid() == 0 else None
    with subprocess.Popen(argv, user=user, cwd="/", **pipes) as child:
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        yield child.pid, request.param
        child.communicate()


@needs_two_users
def test_a_process_tells_the_truth_whatever_it_is_called(named: tuple[int, bytes]) -> None:
    pid, _ = named
    assert proc.uids(pid) == [ATTACKER] * 4
    assert proc.swapped_bytes(pid) == 0
    assert proc.start_ticks(pid) is not None
    assert proc.ancestors(pid)[0] == os.getpid()
    assert pid in proc.descendants(os.getpid())
    assert proc.rss_bytes(pid) > 0
    assert proc.cpu_times_s(pid)[0] < 60
    assert proc.name(pid).isprintable()


@needs_two_users
def test_the_memory_of_such_a_process_can_be_read(named: tuple[int, bytes]) -> None:
    pid, _ = named
    assert memory.resident_blocks(pid)
    assert memory.page_entries(pid)
    assert memory.swapped_ranges(pid) == []


@needs_two_users
def test_such_a_process_stops_no_policy_and_no_run(
    named: tuple[int, bytes], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy on processes of a name looks at all names; a run's user is one whom no process has."""
    child = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        monkeypatch.setattr("os.getpid", lambda: 1 << 22)  # what is below this process is the agent's own
        matching = process_set({"kind": "match", "what": "name", "value": "sleep"})
        until(lambda: child.pid in matching.pids())  # its name is told a moment after its start
        assert named[0] in process_set({"kind": "match", "what": "user", "value": str(ATTACKER)}).pids()
    finally:
        child.kill()
        child.wait()
    monkeypatch.setattr(accounts, "state_folder", lambda: home)
    monkeypatch.setattr(accounts, "_given", {})
    monkeypatch.setattr(accounts, "_FREE_IDS", range(ATTACKER, ATTACKER + 2))
    free = accounts.account("damoos-nobody-has-this")
    assert free is not None
    assert free.uid == ATTACKER + 1


def test_a_group_whose_name_is_no_text_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernel forbids only a line feed in the name of a group."""
    name = b"a\xff\r\x1c0::\x85b"
    group = tmp_path / os.fsdecode(name)
    group.mkdir()
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    table = tmp_path / "table"
    table.write_bytes(b"1:name=x:/\n0::/" + name + b"\n")
    monkeypatch.setattr(cgroup, "kernel_lines", lambda path: files.kernel_lines(table))
    monkeypatch.setattr(cgroup, "CGROUPS", tmp_path)
    assert cgroup.own_group(os.getpid()) == group
    assert process_set({"kind": "cgroup", "path": cgroup.path_of(os.getpid())}).pids() == [os.getpid()]
