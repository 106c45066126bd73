"""Any host that SSH reaches. Fabric and Paramiko are known only here and in `login`, `channels`, `packets`."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.common import user_file
from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import CommandError, MachineError, MachineLost
from damoos.machines.base import (
    AS_IT_IS,
    DEAD_MAN_S,
    LOOK,
    AgentLink,
    Conditions,
    Machine,
    Session,
    agent_words,
    looked,
    new_token,
)  # fmt: skip
from damoos.machines.bundle import agent_bundle
from damoos.machines.channels import ChannelInput, ChannelOutput, beginning
from damoos.machines.login import CONNECT_S, SshEndpoint, in_time, log_in, log_out

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel

__all__ = ["SshEndpoint", "SshMachine", "SshSession"]

# Where files lie on a host, in the home folder of the user.
PLACE = (".cache", "damoos", "sent")
# The exit status of a command that could not be started comes right behind the end of its output.
_ENDED_S = 5.0
_LITTLE_BYTES = 1 << 20
# Larger ones are a shell's words for a signal, and whoever was killed may run the next time.
_LAST_STATUS = 127


class SshHost:
    """A host that is logged in to, and files brought to it.

    Parameters
    ----------
    endpoint : SshEndpoint
    connection : Connection or None
        One that is logged in there already.
    """

    def __init__(self, endpoint: SshEndpoint, connection: Connection | None = None) -> None:
        self.endpoint = endpoint
        self.connection = connection or log_in(endpoint)
        self._files: Channel | None = None
        try:
            what = "making a folder for the agent"
            with in_time(self.connection, endpoint, what), self._lost(what):
                self._sftp = self.connection.sftp()
                self._files = self._sftp.get_channel()
                self._place = self._made_place()
        except BaseException:
            log_out(self.connection)
            raise

    def agent_argv(self) -> list[str]:
        """How the agent is started there, without its words."""
        argv = [self.endpoint.python, "-S", self.copy(agent_bundle())]
        return ["sudo", "-n", *argv] if self.endpoint.sudo else argv

    def why_lost(self) -> str:
        """What else is known when the connection breaks."""
        return ""

    def output(self, argv: Sequence[str]) -> tuple[str, str]:
        """Run a command that says little; returns how its output and its error output begin.

        Raises
        ------
        MachineTransientError : the connection broke, nothing came for a while, or it did not end in time
        """
        what = f"running '{argv[-1]}'"
        with in_time(self.connection, self.endpoint, what), self._lost(what):
            transport = self.connection.client.get_transport()
            assert transport is not None
            channel = transport.open_session(timeout=CONNECT_S)
            channel.settimeout(CONNECT_S)
            channel.exec_command(shlex.join(argv))
            out, err = (beginning(receive, _LITTLE_BYTES) for receive in (channel.recv, channel.recv_stderr))
        return out.decode(errors="replace"), err.decode(errors="replace")

    @contextmanager
    def _lost(self, what: str) -> Iterator[None]:
        """A connection that breaks under SFTP or a new channel is a lost machine, whatever Paramiko calls it.

        What the host refuses over a connection that holds (its disk is full, say) is no lost machine, nor is one that
        answers what no SFTP server answers.
        """
        import paramiko

        try:
            yield
        except (EOFError, OSError, paramiko.SSHException) as error:
            if isinstance(error, OSError) and self._holds():
                raise MachineError(f"{self.endpoint.where}: {what}: {error}") from None
            detail = self.why_lost()
            reason = str(error) or "connection closed"
            raise MachineLost(f"{what}: {reason}{': ' + detail if detail else ''}") from None
        except (paramiko.SFTPError, *MALFORMED) as error:
            raise MachineError(
                f"{self.endpoint.where}: {what}: its SFTP server answers what cannot be read ({in_short(error)});"
                " check sftp-server there, and that no start-up file of the shell prints anything"
            ) from None

    def _holds(self) -> bool:
        transport = self.connection.client.get_transport()
        return bool(transport and transport.is_active() and self._files and not self._files.closed)

    def _made_place(self) -> str:
        """The folder for files there, in the home folder and made step by step: nobody else can swap the agent.

        Raises
        ------
        MachineError : there is no home folder, or others may write to a folder on the way
        """
        folder = home = str(self._sftp.normalize("."))
        owner = self._sftp.stat(home).st_uid
        self._check_own(home, owner)
        for name in PLACE:
            folder = posixpath.join(folder, name)
            self._make_own(folder, home)
            self._check_own(folder, owner)
        return folder

    def _make_own(self, folder: str, home: str) -> None:
        if self._exists(folder):
            return
        try:
            self._sftp.mkdir(folder, 0o700)
        except OSError as error:
            if not self._exists(folder):  # another damoos has just made it
                raise MachineError(
                    f"{self.endpoint.where}: {folder} cannot be made ({error.strerror or error}): the agent lies in the"
                    f" home folder of {self.endpoint.user}, which is {home}; give the account one that it can write to"
                ) from None

    def _check_own(self, folder: str, owner: int | None) -> None:
        status, where = self._sftp.stat(folder), f"{folder} on {self.endpoint.host}"
        if status.st_uid != owner:
            raise MachineError(f"{where} belongs to another user; remove it")
        if not stat.S_ISDIR(status.st_mode or 0) or (status.st_mode or 0) & 0o022:
            raise MachineError(f"{where} is no folder, or other users may write to it; remove it, or chmod go-w")

    def copy(self, path: Path) -> str:
        """Bring a file over, named by its content's hash; a second time costs one look.

        Raises
        ------
        MachineTransientError : the connection broke, or the host took it more slowly than `login.SLOWEST_BYTES_PER_S`
        MachineError : the host refuses it, or has no room for it
        """
        content, mode = user_file.read_bytes(path), path.stat().st_mode & 0o777
        folder = posixpath.join(self._place, hashlib.sha256(content).hexdigest()[:16])
        target = posixpath.join(folder, path.name)
        what = f"copying {path.name}"
        with in_time(self.connection, self.endpoint, what, len(content)), self._lost(what):
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
        self._check_whole(f"{target}.new", len(content))
        self._sftp.chmod(f"{target}.new", mode)
        self._sftp.posix_rename(f"{target}.new", target)

    def _check_whole(self, path: str, sz_bytes: int) -> None:
        """Refuse a file that the host has only in part: Paramiko does not tell what answers pipelined writes got.

        Raises
        ------
        MachineError : the host wrote less than it was sent
        """
        written = self._sftp.stat(path).st_size or 0
        if written == sz_bytes:
            return
        with suppress(OSError):
            self._sftp.remove(path)
        name = posixpath.basename(path).removesuffix(".new")
        raise MachineError(
            f"{self.endpoint.where}: copying {name}: the host wrote {written} of {sz_bytes} bytes; free space on the"
            f" disk of {self._place}"
        )


class SshSession(SshHost, Session):
    """An agent at the far end of one SSH connection.

    Parameters
    ----------
    endpoint : SshEndpoint
    why_lost : callable or None
        What else is known when the connection breaks (a guest's console).
    stands_still : bool
        Whether the machine is stopped between calls, and ends with this process: its agent has no dead-man timer.
    connection : Connection or None
        One that is logged in there already.

    Attributes
    ----------
    second_s : float
        See `damoos.machines.patience.limit_s`.
    """

    second_s = 1.0

    def __init__(
        self,
        endpoint: SshEndpoint,
        why_lost: Callable[[], str] | None = None,
        stands_still: bool = False,
        connection: Connection | None = None,
    ) -> None:
        self._stands_still = stands_still
        self._why_lost = why_lost or self._last_words
        self._channel: Channel | None = None
        self._said = ""
        super().__init__(endpoint, connection)
        try:
            with self._lost("starting the agent"):
                self.agent = self._start_agent()
            self.facts = self.agent.facts()
        except BaseException:
            log_out(self.connection)
            raise

    def why_lost(self) -> str:
        """What the host has sent that is refused, or else what the guest's console, or the interpreter, said last."""
        from damoos.machines.packets import refusal

        return refusal(self.connection.client.get_transport()) or self._why_lost()

    def _start_agent(self) -> AgentLink:
        token, argv = new_token(), self.agent_argv()
        transport = self.connection.client.get_transport()
        assert transport is not None
        channel = transport.open_session(timeout=CONNECT_S)
        words = agent_words(token, 0 if self._stands_still else DEAD_MAN_S)
        channel.exec_command(shlex.join([*argv, *words]))
        self._channel = channel
        try:
            streams = ChannelInput(channel), ChannelOutput(channel)
            return AgentLink(*streams, token, self.why_lost, self._stands_still, self.second_s)
        except MachineLost:
            self._check_started(channel, argv)
            raise

    def _check_started(self, channel: Channel, argv: list[str]) -> None:
        """Tell a command that failed, which will fail again, from a connection that broke.

        Raises
        ------
        CommandError : the command has ended by itself
        """
        channel.status_event.wait(_ENDED_S)
        if not 0 <= channel.exit_status <= _LAST_STATUS:
            return
        last_words = " | ".join(self._last_words().splitlines()[-3:])
        raise CommandError(
            f"{self.endpoint.where}: the agent cannot start: '{shlex.join(argv)}' ended with {channel.exit_status}"
            f"{': ' + last_words if last_words else ''}; {self._remedy(last_words)}"
        )

    def _remedy(self, said: str) -> str:
        if "not found" in said:
            return f"install {self.endpoint.python if self.endpoint.python in said else 'sudo'} there"
        if "needs Python" in said:
            return "install a newer one there, and name it in its machine file: [ssh] python"
        if "can't open file" in said and self.endpoint.sudo:
            return (
                f"root cannot read {self._place} there, as on an NFS home with root_squash; give {self.endpoint.user} a"
                " home folder on a disk of the host"
            )
        if said.startswith("sudo:"):
            return f"let {self.endpoint.user} run it by sudo without a password (NOPASSWD in sudoers)"
        return "run it there by hand to see why"

    def _last_words(self) -> str:
        """What the interpreter said of a machine that cannot run the agent (no python3, say)."""
        if self._channel and self._channel.recv_stderr_ready():
            self._said += self._channel.recv_stderr(2000).decode(errors="replace")
        return self._said.strip()

    def close(self) -> None:
        """Undo everything on the machine and log out."""
        try:
            self.agent.close()
        finally:
            log_out(self.connection)


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

    def look(self) -> dict[str, Any]:
        """Log in and look, beside whoever works there."""
        host = SshHost(self._endpoint)
        try:
            out, err = host.output([*host.agent_argv(), LOOK])
        finally:
            log_out(host.connection)
        return looked(out, err, self._endpoint.where)
