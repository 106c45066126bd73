"""The end of each statement, and of whom a server may be; the times are a counter's."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from damoos.store import postgresql_client
from damoos.store.postgresql_client import (
    MOST_MEMORY_BYTES,
    MOST_RESULT_BYTES,
    STATEMENT_S,
    EndlessError,
    bounded,
    looked_at,
)


def steps(nr_steps: int) -> Generator[str, Any, list[Any]]:
    got = []
    for _ in range(nr_steps):
        got.append((yield "read"))
    return got


def run(generator: Generator[Any, Any, Any]) -> Any:
    """What a generator returns, once the socket was ready as often as it asked."""
    try:
        next(generator)
        while True:
            generator.send("ready")
    except StopIteration as done:
        return done.value


def test_a_statement_that_ends_is_left_alone() -> None:
    assert run(bounded(steps(3), lambda: 0, lambda: 0.0)) == ["ready"] * 3
    assert run(bounded(steps(0), lambda: 0, lambda: 0.0)) == []


def test_a_statement_ends_by_time() -> None:
    times = itertools.chain([0.0, STATEMENT_S], itertools.repeat(STATEMENT_S + 1))
    with pytest.raises(EndlessError, match="has not ended a statement within 75 s"):
        run(bounded(steps(10**9), lambda: 0, times.__next__))


def test_a_statement_ends_by_its_bytes() -> None:
    sizes = itertools.chain([7, 7 + MOST_RESULT_BYTES], itertools.repeat(8 + MOST_RESULT_BYTES))
    with pytest.raises(EndlessError, match="sends more than 320 MiB for a statement"):
        run(bounded(steps(10**9), sizes.__next__, lambda: 0.0))


def test_a_statement_ends_by_the_memory_of_this_process() -> None:
    sizes = itertools.chain([7, 7 + MOST_MEMORY_BYTES], itertools.repeat(8 + MOST_MEMORY_BYTES))
    with pytest.raises(EndlessError, match="sends more than 448 MiB of memory can hold"):
        run(bounded(steps(10**9), lambda: 0, lambda: 0.0, sizes.__next__))
    assert postgresql_client._resident_bytes() > 1 << 20


@pytest.fixture
def link() -> Generator[socket.socket]:
    """The client's end of a connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        yield client


def connecting(link: socket.socket) -> Generator[Any, Any, str]:
    yield link.fileno(), "write"
    return "logged in"


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ({61235}, "the server there belongs to user 61235"),
        ({0, 61235}, "the server there belongs to user 61235"),
        ({None}, "the server there belongs to an unknown user"),
        (set(), "no process of this computer is seen to listen there"),
    ],
)
def test_a_strangers_server_is_refused(
    link: socket.socket, monkeypatch: pytest.MonkeyPatch, owners: set[int | None], said: str
) -> None:
    monkeypatch.setattr(postgresql_client, "peer_owners", lambda _: owners)
    with pytest.raises(psycopg.OperationalError, match=said):
        run(looked_at(connecting(link), ""))
    for proof in ("require_auth=scram-sha-256", "sslmode=verify-full"):
        assert run(looked_at(connecting(link), proof)) == "logged in"


@pytest.mark.parametrize("owners", [{0}, {os.geteuid()}, None], ids=["root", "own", "elsewhere"])
def test_a_server_of_ones_own_is_logged_in_to(
    link: socket.socket, monkeypatch: pytest.MonkeyPatch, owners: set[int | None] | None
) -> None:
    monkeypatch.setattr(postgresql_client, "peer_owners", lambda _: owners)
    assert run(looked_at(connecting(link), "")) == "logged in"


def test_a_certificate_is_no_proof_by_a_unix_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql_client, "peer_owners", lambda _: {61235})
    here, _there = socket.socketpair()
    with pytest.raises(psycopg.OperationalError, match="belongs to user 61235"):
        run(looked_at(connecting(here), "sslmode=verify-full"))


def test_the_owner_of_a_peer_is_seen(link: socket.socket) -> None:
    assert postgresql_client.peer_owners(link) == {os.geteuid()}
    here, _there = socket.socketpair()
    assert postgresql_client.peer_owners(here) == {os.geteuid()}
