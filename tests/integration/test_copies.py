"""Files that are brought to a host by SSH: whole and in time, or not at all."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko import sftp

from damoos.errors import MachineError, MachineTransientError
from damoos.machines import login
from damoos.machines.ssh import SshHost
from tests.ssh_server import Files, ssh_server


class _FullHandle(paramiko.SFTPHandle):
    """A file of which the disk takes the first bytes only."""

    def write(self, offset: int, data: bytes) -> Any:
        return super().write(offset, data) if offset == 0 else sftp.SFTP_FAILURE


class FullDisk(Files):
    def handle_of(self, flags: int) -> paramiko.SFTPHandle:
        return _FullHandle(flags)


def made(folder: Path) -> Path:
    file = folder / "words.sql"
    file.write_bytes(bytes(200_000))
    return file


def test_a_file_is_brought_whole(tmp_path: Path) -> None:
    with ssh_server(tmp_path) as endpoint:
        there = SshHost(endpoint).copy(made(tmp_path))
    assert Path(there).read_bytes() == bytes(200_000)


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """Under its name, it would be taken for the whole file by the next run."""
    with ssh_server(tmp_path, FullDisk) as endpoint, pytest.raises(MachineError) as refused:
        SshHost(endpoint).copy(made(tmp_path))
    assert str(refused.value) == (
        f"{endpoint.where}: copying words.sql: the host wrote 32768 of 200000 bytes; free space on the disk of"
        f" {tmp_path}/home/.cache/damoos/sent"
    )
    assert [file for file in (tmp_path / "home").rglob("*") if file.is_file()] == []


class Trickle(Files):
    """A host that is never silent, and takes a file in 20 s if it is let."""

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        for _ in range(200):
            if not self.server.transport.is_active():
                break
            self.server.transport.send_ignore(1)
            threading.Event().wait(0.1)
        return super().posix_rename(oldpath, newpath)


def test_a_host_that_takes_a_file_byte_by_byte_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path, Trickle) as endpoint:
        host = SshHost(endpoint)
        monkeypatch.setattr(login, "DEADLINE_S", 1.0)
        with pytest.raises(
            MachineTransientError, match=r"copying words.sql took longer than 4\.05 s; check the host's"
        ):
            host.copy(made(tmp_path))
