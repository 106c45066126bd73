"""A colleague's folder of services: 'damoos stop' logs in to no host of that colleague's choice."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import ConfigError, DamoosError, MachineError
from damoos.service.journal import Journal
from damoos.testing.rollout_fleet import spec
from tests.adversary.conftest import ATTACKER, needs_two_users

_FILE = 'description = "x"\n[ssh]\nhost = "127.0.0.1"\nport = {port}\nknown_hosts = "{known_hosts}"\n'


class Listener:
    """Where the attacker waits; hangs up on whoever comes."""

    def __init__(self, server: socket.socket) -> None:
        self.port, self.nr_logins = server.getsockname()[1], 0
        self._server = server
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.nr_logins += 1
            client.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = socket.create_server(("127.0.0.1", 0))
    yield Listener(server)
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def left_in_force(results: Path, folder: str, shown: str, machine: Path, listener: Listener) -> Journal:
    """What stays in force without its keeper, on a machine whose file the colleague has written."""
    known_hosts = machine.with_name("known_hosts")
    known_hosts.touch()
    machine.write_text(_FILE.format(port=listener.port, known_hosts=known_hosts))
    journal = Journal.of(results, folder)
    journal.want(
        "redis", {**spec(machine=shown), "on_exit": "keep", "run": {"command": "true", "machine": str(machine)}}
    )
    return journal


def stopped(results: Path) -> DamoosError:
    done = CliRunner().invoke(app, ["stop", "redis", "--results", str(results)])
    assert isinstance(done.exception, DamoosError)
    assert str(done.exception).isprintable()
    return done.exception


@pytest.mark.parametrize("shown", ["there", "file"])
def test_a_service_leads_to_no_other_machine_than_its_folder_s(tmp_path: Path, listener: Listener, shown: str) -> None:
    file = tmp_path / "evil.toml"
    journal = left_in_force(tmp_path, "there", str(file) if shown == "file" else shown, file, listener)
    error = stopped(tmp_path)
    assert isinstance(error, ConfigError)
    assert f"and {journal.folder} is of another one, so damoos does not use that machine; remove redis.stopping" in str(
        error
    )
    assert listener.nr_logins == 0


@needs_two_users
def test_a_machine_file_of_another_user_is_not_used(tmp_path: Path, listener: Listener) -> None:
    file = tmp_path / "evil.toml"
    left_in_force(tmp_path, str(file), str(file), file, listener)
    os.chown(file, ATTACKER, ATTACKER)
    error = stopped(tmp_path)
    assert isinstance(error, ConfigError)
    assert f"which belongs to user {ATTACKER}, so damoos does not log in there; chown the file" in str(error)
    assert listener.nr_logins == 0


def test_a_machine_of_one_s_own_that_hangs_up_is_tried_once(tmp_path: Path, listener: Listener) -> None:
    file = tmp_path / "web1.toml"
    left_in_force(tmp_path, str(file), str(file), file, listener)
    error = stopped(tmp_path)
    assert isinstance(error, MachineError)
    assert str(error).startswith("'redis' may still be in force: machine")
    assert str(error).endswith("; run 'damoos stop redis' again once it can")
    assert listener.nr_logins == 1
