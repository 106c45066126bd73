"""An agent in waiting: it has imported all that an agent needs, and whoever attaches to it is served by a copy of it.

An emulated CPU takes longer to import the agent than to boot, so guests keep one, and their snapshots have it in them
(`damoos.machines.guest`). The copy is an agent like any other: a process of its own with the standard streams and the
arguments of what attached, which ends when the copy does.

What attaches must start fast: this module imports little, and `damoos.agent.__main__` only where it waits.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

TYPE_CHECKING = False  # typing would take longer to import than all else here
if TYPE_CHECKING:
    import socket

STANDBY, ATTACH = "standby", "attach"
WAITS = "damoos: an agent waits"
# Where only root writes, on a file system that does not outlive the kernel.
_PLACE = "/run/damoos-standby"
_SOCKET = f"{_PLACE}/socket"
_STREAMS = (0, 1, 2)
_INT_BYTES = 4
_MOST_BYTES = 1 << 16
_POLL_S = 0.02


def wait() -> int:
    """Have an agent wait in the background.

    Once nothing is left of the login that started it, the console shows `WAITS`.
    """
    import socket

    from damoos.agent import proc
    from damoos.agent.__main__ import main

    login = proc.ancestors(os.getpid())[:-2]  # but for the server that it came from, and init
    os.mkdir(_PLACE, 0o700)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(_SOCKET)
    door.listen()
    if _fork_away():
        return 0
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in _STREAMS:
        os.dup2(nowhere, stream)
    while any(map(proc.start_ticks, login)):
        time.sleep(_POLL_S)
    with open("/dev/console", "w") as console:
        print(WAITS, file=console)
    while True:
        line, _ = door.accept()
        if not _fork_away():
            break
        line.close()
    door.close()
    sys.argv = [sys.argv[0], *_taken_over(line)]
    return main()  # the line ends with this process


def attach() -> int:
    """Have a copy of the agent in waiting serve this process's standard streams; returns when it has ended.

    Its command line is what follows the first word here; see `damoos.agent.__main__.main`.
    """
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    line.connect(_SOCKET)
    fds = b"".join(stream.to_bytes(_INT_BYTES, sys.byteorder) for stream in _STREAMS)
    line.sendmsg(["\0".join(sys.argv[2:]).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    for stream in _STREAMS:
        os.close(stream)  # they end with the agent
    line.recv(1)
    return 0


def _taken_over(line: socket.socket) -> list[str]:
    """Take the standard streams of whoever attached; returns their words."""
    words, sent, _, _ = line.recvmsg(_MOST_BYTES, _socket.CMSG_SPACE(len(_STREAMS) * _INT_BYTES))
    for _, _, fds in sent:
        for stream in _STREAMS:
            fd = int.from_bytes(fds[stream * _INT_BYTES : (stream + 1) * _INT_BYTES], sys.byteorder)
            os.dup2(fd, stream)
            os.close(fd)
    return words.decode().split("\0")


def _fork_away() -> bool:
    """Fork a process that nobody waits for, with a session of its own; True in the one that was there."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return True
    os.setsid()
    if os.fork():
        os._exit(0)
    return False
