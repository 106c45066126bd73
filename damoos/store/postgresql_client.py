"""Connections of psycopg to a server that may be anybody's; imported only where psycopg is.

Before the login damoos looks at who serves a port or a socket of this computer: if the user's server is down, any user
can take its place and let everybody in. Afterwards each statement has an end, whatever the server sends or keeps back:
its own ``statement_timeout`` is a promise of the server's, and libpq keeps all of a result in memory. A byte on the
wire may be several in memory: four of a NULL are sixteen of libpq's, and twelve of a notification are sixty. So the
memory of this process is looked at as well, and what Python makes of a result is counted before and while it is made.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from damoos.agent.listeners import peer_owners
from damoos.ownership import user_name

STATEMENT_S = 75.0
"""Longer than the server's own limit, so that a good server's message comes first."""
MOST_RESULT_BYTES = 320 << 20
"""What a statement may bring: the largest study (`damoos.store.sizes`), and its rows' numbers and keys."""
MOST_MEMORY_BYTES = 448 << 20
"""What libpq may take of it while it arrives, and again what Python's objects of it may take."""
# What a row and each value in it take, without the characters of texts.
_ROW_BYTES, _CELL_BYTES = 120, 40
_MOST_LOGIN_BYTES = 1 << 20
_KNOCK_S = 5.0
# The account that distributions make for the server.
_ACCOUNT = "postgres"
# Offset of tcpi_bytes_received (include/uapi/linux/tcp.h, struct tcp_info).
_RECEIVED_AT, _TCP_INFO_BYTES = 128, 136

UNANSWERED = "the server has not ended a statement"
TOO_MUCH = "the server sends more than"
TOO_LARGE = f"{TOO_MUCH} {MOST_MEMORY_BYTES >> 20} MiB of memory can hold"
STRANGER = "the server there belongs to"
GONE = "no process of this computer is seen to listen there"

Answer = TypeVar("Answer")
# What psycopg's generators give and take: what is waited for, and what the socket is ready for.
Steps = Generator[Any, Any, Answer]


