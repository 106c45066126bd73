"""An SSH server of Paramiko's own that goes away in the middle of a login, which no guest does when it is told to."""

from __future__ import annotations

import contextlib
import gc
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA

from damoos.errors import ConfigError, MachineError, MachineTransientError
from damoos.machines import login, packets
from damoos.machines.channels import ChannelOutput
from damoos.machines.login import SshEndpoint, log_in, log_out
from damoos.machines.ssh import SshHost, SshSession

# How older keys are written.
PEM = ("-m", "PEM")


# What a server does with a key, and, if it takes it, answers to SFTP.
REFUSES, HANGS_UP = None, b"hangs up"


class Server(paramiko.ServerInterface):
    """Refuses every key, hangs up when it is shown one, or takes it and answers the same to every user.

    Each command prints the same, too, a line after each that it is sent, and does not end.
    """

    def __init__(self, transport: paramiko.Transport, answer: bytes | None, prints: bytes = b"") -> None:
        self._transport, self._answer, self._prints = transport, answer, prints

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if self._answer == HANGS_UP:
            self._transport.close()
        return paramiko.AUTH_FAILED if self._answer in (REFUSES, HANGS_UP) else paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        threading.Thread(target=channel.sendall, args=(self._answer,), daemon=True).start()
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        def talk() -> None:
            for line in self._prints.splitlines(keepends=True):
                channel.sendall(line)
                channel.recv(1 << 16)

        threading.Thread(target=talk, daemon=True).start()
        return True


