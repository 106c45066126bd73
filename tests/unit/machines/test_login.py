"""An SSH server of Paramiko's own that goes away in the middle of a login, which no guest does when it is told to."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from damoos.errors import ConfigError, MachineTransientError
from damoos.machines.login import SshEndpoint, log_in

# How older keys are written.
PEM = ("-m", "PEM")


class Server(paramiko.ServerInterface):
    """Refuses every key, or hangs up when it is shown one."""

    def __init__(self, transport: paramiko.Transport, hangs_up: bool) -> None:
        self._transport, self._hangs_up = transport, hangs_up

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if self._hangs_up:
            self._transport.close()
        return paramiko.AUTH_FAILED


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
            transport.start_server(server=Server(transport, hangs_up=request.param[1]), event=threading.Event())

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


@pytest.mark.parametrize("endpoint", [("ed25519", False), ("ecdsa", False)], indirect=True)
def test_a_key_that_is_refused_is_for_its_user_to_mend(endpoint: SshEndpoint) -> None:
    with pytest.raises(ConfigError, match="login refused"):
        log_in(endpoint)


@pytest.mark.parametrize("endpoint", [("ed25519", True)], indirect=True)
def test_a_host_that_goes_away_during_the_login_may_come_back(endpoint: SshEndpoint) -> None:
    with pytest.raises(MachineTransientError, match="saw EOF"):
        log_in(endpoint)