class BoundedConnection(psycopg.Connection[Any]):
    """A connection to a server that was looked at before the login, and each statement of which has an end."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.cursor_factory = BoundedCursor
        self._taken_bytes = 0

    def take(self, nr_bytes: int) -> None:
        """Count memory of Python's objects that are made of a result.

        Raises
        ------
        psycopg.DataError : those of the last statement take too much
        """
        self._taken_bytes += nr_bytes
        if self._taken_bytes > MOST_MEMORY_BYTES:
            raise psycopg.DataError(TOO_LARGE)

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Steps[Self]:
        _knock(conninfo)
        return looked_at(super()._connect_gen(conninfo), conninfo)

    def wait(self, gen: Steps[Answer], *args: Any, **named: Any) -> Answer:
        """Wait for a statement; the connection is closed if the server does not end it."""
        fd = self.pgconn.socket
        self._taken_bytes = 0
        try:
            return super().wait(bounded(gen, lambda: _received_bytes(fd)), *args, **named)
        except EndlessError:
            self.close()
            raise


class BoundedCursor(psycopg.Cursor[Any]):
    """A cursor that counts rows and values of a result before objects are made of them."""

    def execute(self, *args: Any, **named: Any) -> Self:
        """Carry a statement out.

        Raises
        ------
        psycopg.DataError : its rows would take too much memory
        """
        super().execute(*args, **named)
        if isinstance(self.connection, BoundedConnection) and (result := self.pgresult):
            self.connection.take(result.ntuples * (_ROW_BYTES + _CELL_BYTES * result.nfields))
        return self


class EndlessError(psycopg.OperationalError):
    """A statement that the server does not end."""


def looked_at(steps: Steps[Answer], conninfo: str) -> Steps[Answer]:
    """Make a connection step by step, and look at who serves it once it stands and before the next step.

    Parameters
    ----------
    steps : generator
        psycopg's: gives a descriptor and what is waited for.
    conninfo : str
        What libpq is told of the server.

    Raises
    ------
    psycopg.OperationalError : another user serves it, or the server sends too much
    """

    def check(awaited: Any) -> None:
        fd, _ = awaited
        with socket.socket(fileno=os.dup(fd)) as link:
            _check_server(link, conninfo)
        if _received_bytes(fd) > _MOST_LOGIN_BYTES:
            raise EndlessError(f"{TOO_MUCH} {_MOST_LOGIN_BYTES >> 20} MiB before the login")

    return _checked(steps, check)


def bounded(
    steps: Steps[Answer],
    received_bytes: Callable[[], int],
    clock: Callable[[], float] = time.monotonic,
    resident_bytes: Callable[[], int] | None = None,
) -> Steps[Answer]:
    """Carry a statement out step by step, up to a time, a number of bytes, and memory that they take.

    psycopg goes on by a step ten times a second, also while nothing arrives.

    Parameters
    ----------
    steps : generator
        psycopg's: gives what is waited for.
    received_bytes : callable
        How many bytes the server has sent on this connection so far.
    clock : callable
    resident_bytes : callable
        How much memory this process has; None for what the kernel says.

    Raises
    ------
    EndlessError : the server takes longer, or sends more
    """
    resident_bytes = resident_bytes or _resident_bytes
    end_s, most_bytes = clock() + STATEMENT_S, received_bytes() + MOST_RESULT_BYTES
    most_resident = resident_bytes() + MOST_MEMORY_BYTES

    def check(_: Any) -> None:
        if clock() > end_s:
            raise EndlessError(f"{UNANSWERED} within {STATEMENT_S:g} s")
        if received_bytes() > most_bytes:
            raise EndlessError(f"{TOO_MUCH} {MOST_RESULT_BYTES >> 20} MiB for a statement")
        if resident_bytes() > most_resident:
            raise EndlessError(TOO_LARGE)

    return _checked(steps, check)


def _checked(steps: Steps[Answer], check: Callable[[Any], None]) -> Steps[Answer]:
    """Go through steps, with a check of what was waited for before each next one."""
    try:
        awaited = next(steps)
        while True:
            ready = yield awaited
            check(awaited)
            awaited = steps.send(ready)
    except StopIteration as done:
        answer: Answer = done.value
        return answer


def _knock(conninfo: str) -> None:
    """Look at who serves a Unix socket that is named: libpq connects to it and begins to talk in one step."""
    said = conninfo_to_dict(conninfo)
    folder = str(said.get("host") or os.environ.get("PGHOST") or "")
    if not folder.startswith(("/", "@")):
        return
    path = f"{folder}/.s.PGSQL.{said.get('port') or os.environ.get('PGPORT') or 5432}"
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_KNOCK_S)
        with suppress(OSError):  # libpq says next why there is no connection
            link.connect(f"\0{path[1:]}" if path.startswith("@") else path)
        _check_server(link, conninfo)


def _check_server(link: socket.socket, conninfo: str) -> None:
    """Refuse a server of this computer that is neither root's nor this user's nor the database account's.

    A server that must prove that it knows the password, or that has a certificate, may be any user's.
    """
    try:
        link.getpeername()
    except OSError:
        return  # it does not stand yet, so nothing can be sent
    if _proves_itself(conninfo, has_tls=link.family != socket.AF_UNIX):
        return
    owners = peer_owners(link)
    if owners is None:
        return
    if strange := owners - _trusted():
        raise psycopg.OperationalError(f"{STRANGER} {', '.join(sorted(map(_name, strange)))}")
    if not owners:
        raise psycopg.OperationalError(GONE)


def _proves_itself(conninfo: str, has_tls: bool) -> bool:
    """Whether libpq is told to log in to no server but one that knows the password or has the host's certificate."""
    said = conninfo_to_dict(conninfo)
    needed = said.get("require_auth") or os.environ.get("PGREQUIREAUTH")
    tls = said.get("sslmode") or os.environ.get("PGSSLMODE")
    return needed == "scram-sha-256" or (has_tls and tls == "verify-full")


def _trusted() -> set[int | None]:
    trusted: set[int | None] = {0, os.geteuid()}
    with suppress(KeyError):  # this computer has no such account
        trusted.add(pwd.getpwnam(_ACCOUNT).pw_uid)
    return trusted


def _name(uid: int | None) -> str:
    return "an unknown user" if uid is None else user_name(uid)


def _received_bytes(fd: int) -> int:
    """Bytes that a TCP connection has brought so far; 0 for a Unix socket, which does not count them."""
    with socket.socket(fileno=os.dup(fd)) as link:
        if link.family == socket.AF_UNIX:
            return 0
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return int(struct.unpack_from("=Q", info, _RECEIVED_AT)[0])


def _resident_bytes() -> int:
    """Memory of this process, also that which libpq has taken."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
