"""Any host that SSH reaches, by Fabric. The only file that knows Fabric; it is imported when a session opens."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.errors import ConfigError, MachineError, MachineLost, MachineTransientError
from damoos.machines.base import AS_IT_IS, DEAD_MAN_S, AgentLink, Conditions, Machine, Session
from damoos.machines.bundle import agent_bundle
from damoos.tomlfile import Table

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel

CONNECT_S = 30


class SshEndpoint(Table):
    """Where and as whom to log in. The host key must be in ``known_hosts``."""

    host: str
    port: int = 22
    user: str = "root"
    key: str | None = None
    known_hosts: str = "~/.ssh/known_hosts"
    sudo: bool = False


class SshSession(Session):
    """An agent at the far end of one SSH connection.

    Parameters
    ----------
    endpoint : SshEndpoint
    python : str
        The interpreter there.
    why_lost : callable or None
        What else is known when the connection breaks (a guest's console).
    """

    def __init__(
        self, endpoint: SshEndpoint, python: str = "python3", why_lost: Callable[[], str] | None = None
    ) -> None:
        self.endpoint = endpoint
        self.connection = _connect(endpoint)
        self._why_lost = why_lost or self._last_words
        self._channel: Channel | None = None
        try:
            with self._lost("starting the agent"):
                self._sftp = self.connection.sftp()
                self._place = f"/tmp/damoos-{endpoint.user}"
                self._make_place()
                self.agent = self._start_agent(python)
            self.facts = self.agent.call("facts")
        except BaseException:
            self.connection.close()
            raise

    def _start_agent(self, python: str) -> AgentLink:
        argv = [python, "-S", self.copy(agent_bundle()), str(DEAD_MAN_S)]
        if self.endpoint.sudo:
            argv = ["sudo", "-n", *argv]
        transport = self.connection.client.get_transport()
        assert transport is not None
        channel = transport.open_session(timeout=CONNECT_S)
        channel.exec_command(shlex.join(argv))
        self._channel = channel
        return AgentLink(channel.makefile_stdin("wb"), channel.makefile("rb"), self._why_lost)

    def _last_words(self) -> str:
        """What the interpreter said of a machine that cannot run the agent (no python3, say)."""
        if self._channel is None or not self._channel.recv_stderr_ready():
            return ""
        return self._channel.recv_stderr(2000).decode(errors="replace").strip()

    @contextmanager
    def _lost(self, what: str) -> Iterator[None]:
        """A connection that breaks under SFTP or a new channel is a lost machine, whatever Paramiko calls it."""
        import paramiko

        try:
            yield
        except (EOFError, OSError, paramiko.SSHException) as error:
            detail = self._why_lost()
            raise MachineLost(f"{what}: {error or 'connection closed'}{': ' + detail if detail else ''}") from None

    def _make_place(self) -> None:
        try:
            self._sftp.mkdir(self._place, 0o700)
        except OSError:
            # Somebody else's folder, or a link to one, could swap the agent for another program.
            if self._sftp.lstat(self._place).st_uid != self._sftp.stat(".").st_uid:
                raise MachineError(f"{self._place} on {self.endpoint.host} belongs to somebody else") from None

    def copy(self, path: Path) -> str:
        """Bring a file over, named by its content's hash; a second time costs one look."""
        content, mode = path.read_bytes(), path.stat().st_mode & 0o777
        folder = posixpath.join(self._place, hashlib.sha256(content).hexdigest()[:16])
        target = posixpath.join(folder, path.name)
        with self._lost(f"copying {path.name}"):
            if not self._exists(target):
                self._send(content, mode, folder, target)
        return target

    def _exists(self, target: str) -> bool:
        try:
            self._sftp.stat(target)
            return True
        except FileNotFoundError:
            return False

    def _send(self, content: bytes, mode: int, folder: str, target: str) -> None:
        if not self._exists(folder):
            self._sftp.mkdir(folder, 0o700)
        with self._sftp.open(f"{target}.new", "wb") as remote:
            remote.set_pipelined(True)
            remote.write(content)
        self._sftp.chmod(f"{target}.new", mode)
        self._sftp.posix_rename(f"{target}.new", target)

    def close(self) -> None:
        """Undo everything on the machine and log out."""
        try:
            self.agent.close()
        finally:
            self.connection.close()


def _connect(endpoint: SshEndpoint) -> Connection:
    import paramiko
    from fabric import Config, Connection

    settings: dict[str, Any] = {"allow_agent": endpoint.key is None, "look_for_keys": endpoint.key is None}
    if endpoint.key:
        settings["key_filename"] = str(Path(endpoint.key).expanduser())
    settings["banner_timeout"] = settings["auth_timeout"] = CONNECT_S
    connection = Connection(
        endpoint.host,
        user=endpoint.user,
        port=endpoint.port,
        connect_timeout=CONNECT_S,
        connect_kwargs=settings,
        config=Config(lazy=True),
    )
    known = Path(endpoint.known_hosts).expanduser()
    where = f"{endpoint.user}@{endpoint.host}:{endpoint.port}"
    try:
        connection.client.load_host_keys(str(known))
    except OSError as error:
        connection.close()
        raise ConfigError(f"{where}: known_hosts file {known}: {error.strerror}") from None
    # Fabric would take any key it has not seen; damoos takes none.
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        connection.open()
    except paramiko.BadHostKeyException:
        raise ConfigError(f"{where}: its host key is not the one in {known}") from None
    except paramiko.AuthenticationException as error:
        raise ConfigError(f"{where}: login refused: {error}") from None
    except paramiko.SSHException as error:
        if "not found in known_hosts" in str(error):
            raise ConfigError(f"{where}: its host key is not in {known}") from None
        raise MachineTransientError(f"{where}: {error}") from None
    except (OSError, EOFError) as error:
        raise MachineTransientError(f"{where}: {error}") from None
    return connection


class SshMachine(Machine):
    """A host that is there already."""

    def __init__(self, name: str, description: str, endpoint: SshEndpoint, conditions: Conditions = AS_IT_IS) -> None:
        self.name = name
        self.description = description
        self._endpoint = endpoint
        self.conditions = conditions

    def open(self, say: Callable[[str], None] = lambda _: None) -> SshSession:
        """Log in and start the agent."""
        say(f"logging in to {self._endpoint.user}@{self._endpoint.host}")
        session = SshSession(self._endpoint)
        session.facts = {**session.facts, "accel": "none", "clock": "host"}
        return session