@pytest.fixture
def endpoint(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SshEndpoint]:
    subprocess.run(["ssh-keygen", "-q", "-t", request.param[0], "-N", "", "-f", tmp_path / "key", *PEM], check=True)
    key = paramiko.PKey.from_path(tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")

        def serve() -> None:
            transport = paramiko.Transport(listening.accept()[0])
            transport.add_server_key(key)
            transport.start_server(server=Server(transport, *request.param[1:]), event=threading.Event())

        threading.Thread(target=serve, daemon=True).start()
        known = str(tmp_path / "known")
        yield SshEndpoint(host="127.0.0.1", port=port, key=str(tmp_path / "key"), known_hosts=known)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff" * 5000 + b"\n", b""])
def test_a_port_that_speaks_no_ssh_is_told_in_one_line(
    tmp_path: Path, answer: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "known").touch()
    (tmp_path / "key").touch()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            taken, _ = listening.accept()
            with taken:
                taken.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        endpoint = SshEndpoint(
            host="127.0.0.1", port=port, key=str(tmp_path / "key"), known_hosts=str(tmp_path / "known")
        )
        with pytest.raises(MachineTransientError, match=f"127.0.0.1:{port}: what answers there speaks no SSH; check"):
            log_in(endpoint)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("endpoint", [("ed25519", REFUSES), ("ecdsa", REFUSES)], indirect=True)
def test_a_key_that_is_refused_is_for_its_user_to_mend(endpoint: SshEndpoint) -> None:
    with pytest.raises(ConfigError, match="login refused"):
        log_in(endpoint)


@pytest.mark.parametrize("endpoint", [("ed25519", HANGS_UP)], indirect=True)
def test_a_host_that_goes_away_during_the_login_may_come_back(endpoint: SshEndpoint) -> None:
    with pytest.raises(MachineTransientError, match="saw EOF"):
        log_in(endpoint)


def answered(nr: int, kind: int, content: bytes) -> bytes:
    """A message of SFTP's: the answer to a request."""
    body = bytes([kind]) + nr.to_bytes(4, "big") + content
    return len(body).to_bytes(4, "big") + body


VERSION = b"\0\0\0\5\2\0\0\0\3"
GARBAGE = {
    "words of a shell": b"Welcome to this machine!\n" * 1000,
    "no version": b"\0\0\0\5\7\0\0\0\3",
    "cut off": b"\0\0\0\2\2\0",
    "another answer": VERSION + answered(1, 103, b"\0\0\0\1x"),
    "a name that is no text": VERSION + answered(1, 104, b"\0\0\0\1" + b"\0\0\0\2\xff\xfe" * 2 + bytes(4)),
}


@pytest.mark.parametrize("endpoint", [("ed25519", one) for one in GARBAGE.values()], indirect=True, ids=GARBAGE)
def test_garbage_of_an_sftp_server_is_the_machine_s_error(
    endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "DEADLINE_S", 2.0)  # the first wants more to be read than comes
    with pytest.raises(MachineError, match="making a folder for the agent"):
        SshHost(endpoint)


@pytest.mark.parametrize("endpoint", [("ed25519", b"")], indirect=True)
def test_an_sftp_server_that_never_answers_is_given_up(endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "DEADLINE_S", 1.0)
    with pytest.raises(MachineTransientError, match="making a folder for the agent took longer than 1 s"):
        SshHost(endpoint)


@pytest.mark.parametrize("endpoint", [("ed25519", b"")], indirect=True)
def test_a_command_that_never_ends_is_given_up(endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    host = object.__new__(SshHost)  # without a folder for files, which this server does not make
    host.endpoint, host.connection, host._files = endpoint, log_in(endpoint), None
    monkeypatch.setattr(login, "DEADLINE_S", 1.0)
    with pytest.raises(MachineTransientError, match="running 'look' took longer than 1 s"):
        host.output(["look"])
    log_out(host.connection)


def test_a_login_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A banner without a line's end; each sign of it used to begin the wait anew."""
    (tmp_path / "known").touch()
    (tmp_path / "key").touch()
    monkeypatch.setattr(login, "DEADLINE_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        known, port = str(tmp_path / "known"), listening.getsockname()[1]
        endpoint = SshEndpoint(host="127.0.0.1", port=port, key=str(tmp_path / "key"), known_hosts=known)
        with pytest.raises(MachineTransientError, match="logging in took longer than 1 s"):
            log_in(endpoint)


HELLO = b'{"id": 0, "result": {"pid": 1}}\n'
BUSY = b'{"type": "MachineBusy", "message": "another agent works here"}'
NO_SESSIONS = {
    "an agent that says no at once": b'{"id": 0, "error": %s}\n' % BUSY,
    "an agent that says no to the first call": b'%s{"id": 1, "error": %s}\n' % (HELLO, BUSY),
    "no agent": b"Welcome to this machine!\n",
    "another answer": HELLO + b'{"id": 1, "result": 7}\n',
}


@pytest.mark.parametrize(
    "endpoint", [("ed25519", VERSION, one) for one in NO_SESSIONS.values()], indirect=True, ids=NO_SESSIONS
)
@pytest.mark.slow
def test_a_session_that_fails_leaves_nothing_that_prints_a_traceback(
    endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paramiko's files flush themselves when they are collected, and fail if their buffers have been so before."""
    monkeypatch.setattr(SshHost, "_made_place", lambda self: "sent")
    monkeypatch.setattr(SshHost, "copy", lambda self, path: path.name)
    gc.collect()
    before, threads = paramikos(), set(threading.enumerate())
    gc.disable()  # what is found below would else depend on when it runs
    try:
        with pytest.raises(MachineError):
            SshSession(endpoint)
        assert paramikos() == before
    finally:
        gc.enable()
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith("agent-"):
            thread.join()


def paramikos() -> set[int]:
    """Files of Paramiko's that have not been collected."""
    return {id(one) for one in gc.get_objects() if type(one).__module__ == "paramiko.channel" and hasattr(one, "flush")}


def test_lines_of_a_channel() -> None:
    class Channel:
        chunks: ClassVar[list[bytes]] = [b"a", b"b\n\nlong", b"er\nend", b""]

        def recv(self, most_bytes: int) -> bytes:
            return self.chunks.pop(0)

    lines = ChannelOutput(Channel())  # type: ignore[arg-type]
    assert [lines.readline(5) for _ in range(5)] == [b"ab\n", b"\n", b"longe", b"r\n", b"end"]
    lines = ChannelOutput(Channel())  # type: ignore[arg-type]
    Channel.chunks[:] = [b""]
    assert lines.readline(5) == b""


@pytest.mark.parametrize("sz_bytes", [256 << 10, 1 << 30])
def test_a_packet_that_is_too_large_ends_the_login(tmp_path: Path, sz_bytes: int) -> None:
    """It comes before the host has shown a key, and Paramiko would wait for all of it."""
    (tmp_path / "known").touch()
    (tmp_path / "key").touch()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        known, port = str(tmp_path / "known"), listening.getsockname()[1]

        def serve() -> None:
            taken, _ = listening.accept()
            with taken:
                # Blocks of 8 bytes, the first of which has 4 of the packet.
                taken.sendall(b"SSH-2.0-x\r\n" + (sz_bytes + 12).to_bytes(4, "big") + bytes(4))
                while taken.recv(1 << 16):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        endpoint = SshEndpoint(host="127.0.0.1", port=port, key=str(tmp_path / "key"), known_hosts=known)
        with pytest.raises(MachineTransientError) as raised:
            log_in(endpoint)
    said = f"the host sent an SSH packet of {sz_bytes + 8} bytes, and 262144 are allowed"
    assert str(raised.value) == f"{endpoint.where}: {said}"


@pytest.mark.parametrize("endpoint", [("ed25519", b"")], indirect=True)
def test_nor_may_one_be_too_large_after_the_login(endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = log_in(endpoint)
    transport = connection.client.get_transport()
    assert (transport.is_active(), packets.refusal(transport)) == (True, "")
    monkeypatch.setattr(packets, "MOST_BYTES", 8)  # any packet that comes now is larger
    with pytest.raises(paramiko.SSHException, match="the host sent an SSH packet of"):
        transport.open_session(timeout=10)
    assert "the host sent an SSH packet of" in packets.refusal(transport)
    log_out(connection)


def flood(channel: paramiko.Channel, kind: int, begin: threading.Event) -> None:
    """Send 8 MiB at once, whatever the client's window is."""
    begin.wait(10)
    for _ in range(256):
        message = paramiko.Message()
        message.add_byte(bytes([kind]))
        message.add_int(channel.remote_chanid)
        if kind == MSG_CHANNEL_EXTENDED_DATA:
            message.add_int(1)
        message.add_string(b"{" * (32 << 10))
        with contextlib.suppress(EOFError, OSError):  # the client has ended the connection
            channel.get_transport()._send_user_message(message)


@pytest.mark.parametrize("kind", [MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA])
@pytest.mark.parametrize("opened_for", ["a command", "sftp"])
@pytest.mark.parametrize("endpoint", [("ed25519", VERSION)], indirect=True)
def test_a_channel_holds_no_more_than_its_window(
    endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch, opened_for: str, kind: int
) -> None:
    """Paramiko keeps whatever comes, and nobody reads the error output of an agent."""
    begin = threading.Event()

    def answer(self: Server, channel: paramiko.Channel, *_: object) -> bool:
        if opened_for == "sftp":
            channel.sendall(VERSION)
        threading.Thread(target=flood, args=(channel, kind, begin), daemon=True).start()
        return True

    monkeypatch.setattr(Server, "check_channel_subsystem_request", answer)
    monkeypatch.setattr(Server, "check_channel_exec_request", answer)
    connection = log_in(endpoint)
    transport = connection.client.get_transport()
    if opened_for == "sftp":
        channel = connection.sftp().get_channel()
    else:
        channel = transport.open_session(timeout=10)
        channel.exec_command("true")
    begin.set()
    transport.join(10)
    assert not transport.is_active()
    most_bytes = (2 << 20) + (32 << 10)
    assert f"bytes over an SSH channel that nobody has read, and {most_bytes} are" in packets.refusal(transport)
    assert len(channel.in_buffer) + len(channel.in_stderr_buffer) <= most_bytes + (32 << 10)
    log_out(connection)


@pytest.mark.parametrize("endpoint", [("ed25519", VERSION)], indirect=True)
def test_a_host_that_keeps_to_the_window_may_send_as_much_as_is_read(
    endpoint: SshEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: Server, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=channel.sendall, args=(bytes(8 << 20),), daemon=True).start()
        return True

    monkeypatch.setattr(Server, "check_channel_exec_request", answer)
    connection = log_in(endpoint)
    transport = connection.client.get_transport()
    channel = transport.open_session(timeout=10)
    channel.exec_command("true")
    channel.in_stderr_buffer.feed(b"x")  # both share a window
    time.sleep(0.3)  # the host has filled the window by then
    left_bytes = 8 << 20
    while left_bytes:
        left_bytes -= len(channel.recv(1 << 16))
    assert (transport.is_active(), packets.refusal(transport)) == (True, "")
    log_out(connection)


@pytest.mark.parametrize("error", [EOFError(), paramiko.SSHException("Key-exchange timed out")])
def test_a_connection_that_ends_while_more_is_allowed_ends_the_stream(error: Exception) -> None:
    """Paramiko tells the host that there is room as soon as something is read, and its reader died of that."""

    class Ended:
        def recv(self, most_bytes: int) -> bytes:
            raise error

    with pytest.raises(OSError, match="the connection has ended"):
        ChannelOutput(Ended()).readline(100)  # type: ignore[arg-type]


def test_an_error_without_words_is_told_in_some(tmp_path: Path) -> None:
    endpoint = SshEndpoint(host="h", known_hosts=str(tmp_path))
    assert str(login._told(EOFError(), endpoint)) == "root@h:22: the host closed the connection during the login"
