"""The way to a guest's sshd, with a monitor that does to a port what QEMU's does."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pytest

from damoos.errors import MachineLost, MachineTransientError
from damoos.machines.guest import forward


class QemuLike:
    """Opens and closes ports, and takes connections when it is told to."""

    def __init__(self, refuses: str = "") -> None:
        self._refuses = refuses
        self._open: dict[int, socket.socket] = {}
        self.taken: list[socket.socket] = []

    def __call__(self, command: str, **arguments: Any) -> str:
        assert command == "human-monitor-command"
        words = arguments["command-line"].split()
        if words[0] == "hostfwd_add":
            if self._refuses:
                return self._refuses
            server = socket.create_server(("127.0.0.1", 0))
            self._open[server.getsockname()[1]] = server
        if words[0] == "hostfwd_remove":
            self._open.pop(int(words[2].rpartition(":")[2])).close()
        rows = [
            f"  TCP[HOST_FORWARD]   3       127.0.0.1 {port}       10.0.2.15    22     0     0" for port in self._open
        ]
        return "\r\n".join(["Hub -1 (net):", "  Protocol[State]    FD  Source Address  Port", *rows, ""])

    def take(self) -> bool:
        for server in self._open.values():
            self.taken.append(server.accept()[0])
        return True

    def is_open(self, port: int) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        return False

    def close(self) -> None:
        for each in (*self._open.values(), *self.taken):
            each.close()


def test_a_port_is_open_while_one_connection_is_made_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = QemuLike()
    is_taken, asked = forward._is_taken, []

    def taking(*ports: int) -> bool:
        asked.append(is_taken(*ports))
        return is_taken(*ports) if asked[1:] else not qemu.take()

    monkeypatch.setattr(forward, "_is_taken", taking)
    line, port = forward.connected(qemu)
    with line:
        assert asked == [False, True]
        assert not qemu.is_open(port)
        qemu.taken[0].sendall(b"SSH-2.0")
        assert line.recv(100) == b"SSH-2.0"
    qemu.close()


def test_a_connection_that_is_not_taken_is_told_and_its_port_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_TAKEN_S", 0.05)
    qemu = QemuLike()
    with pytest.raises(MachineTransientError, match="QEMU takes no connection to the guest: not within"):
        forward.connected(qemu)
    assert not qemu._open


def test_a_qemu_that_opens_no_port_is_lost_with_its_reason() -> None:
    with pytest.raises(MachineLost, match="QEMU opens no port to the guest: no way"):
        forward.open_port(QemuLike(refuses="no way\r\n"))


def test_a_port_that_stays_is_known() -> None:
    qemu = QemuLike()
    ports = [forward.open_port(qemu) for _ in range(2)]
    assert all(map(qemu.is_open, ports))
    assert len(set(ports)) == 2
    qemu.close()
