"""An SSH server of Paramiko's on loopback whose host is this computer: SFTP in a folder, commands run for real."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko
from paramiko import sftp

from damoos.machines.login import SshEndpoint

# What a command has printed to what is sent.
Printed = Callable[[bytes], bytes]


class Files(paramiko.SFTPServerInterface):
    """A home folder; tests override what a hostile or broken host does otherwise."""

    home: Path

    def __init__(self, server: Server) -> None:
        self.server = server

    def _at(self, path: str) -> str:
        return os.path.join(self.home, path)

    def canonicalize(self, path: str) -> str:
        return os.path.realpath(self._at(path))

    def stat(self, path: str) -> Any:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(self._at(path)))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    lstat = stat

    def mkdir(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        os.mkdir(self._at(path), 0o700)
        return int(sftp.SFTP_OK)

    def chattr(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        os.chmod(self._at(path), attr.st_mode or 0)
        return int(sftp.SFTP_OK)

    def remove(self, path: str) -> int:
        os.remove(self._at(path))
        return int(sftp.SFTP_OK)

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        os.rename(self._at(oldpath), self._at(newpath))
        return int(sftp.SFTP_OK)

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> Any:
        handle = self.handle_of(flags)
        file = os.fdopen(os.open(self._at(path), flags, 0o600), "wb")
        handle.writefile = file  # type: ignore[attr-defined]
        return handle

    def handle_of(self, flags: int) -> paramiko.SFTPHandle:
        return paramiko.SFTPHandle(flags)


class Server(paramiko.ServerInterface):
    """Takes every key."""

    def __init__(self, transport: paramiko.Transport, home: Path, printed: Printed) -> None:
        self.transport = transport
        self._home, self._printed = home, printed

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        def run() -> None:
            done = subprocess.run(command.decode(), shell=True, capture_output=True, cwd=self._home, check=False)
            with suppress(OSError, EOFError):  # the client may have hung up by now
                channel.sendall(self._printed(done.stdout))
                channel.sendall_stderr(done.stderr)
                channel.send_exit_status(done.returncode)
                channel.close()

        threading.Thread(target=run, daemon=True).start()
        return True


@contextmanager
def ssh_server(
    folder: Path, files: type[Files] = Files, printed: Printed = lambda output: output
) -> Iterator[SshEndpoint]:
    """Serve until the end; ``home`` in the folder is the home folder of every user."""
    home, key_file = folder / "home", folder / "key"
    home.mkdir(0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key_file], check=True)
    key = paramiko.PKey.from_path(key_file)
    served = type("FilesAtHome", (files,), {"home": home})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (folder / "known").write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")

        def serve() -> None:
            while True:
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                transport = paramiko.Transport(taken)
                transport.add_server_key(key)
                transport.set_subsystem_handler("sftp", paramiko.SFTPServer, served)
                transport.start_server(server=Server(transport, home, printed), event=threading.Event())

        threading.Thread(target=serve, daemon=True).start()
        yield SshEndpoint(host="127.0.0.1", port=port, key=str(key_file), known_hosts=str(folder / "known"))
