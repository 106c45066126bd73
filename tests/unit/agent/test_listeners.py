"""Who listens: real sockets of this process and of others on this host."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent import listeners, proc
from damoos.agent.listeners import Listener, ServerSocket, held_by, holder
from damoos.errors import WorkloadError

OTHER = """
import socket, sys, time
server = socket.socket(socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET)
server.bind(("::" if sys.argv[1] == "6" else "127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
time.sleep(1000)
"""
ME = os.getpid()


def started(family: str = "4") -> tuple[subprocess.Popen[bytes], int]:
    """A process that listens, and its port."""
    child = subprocess.Popen([sys.executable, "-S", "-c", OTHER, family], stdout=subprocess.PIPE)
    assert child.stdout
    return child, int(child.stdout.readline())


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """Number and port of a server that listens."""
    process, port = started()
    yield process.pid, port
    process.kill()
    process.communicate()


def test_a_server_s_tcp_socket_is_its_own(child: tuple[int, int], tmp_path: Path) -> None:
    pid, port = child
    where = ServerSocket(f"127.0.0.1:{port}", tmp_path)
    assert where.is_known
    assert where.is_held(pid, [pid])
    assert not ServerSocket(f"127.0.0.1:{port + 1 if port < 65535 else 1}", tmp_path).is_held(pid, [pid])
    (inode,) = {one.inode for one in listeners.listeners(pid) if one.port == port} & held_by([pid])
    assert holder(inode) == pid


def test_another_process_at_the_port_is_named(child: tuple[int, int], tmp_path: Path) -> None:
    pid, port = child
    name = proc.name(pid)
    with subprocess.Popen(["sleep", "1000"]) as own:
        with pytest.raises(WorkloadError) as told:
            ServerSocket(f"127.0.0.1:{port}", tmp_path).is_held(own.pid, [own.pid])
        own.kill()
    assert str(told.value) == (
        f"127.0.0.1:{port} is served by process {pid} ({name}), which is not of this run; end it, or give the run a"
        ' network of its own: network = "own" in [real]'
    )


def test_a_holder_that_cannot_be_seen_is_told_by_its_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(listeners, "holder", lambda inode: None)
    socket_of = {uid: Listener(1, "127.0.0.1", 80, uid=uid) for uid in (os.geteuid(), 4242424)}
    where = ServerSocket("127.0.0.1:80", tmp_path)
    monkeypatch.setattr(listeners, "listeners", lambda pid: [socket_of[4242424]])
    with pytest.raises(WorkloadError, match="by a process of user 4242424, which is not of this run"):
        where.is_held(ME, [ME])
    monkeypatch.setattr(listeners, "listeners", lambda pid: [socket_of[os.geteuid()]])  # it has just been closed
    assert not where.is_held(ME, [ME])


def test_a_socket_of_a_child_that_is_not_listed_yet_is_no_stranger_s(tmp_path: Path) -> None:
    process, port = started()
    try:
        assert not ServerSocket(f"127.0.0.1:{port}", tmp_path).is_held(ME, [ME])
    finally:
        process.kill()
        process.communicate()


def test_a_socket_for_all_addresses_serves_this_one(tmp_path: Path) -> None:
    process, port = started("6")
    try:
        assert ServerSocket(f"127.0.0.1:{port}", tmp_path).is_held(process.pid, [process.pid])
    finally:
        process.kill()
        process.communicate()


def test_another_server_of_ipv6_beside_ours_of_ipv4_is_none_of_our_business(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = Listener(1, "127.0.0.1", 80, uid=0), Listener(2, "::", 80, uid=4242424)
    monkeypatch.setattr(listeners, "listeners", lambda pid: [ours, theirs])
    monkeypatch.setattr(listeners, "held_by", lambda pids: {1})
    assert ServerSocket("127.0.0.1:80", tmp_path).is_held(ME, [ME])


@pytest.mark.parametrize("written", ["own.sock", "{}/own.sock"], ids=["relative", "whole"])
def test_a_unix_socket_in_the_run_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.chdir(tmp_path)
    where, elsewhere = ServerSocket("own.sock", tmp_path), ServerSocket("other/own.sock", tmp_path)
    assert not where.is_held(ME, [ME])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(written.format(tmp_path))
        assert not where.is_held(ME, [ME])  # it is there, but nobody listens
        server.listen()
        assert where.is_held(ME, [ME])
        assert not where.is_held(ME, [])
        assert not elsewhere.is_held(ME, [ME])
        assert ServerSocket(None, tmp_path).is_held(ME, [ME])


def line(inode: int, name: bytes = b"", flags: bytes = b"00010000") -> bytes:
    """A line of /proc/net/unix, as the kernel writes it and as any user can write it into a name."""
    row = b"0000000000000000: 00000002 00000000 %b 0001 01 %5d" % (flags, inode)
    return row + (b" " + name if name else b"")


@pytest.mark.parametrize(
    "name",
    [b"x\nbad", b"x\n", b"\n\n\n", b"\r0 0", b"\x1c1\x85", b"\xff\xfe", b"x\n0: 0 0 zz 0 0 1 /y", b"\n: : : : : : : :"],
)
def test_a_name_with_a_line_break_or_other_bytes_hides_no_socket(tmp_path: Path, name: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as hostile, socket.socket(socket.AF_UNIX) as server:
        hostile.bind(b"\0" + name)
        hostile.listen()
        server.bind(str(tmp_path / "a b"))
        server.listen()
        inode = os.fstat(server.fileno()).st_ino
        assert Listener(inode, path=str(tmp_path / "a b")) in listeners.listeners(ME)
        assert ServerSocket("a b", tmp_path).is_held(ME, [ME])


def test_a_name_that_cannot_be_read_as_text_is_a_path(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\r\x1c\n.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fsencode(tmp_path / name))
        server.listen()
        assert not ServerSocket("own.sock", tmp_path).is_held(ME, [ME])
        assert ServerSocket(os.fsdecode(b"\xff\r\x1c"), tmp_path).is_held(ME, [ME])


def test_a_forged_line_makes_a_run_s_socket_no_server_where_the_address_is_not_known(tmp_path: Path) -> None:
    """Neither one about a Unix socket of the run's that does not listen, nor one about a TCP socket."""
    with socket.socket(socket.AF_UNIX) as quiet, socket.socket() as tcp:
        quiet.bind(str(tmp_path / "quiet.sock"))
        inodes = [os.fstat(one.fileno()).st_ino for one in (quiet, tcp)]
        for inode in inodes:
            with socket.socket(socket.AF_UNIX) as forger:
                forger.bind(b"\0\n" + line(inode, b"/y"))
                assert inode in {one.inode for one in listeners.listeners(ME)}
                assert not ServerSocket(None, tmp_path).is_held(ME, [ME])


def test_what_is_missing_is_told_with_what_to_do(tmp_path: Path) -> None:
    unknown, known = ServerSocket(None, tmp_path), ServerSocket("a.sock", tmp_path)
    assert 'address = "none" if it has no socket; its last words: bye' in str(unknown.missing("bye"))
    assert str(known.missing("bye")) == "no process of the server listens at a.sock ([real.load] address): bye"
    assert (unknown.is_known, unknown.is_there) == (False, True)
    without = ServerSocket("none", tmp_path)
    assert (without.is_known, without.is_there) == (False, False)


def test_a_process_that_is_gone_has_no_socket() -> None:
    assert listeners.listeners(1 << 30) == []
    assert held_by([1 << 30]) == set()
    assert holder(-1) is None
