"""A PostgreSQL server that answers as none does: each answer is told in a line, and none fills the memory."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from damoos.errors import StoreError
from damoos.store import connection, postgresql_client

TEXT, JSON = 25, 114


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack(">I", len(content) + 4) + content


def columns(*oids: int) -> bytes:
    told = (b"a\0" + struct.pack(">IhIhih", 0, 0, oid, -1, -1, 0) for oid in oids)
    return message(b"T", struct.pack(">H", len(oids)) + b"".join(told))


def row(*values: bytes | None) -> bytes:
    told = (struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in values)
    return message(b"D", struct.pack(">H", len(values)) + b"".join(told))


DONE = message(b"C", b"SELECT 1\0")
OURS, VERSION, LEVEL = "ours as", "version()", "show transaction"
PLAIN = {OURS: columns(TEXT, TEXT) + DONE, VERSION: columns(TEXT) + row(b"PostgreSQL 16.1 on x86_64") + DONE}
# What is answered to which statement, and what is said then.
LIES = {
    "no version": ({VERSION: columns(TEXT) + row(b"x") + DONE}, "it answers as no database does"),
    "a version of NULL": ({VERSION: columns(TEXT) + row(None) + DONE}, "it answers as no database does"),
    "no rows": ({LEVEL: columns(TEXT) + DONE}, "it answers as no database does"),
    "objects of JSON": ({OURS: columns(JSON) + row(b"[" + b"[]," * 6_000_000 + b"1]") + DONE}, "a text is longer than"),
    "rows of nothing": ({OURS: columns() + row() * 4_200_000 + DONE}, "sends more than 448 MiB of memory can hold"),
}


@pytest.fixture
def lies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of such a server, which counts as one of root's."""
    monkeypatch.setattr(postgresql_client, "peer_owners", lambda link: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server, {**PLAIN, **request.param}), daemon=True).start()
        yield f"postgresql+psycopg://me@127.0.0.1:{server.getsockname()[1]}/d?sslmode=disable"


def accept(server: socket.socket, answers: dict[str, bytes]) -> None:
    while True:
        try:
            client = server.accept()[0]
        except OSError:
            return
        threading.Thread(target=serve, args=(client, answers), daemon=True).start()


def serve(client: socket.socket, answers: dict[str, bytes]) -> None:
    ready = message(b"Z", b"I")
    sql = ""
    with client, client.makefile("rb") as file:
        try:
            file.read(struct.unpack(">I", file.read(4))[0] - 4)
            said = {b"server_version": b"16.1", b"client_encoding": b"UTF8", b"standard_conforming_strings": b"on"}
            told = b"".join(message(b"S", key + b"\0" + value + b"\0") for key, value in said.items())
            client.sendall(message(b"R", struct.pack(">I", 0)) + told + ready)
            while kind := file.read(1):
                content = file.read(struct.unpack(">I", file.read(4))[0] - 4)
                if kind == b"Q":
                    client.sendall(answer(content[:-1].decode(), answers) + ready)
                elif kind == b"P":
                    sql = content.split(b"\0")[1].decode()
                elif kind == b"E":
                    client.sendall(message(b"1") + message(b"2") + answer(sql, answers))
                elif kind == b"S":
                    client.sendall(ready)
        except (OSError, struct.error):
            return  # the client has gone


def answer(sql: str, answers: dict[str, bytes]) -> bytes:
    said = next((said for words, said in answers.items() if words in sql.lower()), None)
    if said is None and sql.split()[0].upper() in ("SET", "BEGIN", "COMMIT", "ROLLBACK"):
        return message(b"C", sql.split()[0].upper().encode() + b"\0")
    return said or columns(TEXT) + row(b"x") + DONE


@pytest.mark.parametrize(("lies", "said"), LIES.values(), ids=list(LIES), indirect=["lies"])
def test_a_lie_is_told_in_one_line(lies: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as told:
        connection.connect(lies)
    assert len(str(told.value).splitlines()) == 1
