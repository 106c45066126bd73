"""Servers on loopback, and those who connect to them and say nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from damoos.common.loopback import HOST, Handler, Server, Start


def test_whoever_asks_for_nothing_is_let_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Handler, "timeout", 0.2)
    with Server((HOST, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(server.server_address) as silent:
            silent.sendall(b"GET /")
            assert silent.recv(100) == b""
        server.shutdown()
    assert capsys.readouterr().err == ""


def test_slow_readers_take_a_bounded_number_of_places_and_are_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each answer that is not read is in memory; somebody who waits gets one when the slow ones are gone."""
    monkeypatch.setattr(Server, "connection_s", 0.5, raising=False)
    inside, most, lock = [0], [0], threading.Lock()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        try:
            yield b"x" * (1 if environ["PATH_INFO"] == "/short" else 8 << 20)
        finally:
            with lock:
                inside[0] -= 1

    with Server((HOST, 0), Handler) as server:
        server.set_app(app)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        slow = [socket.create_connection(server.server_address) for _ in range(30)]
        for connection in slow:
            connection.sendall(b"GET /long HTTP/1.0\r\n\r\n")
        with socket.create_connection(server.server_address, timeout=60) as honest:
            honest.sendall(b"GET /short HTTP/1.0\r\n\r\n")
            assert honest.makefile("rb").read().endswith(b"\r\n\r\nx")
        for connection in slow:
            connection.close()
        server.shutdown()
    assert 1 <= most[0] <= 16
    assert capsys.readouterr().err == ""


def test_a_server_that_waits_for_a_place_can_be_ended() -> None:
    with Server((HOST, 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        silent = [socket.create_connection(server.server_address) for _ in range(17)]
        server.shutdown()
        serving.join(5)
        assert not serving.is_alive()
        for connection in silent:
            connection.close()
