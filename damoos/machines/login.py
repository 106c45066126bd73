"""Logging in to a host by SSH, perhaps through another host. No key of a host is taken that is not known beforehand."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from damoos import regular_file
from damoos.common.toml_file import Table
from damoos.errors import ConfigError, DamoosError, MachineTransientError
from damoos.machines import host_names, known_hosts
from damoos.units import quoted

if TYPE_CHECKING:
    from fabric import Connection

CONNECT_S = 30
# The largest private keys have 13 KiB.
_KEY_BYTES = 64 << 10
# For a login as a whole, and for each other short thing: a host that sends a byte now and then is never silent.
DEADLINE_S = 60.0
# What is sent has a second more for as many bytes, which the slowest host takes that is of any use.
SLOWEST_BYTES_PER_S = 64 << 10
# What Paramiko logs is told by the exceptions that follow; without a handler, Python prints it with a traceback.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
_JUMP = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?P<host>\[[^\]\s]+\]|[^@:\s]+)(?::(?P<port>\d{1,5}))?")
_FORBIDDEN = 1  # RFC 4254, 5.1: SSH_OPEN_ADMINISTRATIVELY_PROHIBITED


class SshEndpoint(Table):
    """``[ssh]``: where and as whom to log in. The host key, and that of the jump host, must be in ``known_hosts``.

    Parameters
    ----------
    host : str
        Name or address, without a user or a port.
    port : int
        Of its SSH server.
    user : str
        Must be root, or ``sudo`` true: DAMON is for root.
    key : str
        File of the private key; without one, those of the user's SSH agent and of ``~/.ssh`` are offered.
    known_hosts : str
        File of host keys, 4 MiB at most; a key that is not there is not accepted.
    sudo : bool
        Whether the agent is started by ``sudo -n``.
    jump : str
        ``user@host:port`` of a host that leads there; user and port may be left out. It gets the same keys offered.
    python : str
        Name or path of the Python that runs the agent there, 3.9 or newer.
    """

    host: str = Field(min_length=1)
    port: int = Field(default=22, ge=1, le=65535)
    user: str = Field(default="root", min_length=1)
    key: str | None = None
    known_hosts: str = "~/.ssh/known_hosts"
    sudo: bool = False
    jump: str | None = None
    python: str = "python3"

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, host: str) -> str:
        if why := host_names.objection(host):
            raise ValueError(f"{quoted(host)} {why}")
        return host

    @field_validator("jump")
    @classmethod
    def _is_a_place(cls, words: str | None) -> str | None:
        if words is None:
            return None
        match = _JUMP.fullmatch(words)
        if not match or not 1 <= int(match["port"] or 22) <= 65535:
            raise ValueError(f"{quoted(words)} is not a jump host such as user@host:22")
        cls._is_a_host(match["host"].strip("[]"))
        return words

    @property
    def where(self) -> str:
        """The place as error messages name it."""
        return f"{self.user}@{self.host}:{self.port}" + (f" through {self.jump}" if self.jump else "")

    def first_hop(self) -> SshEndpoint | None:
        """The jump host, as a place to log in to."""
        match = _JUMP.fullmatch(self.jump or "")
        if not match:
            return None
        host, port, user = match["host"].strip("[]"), int(match["port"] or 22), match["user"] or self.user
        return self.model_copy(update={"host": host, "port": port, "user": user, "jump": None})


def log_in(endpoint: SshEndpoint, line: socket.socket | None = None) -> Connection:
    """Open a connection; `log_out` ends it.

    Parameters
    ----------
    endpoint : SshEndpoint
    line : socket or None
        What leads there already; None to connect to the endpoint's host and port.

    Raises
    ------
    ConfigError : the user must mend something: a key, a host's key, a name
    MachineTransientError : the host does not answer now
    """
    first = endpoint.first_hop()
    gateway = log_in(first) if first else None
    connection = _connection(endpoint, gateway, line)
    try:
        _trust(connection, endpoint)
        with in_time(connection, endpoint, "logging in"):
            _open(connection, endpoint)
    except BaseException:
        log_out(connection)
        raise
    return connection


def log_out(connection: Connection) -> None:
    """End a connection, and the one that it leads through."""
    connection.close()
    connection.client.close()  # Fabric leaves one alone that has failed half-way
    if connection.gateway:
        log_out(connection.gateway)


@contextmanager
def in_time(connection: Connection, endpoint: SshEndpoint, what: str, sz_bytes: int = 0) -> Iterator[None]:
    """Break a connection under something that takes longer than `DEADLINE_S`, and than what it sends may take.

    Parameters
    ----------
    connection : Connection
    endpoint : SshEndpoint
    what : str
        Beginning of a sentence: "copying words.sql".
    sz_bytes : int
        That are sent meanwhile; 0 for calls.

    Raises
    ------
    MachineTransientError : it took longer
    """
    late, limit_s = threading.Event(), DEADLINE_S + sz_bytes / SLOWEST_BYTES_PER_S

    def break_it() -> None:
        late.set()
        transport = connection.client.get_transport()
        if transport:
            with suppress(OSError, EOFError):
                transport.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, break_it)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():  # what was read when the connection broke is not whole, though nothing may have been raised
        raise MachineTransientError(
            f"{endpoint.where}: {what} took longer than {limit_s:.3g} s; check the host's load and network"
        )


def _connection(endpoint: SshEndpoint, gateway: Connection | None, line: socket.socket | None) -> Connection:
    from fabric import Config, Connection

    from damoos.machines.packets import BoundedPacketizer, BoundedTransport

    settings: dict[str, Any] = {"allow_agent": endpoint.key is None, "look_for_keys": endpoint.key is None}
    if endpoint.key:
        settings["key_filename"] = str(_checked_key(endpoint))
    if line:
        settings["sock"] = line
    settings["transport_factory"] = partial(BoundedTransport, packetizer_class=BoundedPacketizer)
    settings["banner_timeout"] = settings["auth_timeout"] = settings["channel_timeout"] = CONNECT_S
    return Connection(
        endpoint.host,
        user=endpoint.user,
        port=endpoint.port,
        gateway=gateway,
        connect_timeout=CONNECT_S,
        connect_kwargs=settings,
        config=Config(lazy=True),
    )


def _checked_key(endpoint: SshEndpoint) -> Path:
    """The file of the private key, which Paramiko opens in its own way, and would wait for a pipe."""
    key = Path(endpoint.key or "").expanduser()
    try:
        regular_file.whole(key, _KEY_BYTES)
    except regular_file.NotRegularError:
        raise ConfigError(f"{endpoint.where}: key {key}: not a regular file") from None
    except regular_file.TooLargeError as error:
        raise ConfigError(f"{endpoint.where}: key {key}: {error.strerror}; name the file of a private key") from None
    except OSError:
        raise ConfigError(f"{endpoint.where}: key {key} is not there or cannot be read") from None
    return key


def _trust(connection: Connection, endpoint: SshEndpoint) -> None:
    """Have it take the keys of ``known_hosts`` and no others; Fabric would take any that it has not seen."""
    import paramiko

    known, name = Path(endpoint.known_hosts).expanduser(), known_hosts.listed(endpoint.host, endpoint.port)
    trusted = connection.client.get_host_keys()
    try:
        for key in known_hosts.keys_of(known, name):
            if key.get_name() not in (trusted.lookup(name) or ()):  # of several of a kind, the first one
                trusted.add(name, key.get_name(), key)
    except OSError as error:
        raise ConfigError(f"{endpoint.where}: known_hosts file {known}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{endpoint.where}: known_hosts file {known}: {error}") from None
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())


def _open(connection: Connection, endpoint: SshEndpoint) -> None:
    import paramiko

    try:
        connection.open()
    except (OSError, EOFError, UnicodeError, paramiko.SSHException) as error:
        raise _told(error, endpoint) from None


def _told(error: Exception, endpoint: SshEndpoint) -> DamoosError:
    """An error of Paramiko's as one of ours: what the user has to mend, or what may pass."""
    import paramiko

    where, known = endpoint.where, Path(endpoint.known_hosts).expanduser()
    if isinstance(error, paramiko.BadHostKeyException):
        return ConfigError(
            f"{where}: its host key is not the one in {known}; if the host was installed again,"
            " remove the old key with ssh-keygen -R"
        )
    if _is_refusal(error):
        return ConfigError(f"{where}: login refused: {error}; give [ssh] a key, or add one to your SSH agent")
    if "not found in known_hosts" in str(error):
        return ConfigError(f"{where}: its host key is not in {known}; log in with ssh once to check and add it")
    if isinstance(error, paramiko.ChannelException) and error.code == _FORBIDDEN:
        return ConfigError(f"{where}: the jump host does not forward: {error.text}; it needs AllowTcpForwarding")
    no_name = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
    if no_name or isinstance(error, UnicodeError):
        return ConfigError(f"{where}: no such host name")
    if re.search("protocol banner|No existing session", str(error)):  # a server that is too busy does the same
        return MachineTransientError(f"{where}: what answers there speaks no SSH; check [ssh] host and port")
    text = error.text if isinstance(error, paramiko.ChannelException) else str(error)
    return MachineTransientError(f"{where}: {text.strip() or 'the host closed the connection during the login'}")


def _is_refusal(error: Exception) -> bool:
    """Whether the host has judged the user: Paramiko tells of one that is slow or goes away by the same exception."""
    import paramiko

    if isinstance(error, paramiko.AuthenticationException):
        return not re.search("timeout|saw EOF", str(error), re.IGNORECASE)
    # It tries a file as each kind of key; of a refused one that is of an older format, it tells how the last kind went.
    return bool(re.search("No authentication methods|expected OPENSSH key", str(error)))
