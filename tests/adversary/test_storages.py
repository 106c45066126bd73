"""A database of another user's making: nothing leads damoos to it, and it gets neither a password nor all the time."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from damoos.cli import app
from damoos.errors import StoreError
from damoos.store import connection, postgresql, postgresql_client
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.sweep import Sweep
from tests.adversary.conftest import ATTACKER, needs_two_users

PASSWORD = b"planted-77ab"
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
CLEAR_TEXT_PASSWORD = b"R" + struct.pack("!II", 8, 3)


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


LET_IN = (
    message(b"R", struct.pack("!I", 0))
    + message(b"S", b"client_encoding\0UTF8\0")
    + message(b"S", b"server_version\x0017.0\0")
    + message(b"K", struct.pack("!II", 1, 2))
    + message(b"Z", b"I")
)
SET_DONE = message(b"C", b"SET\0") + message(b"Z", b"I")
COLUMN = b"a\0" + struct.pack("!IHIhih", 0, 0, 25, -1, -1, 0)
HEADING = message(b"1", b"") + message(b"2", b"") + message(b"T", struct.pack("!H", 1) + COLUMN)
ROWS = message(b"D", struct.pack("!HI", 1, 60000) + b"x" * 60000)
NOTICES = message(b"N", b"SNOTICE\0M" + b"x" * 20000 + b"\0\0")
# How many bytes a server without end sends in a test; more than a statement may bring there.
SENT_BYTES = 32 << 20


def login(link: socket.socket) -> bytes:
    """What a client begins with, once it has been told that there is no encryption."""
    while True:
        (length,) = struct.unpack("!I", link.recv(4))
        words = link.recv(length - 4)
        if struct.unpack("!I", words[:4])[0] not in (SSL_REQUEST, GSS_REQUEST):
            return words
        link.sendall(b"N")


class LetsIn:
    """A PostgreSQL server that asks for nothing, and says nothing, or more and more, when it is asked for a table."""

    def __init__(self, listener: socket.socket, answer: bytes) -> None:
        self._listener, self._answer = listener, answer
        self._has_ended = threading.Event()
        self._came = threading.Event()
        self._talks: list[threading.Thread] = []
        self.heard: list[bytes] = []

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self.heard.append(b"a connection")
                self._talks.append(threading.Thread(target=self._talk, args=(link,), daemon=True))
                self._talks[-1].start()
                self._came.set()

    def heard_of_one_who_has_left(self) -> list[bytes]:
        """Whatever its one client has said."""
        self._came.wait(60)
        for talk in self._talks:
            talk.join(60)
        return self.heard

    def _talk(self, link: socket.socket) -> None:
        with suppress(OSError, struct.error), link:
            self.heard.append(login(link))
            link.sendall(LET_IN)
            while (words := link.recv(10000)) and b"SET statement_timeout" in words:
                link.sendall(SET_DONE)
            self.heard.append(words)
            if self._answer is ROWS:
                link.sendall(HEADING)
            for _ in range(SENT_BYTES // len(self._answer) if self._answer else 0):
                link.sendall(self._answer)
            self._has_ended.wait(30)  # a client that waits for more is let go in the end

    def close(self) -> None:
        self._has_ended.set()
        self._listener.close()


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
            login(link)
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
    done = damoos("studies", "--results", tmp_path, "--storage", server.url)
    assert f"store {server.url}: " in str(done.exception)
    assert server.heard
    assert not any(PASSWORD in heard for heard in server.heard)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "the server has not ended a statement within 1 s"),
        (ROWS, "the server sends more than 8 MiB"),
        (NOTICES, "the server sends more than 8 MiB"),
    ],
    ids=["silent", "rows", "notices"],
)
def test_a_statement_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, said: str) -> None:
    monkeypatch.setattr(postgresql_client, "STATEMENT_S", 30.0 if answer else 1.0)
    monkeypatch.setattr(postgresql_client, "MOST_RESULT_BYTES", 8 << 20)
    server = LetsIn(socket.create_server(("127.0.0.1", 0)), answer)
    threading.Thread(target=server.serve, daemon=True).start()
    host, port = server._listener.getsockname()
    done = damoos("studies", "--results", tmp_path, "--storage", f"postgresql+psycopg://u@{host}:{port}/x")
    server.close()
    assert isinstance(done.exception, StoreError)
    assert said in str(done.exception)
    assert len(server.heard) == 3  # a connection, the login and one statement: damoos does not try again


ATTACK = """
import os, socket, sys, threading
from tests.adversary.test_storages import LetsIn
os.setresuid(*3 * [int(sys.argv[1])])
if sys.argv[2:]:
    os.umask(0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2] + "/.s.PGSQL.5432")
    listener.listen()
    print("there", flush=True)
else:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
server = LetsIn(listener, b"")
threading.Thread(target=server.serve, daemon=True).start()
sys.stdin.readline()
print(server.heard_of_one_who_has_left(), flush=True)
"""


def heard_by_attacker(results: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None) -> tuple[str, str]:
    """What damoos says of a server of the attacker's, and what that server has heard."""
    monkeypatch.setattr(postgresql_client, "STATEMENT_S", 1.0, raising=False)
    words = [sys.executable, "-c", ATTACK, str(ATTACKER), *([folder] if folder else [])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as attack:
        assert attack.stdin
        assert attack.stdout
        port = attack.stdout.readline().strip()
        place = f"u@/x?host={folder}" if folder else f"u@127.0.0.1:{port}/x"
        done = damoos("studies", "--results", results, "--storage", f"postgresql+psycopg://{place}")
        attack.stdin.close()
        return str(done.exception), attack.stdout.read()


@needs_two_users
@pytest.mark.parametrize("way", ["port", "socket"])
def test_a_server_of_another_user_is_not_logged_in_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        said, heard = heard_by_attacker(tmp_path, monkeypatch, folder if way == "socket" else None)
    assert f"the server there belongs to user {ATTACKER}; damoos logs in only to a server of root's" in said
    assert heard == "[b'a connection']\n"


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
