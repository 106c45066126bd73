"""The way to a guest's sshd: a port of this host that is open while one connection is made, and at no other time.

Every user of a computer can connect to a port of its loopback. A connection takes one of the places in which sshd lets
clients wait for a login, so a port that is open while the guest boots, or while it is measured, would be a way to
disturb it.

References
----------
QEMU, net/slirp.c: hostfwd_add, hostfwd_remove and info usernet of the human monitor; proc(5), /proc/net/tcp
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from damoos.damon.files import kernel_lines
from damoos.errors import MachineLost, MachineTransientError

NET = "net"
"""QEMU's name of the guest's network."""
_HOST, _SSH = "127.0.0.1", 22
_OPEN = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s")
# QEMU takes a connection at once; an emulator that computes may be late.
_TAKEN_S, _POLL_S = 30.0, 0.001

Monitor = Callable[..., Any]


def open_port(monitor: Monitor) -> int:
    """Have a free port of this host's loopback lead to the guest's sshd, from now on and for everybody here.

    Returns
    -------
    int
        The port, which the host's kernel has chosen.

    Raises
    ------
    MachineLost : QEMU is gone, or cannot open one
    """
    before = _ports(monitor)
    answer = _asked(monitor, f"hostfwd_add {NET} tcp:{_HOST}:0-:{_SSH}")
    new = _ports(monitor) - before
    if not new:
        raise MachineLost(f"QEMU opens no port to the guest: {answer.strip() or 'it does not say why'}")
    return new.pop()


def connected(monitor: Monitor) -> tuple[socket.socket, int]:
    """A connection to the guest's sshd, and the port by which it was made; nobody can connect to that port any more.

    Raises
    ------
    MachineLost : QEMU is gone, or cannot open a port
    MachineTransientError : QEMU does not take the connection
    """
    port = open_port(monitor)
    try:
        line = socket.create_connection((_HOST, port), _TAKEN_S)
        try:
            _wait_until_taken(port, line.getsockname()[1])
        except BaseException:
            line.close()
            raise
    except OSError as error:
        raise MachineTransientError(f"QEMU takes no connection to the guest: {error.strerror or error}") from None
    finally:
        _asked(monitor, f"hostfwd_remove {NET} tcp:{_HOST}:{port}")
    line.settimeout(None)
    return line, port


def _wait_until_taken(port: int, own_port: int) -> None:
    """Wait until QEMU has accepted the connection: a port that is closed before takes those along that wait there.

    Raises
    ------
    TimeoutError : it does not
    """
    end = time.monotonic() + _TAKEN_S
    while not _is_taken(port, own_port):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_TAKEN_S:g} s")
        time.sleep(_POLL_S)


def _is_taken(port: int, own_port: int) -> bool:
    """Whether the far end of a connection is a socket of a process's: the kernel gives it a number then."""
    rows = (line.split() for line in kernel_lines(Path("/proc/self/net/tcp"))[1:])
    ends = f":{port:04X}", f":{own_port:04X}"
    return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[9] != "0" for row in rows)


def _ports(monitor: Monitor) -> set[int]:
    return {int(port) for port in _OPEN.findall(_asked(monitor, "info usernet"))}


def _asked(monitor: Monitor, command: str) -> str:
    return str(monitor("human-monitor-command", **{"command-line": command}))
