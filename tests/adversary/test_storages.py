"""A database of another user's making: nothing leads damoos to it, and it gets neither a password nor all the time."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from damoos.cli import app
from damoos.store import connection, postgresql
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.sweep import Sweep

PASSWORD = b"planted-77ab"
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
CLEAR_TEXT_PASSWORD = b"R" + struct.pack("!II", 8, 3)


class FakeServer:
    """A PostgreSQL server that asks for the password in clear text, or says nothing at all."""

    def __init__(self, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[socket.socket] = []
        self.heard: list[bytes] = []
        self.url = f"postgresql+psycopg://root@127.0.0.1:{self._listener.getsockname()[1]}/x"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self._links.append(link)
                self.heard.append(b"a connection")
                if not self._is_silent:
                    threading.Thread(target=self._ask, args=(link,), daemon=True).start()

    def _ask(self, link: socket.socket) -> None:
        with suppress(OSError, struct.error), link:
            while True:
                (length,) = struct.unpack("!I", link.recv(4))
                words = link.recv(length - 4)
                if struct.unpack("!I", words[:4])[0] not in (SSL_REQUEST, GSS_REQUEST):
                    break
                link.sendall(b"N")
            link.sendall(CLEAR_TEXT_PASSWORD)
            self.heard.append(link.recv(1000))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for link in (self._listener, *self._links):
            link.close()


@pytest.fixture(params=[False, True], ids=["asks", "silent"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv("PGPASSWORD", PASSWORD.decode())
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    found = FakeServer(request.param)
    yield found
    found.close()


def damoos(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def planted(results: Path, storage: str) -> None:
    """A sweep that says of itself where its studies are."""
    config = SweepConfig(("synthetic/idle",), ("fake:a",), {"nr_samples": 2})
    folder = Sweep.create(results, config).artifacts
    file = folder.path / "sweep.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "storage": storage}))
    folder.write_json("result.json", {"sweep": "sweep-1", "studies": [], "failures": [], "machines": {}, "cost": []})


@pytest.mark.parametrize("command", ["status", "show", "watch", "resume", "compare"])
def test_the_file_of_a_sweep_leads_to_no_server(tmp_path: Path, server: FakeServer, command: str) -> None:
    planted(tmp_path, server.url)
    done = damoos(command, "sweep-1", "--results", tmp_path)
    assert server.heard == []
    if command in ("resume", "compare"):  # the others need no store
        assert f"give --storage {server.url}" in str(done.exception)


def test_the_status_of_all_names_a_planted_sweep_and_asks_nobody(tmp_path: Path, server: FakeServer) -> None:
    planted(tmp_path, server.url)
    done = damoos("status", "--results", tmp_path)
    assert done.exit_code == 0
    assert "sweep-1" in done.stdout
    assert server.heard == []


def test_no_password_is_sent_in_clear_text_and_a_silent_server_is_given_up(tmp_path: Path, server: FakeServer) -> None:
    begun_s = time.monotonic()
    done = damoos("studies", "--results", tmp_path, "--storage", server.url)
    assert time.monotonic() - begun_s < 30
    assert f"store {server.url}: " in str(done.exception)
    assert server.heard
    assert not any(PASSWORD in heard for heard in server.heard)


def test_each_connection_has_a_time_limit() -> None:
    words = postgresql.connect_args("postgresql+psycopg://u@h/d?keepalives_count=9")
    assert words["connect_timeout"] <= 60
    assert words["require_auth"] == "!password"
    assert words["keepalives_idle"] <= 60
    assert "keepalives_count" not in words


def test_what_the_user_says_of_authentication_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "require_auth" not in postgresql.connect_args("postgresql+psycopg://u@h/d?require_auth=password")
    monkeypatch.setenv("PGREQUIREAUTH", "password")
    assert "require_auth" not in postgresql.connect_args("postgresql+psycopg://u@h/d")


def test_a_libpq_that_cannot_refuse_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.pq.version", lambda: 150004)
    with pytest.raises(Exception, match=r"libpq 15 here .* pip install 'psycopg\[binary\]'"):
        connection.connect("postgresql+psycopg://u@127.0.0.1:9/d")


@pytest.mark.parametrize("command", ["status", "show", "watch", "compare"])
def test_the_file_of_a_sweep_has_no_sqlite_file_made(tmp_path: Path, command: str) -> None:
    planted(tmp_path, f"sqlite:///{tmp_path}/made.sqlite")
    damoos(command, "sweep-1", "--results", tmp_path)
    assert not (tmp_path / "made.sqlite").exists()


@pytest.mark.parametrize(
    "words",
    [["studies"], ["show", "x"], ["resume", "x"], ["compare", "x", "y"], ["validate", "x", "--limit", "slowdown<=1"],
     ["apply", "x"], ["report", "html", "x"], ["studies", "delete", "x", "--yes"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_reading_makes_no_store(tmp_path: Path, words: list[str]) -> None:
    for place in ((), ("--storage", f"sqlite:///{tmp_path}/made.sqlite")):
        done = damoos(*words, "--results", tmp_path / "results", *place)
        assert done.exit_code in (0, 1)
        assert list(tmp_path.iterdir()) == []
