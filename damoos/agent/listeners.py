"""Who listens: sockets on which servers wait for clients, and the processes that hold them.

A port that answers is no proof of a server of ours: another program may have been there first. A socket has a number,
and the descriptors of a process say which sockets are its own.

The kernel writes the name of a Unix socket into its table as it is, and a name may have line breaks. So any user of the
machine can write lines into that table. A line that is no socket's is left out. A line that looks like one says at most
that a socket which the run holds is another Unix socket than it is: see `ServerSocket.is_held`.

References
----------
proc(5), /proc/PID/net/tcp and /proc/PID/net/unix
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from damoos.agent import proc
from damoos.damon.files import kernel_lines
from damoos.errors import WorkloadError

NO_SOCKET = "none"
_TCP_LISTEN, _UNIX_LISTEN = "0A", 1 << 16
_EVERY_ADDRESS = ("0.0.0.0", "::")
# Num RefCount Protocol Flags Type St Inode Path (net/unix/af_unix.c, unix_seq_show).
_UNIX_LINE = re.compile(
    r"[0-9A-Fa-f]+: [0-9A-F]{8} [0-9A-F]{8} ([0-9A-F]{8}) [0-9A-F]{4} [0-9A-F]{2} +(\d{1,20})(?: (.*))?"
)


@dataclass(frozen=True)
class Listener:
    """A socket on which a server waits for clients.

    Parameters
    ----------
    inode : int
        Its number.
    host : str
        Address of a TCP socket; empty for a Unix socket.
    port : int
        0 for a Unix socket.
    path : str
        Of a Unix socket, as its process wrote it: relative, or ``@NAME`` for one without a file; empty for TCP.
    uid : int or None
        The user who made a TCP socket.
    is_sure : bool
        Whether the table has no other line with this number, which another user can have forged.
    """

    inode: int
    host: str = ""
    port: int = 0
    path: str = ""
    uid: int | None = None
    is_sure: bool = True


def listeners(pid: int) -> list[Listener]:
    """All of the network that a process is in; none where it is gone."""
    return [*tcp_listeners(pid), *_unix(pid)]


def tcp_listeners(pid: int) -> list[Listener]:
    """TCP sockets of the network that a process is in; none where it is gone."""
    return [*_tcp(pid, "tcp"), *_tcp(pid, "tcp6")]


def peer_owners(link: socket.socket) -> set[int | None] | None:
    """Users who serve a connection of this process; any user can take the port of a server that has ended.

    Parameters
    ----------
    link : socket
        Connected, by TCP or to a Unix socket.

    Returns
    -------
    set of int, or None
        Empty where nobody is seen to listen there any more; None where it leads to another computer.

    Raises
    ------
    OSError : it is not connected
    """
    if link.family == socket.AF_UNIX:
        return {struct.unpack("iII", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]}
    here, (there, port) = link.getsockname()[0], link.getpeername()[:2]
    if here != there and not _is_here(there):
        return None
    return {one.uid for one in tcp_listeners(os.getpid()) if one.port == port and one.host in _serving(there)}


def _is_here(host: str) -> bool:
    """Whether an address is one of this computer, as all are that begin with 127: calls to them come from 127.0.0.1."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
        return True
    except OSError:
        return False


def _serving(host: str) -> tuple[str, ...]:
    """Addresses of sockets that may answer at an address of this computer."""
    host = host.removeprefix("::ffff:")
    return (host, f"::ffff:{host}", *_EVERY_ADDRESS)


def _tcp(pid: int, table: str) -> Iterator[Listener]:
    for line in _lines(pid, table):
        words = line.split()
        if words[3] == _TCP_LISTEN:
            host, port = words[1].split(":")
            yield Listener(int(words[9]), _host(host), int(port, 16), uid=int(words[7]))


def _host(digits: str) -> str:
    """An address that the kernel shows as numbers of 32 bits in the CPU's order."""
    parts = [struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8)]
    return socket.inet_ntop(socket.AF_INET if len(parts) == 1 else socket.AF_INET6, b"".join(parts))


def _unix(pid: int) -> list[Listener]:
    rows = [match.groups() for line in _lines(pid, "unix") if (match := _UNIX_LINE.fullmatch(line))]
    lines_of = Counter(int(inode) for _, inode, _ in rows)
    return [
        Listener(int(inode), path=path, is_sure=lines_of[int(inode)] == 1)
        for flags, inode, path in rows
        if path and int(flags, 16) & _UNIX_LISTEN
    ]


def _lines(pid: int, table: str) -> list[str]:
    """Lines of a table behind its heading."""
    try:
        return kernel_lines(Path(f"/proc/{pid}/net/{table}"))[1:]
    except OSError:  # the process is gone, or the kernel has no such sockets
        return []


def held_by(pids: Collection[int]) -> set[int]:
    """Numbers of the sockets that processes hold, as far as this user may see."""
    return {inode for pid in pids for inode in _sockets(pid)}


def holder(inode: int) -> int | None:
    """A process that holds a socket; None where this user may not see it."""
    return next((pid for pid in proc.all_pids() if inode in _sockets(pid)), None)


def _is_unix(pids: Collection[int], inode: int) -> bool:
    """Whether a socket that one of these processes holds is a Unix socket, in the kernel's own word."""
    for pid in pids:
        for number, file in _descriptors(pid):
            if number == inode:
                try:
                    return os.getxattr(file, "system.sockprotoname").startswith(b"UNIX")
                except OSError:  # closed by now
                    continue
    return False


def _sockets(pid: int) -> Iterator[int]:
    return (inode for inode, _ in _descriptors(pid))


def _descriptors(pid: int) -> Iterator[tuple[int, str]]:
    """Number of each socket that a process holds, and the path of its descriptor."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for fd in descriptors:
        file = f"/proc/{pid}/fd/{fd}"
        try:
            target = os.readlink(file)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield int(target[8:-1]), file


class ServerSocket:
    """Where the load of a run reaches its server.

    Parameters
    ----------
    address : str or None
        ``HOST:PORT``, the path of a Unix socket in the folder of the run, or `NO_SOCKET`; None where it is not known.
    folder : Path
        The run's.
    """

    def __init__(self, address: str | None, folder: Path) -> None:
        self._address = address
        self._folder = folder

    @property
    def is_known(self) -> bool:
        """Whether it is known which socket it is."""
        return self._address not in (None, NO_SOCKET)

    @property
    def is_there(self) -> bool:
        """Whether the server has a socket at all, known or not."""
        return self._address != NO_SOCKET

    def is_held(self, pid: int, pids: Sequence[int]) -> bool:
        """Whether a process of the run listens there.

        A forged line of the Unix table can say so too early of a path in the run's folder, where nobody else has a
        server. Where the address is not known, a socket with two lines is not believed.

        Parameters
        ----------
        pid : int
            A process in the run's network.
        pids : sequence of int
            All processes of the run's server.

        Raises
        ------
        WorkloadError : a process that is not of the run listens there
        """
        own = held_by(pids)
        there = [one for one in listeners(pid) if (one.port or one.inode in own) and self._is_at(one)]
        if self.is_known:  # a socket of IPv6 serves an address of IPv4 only where no socket of IPv4 does
            there = [one for one in there if ":" not in one.host] or there
        strange = [one for one in there if one.port and one.inode not in own]
        if strange and self.is_known:
            self._refuse(strange[0], pids)
        return any(one.inode in own and (one.port or self._is_true(one, pids)) for one in there)

    def _is_true(self, listener: Listener, pids: Sequence[int]) -> bool:
        """Whether a line of the Unix table about a socket of the run's can be believed."""
        return self.is_known or (listener.is_sure and _is_unix(pids, listener.inode))

    def _is_at(self, listener: Listener) -> bool:
        if self._address is None:
            return True
        host, colon, port = self._address.rpartition(":")
        if colon:
            return str(listener.port) == port and listener.host in (host, f"::ffff:{host}", *_EVERY_ADDRESS)
        here = os.path.realpath(self._folder / self._address)
        return bool(listener.path) and os.path.realpath(self._folder / listener.path) == here

    def _refuse(self, listener: Listener, pids: Sequence[int]) -> None:
        """Fail, unless the socket has just been closed or is of a process that the run has just started."""
        pid = holder(listener.inode)
        if pid is None and listener.uid == os.geteuid():
            return
        if pid is not None and (pid in pids or set(pids) & set(proc.ancestors(pid))):
            return
        who = f"process {pid} ({proc.name(pid)})" if pid is not None else f"a process of user {_user(listener.uid)}"
        raise WorkloadError(
            f"{self._address} is served by {who}, which is not of this run; end it, or give the run a network of its"
            ' own: network = "own" in [real]'
        )

    def missing(self, said: str) -> WorkloadError:
        """That no process of the run listens there.

        Parameters
        ----------
        said : str
            The server's last words.
        """
        if self._address is None:
            return WorkloadError(
                "the server listens on no socket, so another server may have answered 'ready': write where it listens"
                ' into [real.load], address = "127.0.0.1:PORT" or "NAME.sock", or address = "none" if it has no socket;'
                f" its last words: {said}"
            )
        return WorkloadError(f"no process of the server listens at {self._address} ([real.load] address): {said}")


def _user(uid: int | None) -> str:
    try:
        return pwd.getpwuid(-1 if uid is None else uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
