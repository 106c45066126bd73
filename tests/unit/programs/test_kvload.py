"""The load generator for key-value servers, against small servers of the test's own; guests run it on the real ones."""

from __future__ import annotations

import http.server
import json
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from damoos.workloads.base import tool
from damoos.workloads.metrics import Metric


class Store(socketserver.StreamRequestHandler):
    """Redis's and memcached's SET and GET, told apart by the first byte; every 50th answer takes 20 ms."""

    values: dict[bytes, bytes]
    asked: list[bytes]

    def handle(self) -> None:
        while line := self.rfile.readline():
            if line.startswith(b"*"):
                words = [self._bulk() for _ in range(int(line[1:]))]
                self._answer(words[1], words[2] if words[0] == b"SET" else None, redis=True)
            elif line.startswith(b"set "):
                _, key, *_, size = line.split()
                self._answer(key, self.rfile.read(int(size) + 2)[:-2], redis=False)
            else:
                self._answer(line.split()[1], None, redis=False)

    def _bulk(self) -> bytes:
        size = int(self.rfile.readline()[1:])
        return self.rfile.read(size + 2)[:-2]

    def _answer(self, key: bytes, value: bytes | None, redis: bool) -> None:
        if value is not None:
            self.values[key] = value
            self.wfile.write(b"+OK\r\n" if redis else b"STORED\r\n")
            return
        self.asked.append(key)
        if len(self.asked) % 50 == 0:
            time.sleep(0.02)
        found = self.values.get(key)
        if redis:
            self.wfile.write(b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found))
        else:
            self.wfile.write(
                (b"" if found is None else b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(found), found)) + b"END\r\n"
            )


@contextmanager
def serving(path: Path) -> Iterator[type[Store]]:
    handler = type("Handler", (Store,), {"values": {}, "asked": []})
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler
        server.shutdown()


def kvload(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("kvload"), *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("protocol", ["redis", "memcached"])
def test_it_fills_and_asks(tmp_path: Path, protocol: str) -> None:
    with serving(tmp_path / "s") as store:
        server = ("-P", protocol, "-s", tmp_path / "s", "-r", "500", "-d", "100")
        filled = json.loads(kvload(*server, "-f").stdout)
        assert (filled["sets"], len(store.values)) == (500, 500)
        assert {len(value) for value in store.values.values()} == {100}
        report = json.loads(kvload(*server, "-h", "50", "-n", "1000", "-w", "20", "-c", "3").stdout)
        assert report["gets"] + report["sets"] == 1000
        assert 100 < report["sets"] < 300
        assert report["misses"] == 0
        assert set(store.asked) <= {b"key:%012d" % number for number in range(50)}
        # 2 % of the answers take 20 ms.
        assert report["p50_ms"] < 10 < report["p99_ms"] <= report["max_ms"]
        store.values.clear()
        assert json.loads(kvload(*server, "-n", "10", "-w", "0").stdout)["misses"] == 10


def test_it_pauses(tmp_path: Path) -> None:
    with serving(tmp_path / "s"):
        report = json.loads(kvload("-P", "redis", "-s", tmp_path / "s", "-n", "20", "-i", "20000").stdout)
    assert report["seconds"] >= 19 * 0.02


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "usage: kvload"),
        (("-P", "redis", "-s", "/no/such"), "cannot connect to the server"),
        (("-P", "postgres", "-s", "/no/such"), "usage: kvload"),
        (("-P", "redis", "-s", "/no/such", "-n", "x"), "-n: 'x' is not a number"),
        (("-P", "redis", "-s", "/no/such", "-r", "5", "-h", "6"), "out of range"),
    ],
)
def test_what_is_wrong_is_told(words: tuple[str, ...], message: str) -> None:
    done = kvload(*words)
    assert done.returncode == 2
    assert message in done.stderr


class Files(http.server.BaseHTTPRequestHandler):
    """A web server that keeps connections; every answer takes 2 ms."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.002)
        found = self.path < "/key:000000000090"
        body = b"x" * 3000 if found else b"none"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(server.server_address[1])
        server.shutdown()


def test_it_reads_files_of_a_web_server(web: str) -> None:
    report = json.loads(kvload("-P", "http", "-p", web, "-r", "100", "-n", "100", "-c", "4").stdout)
    assert report["gets"] == 100
    assert 2 < report["misses"] < 30  # a tenth of the names
    assert report["p50_ms"] >= 2


def test_latencies_of_an_open_loop_count_from_when_a_request_arrived(web: str, tmp_path: Path) -> None:
    """One connection can ask 500 times a second. In a closed loop nobody sees that 5000 wanted to."""
    words = ("-P", "http", "-p", web, "-r", "10", "-n", "100")
    closed = json.loads(kvload(*words).stdout)
    late = json.loads(kvload(*words, "-R", "5000", "-H", tmp_path / "table").stdout)
    assert late["p50_ms"] > 4 * closed["p50_ms"]
    table = (tmp_path / "table").read_text()
    assert Metric(better="lower", hgrm=99).read("p99_ms", table, "", {}) == pytest.approx(late["p99_ms"], rel=0.02)


def test_the_highest_rate_that_keeps_a_latency_is_found(web: str) -> None:

    def highest(p99_ms: str) -> float:
        words = ("-P", "http", "-p", web, "-r", "10", "-n", "50", "-R", "500", "-T", p99_ms)
        return json.loads(kvload(*words).stdout)["rps_at_p99"]

    assert highest("1") == 0  # an answer takes 2 ms
    assert highest("60000") == 500 * 2**9  # all fifty are answered in much less, however fast they arrive
    assert highest("50") < 500 * 2**9  # if they arrive at once, the last waits for a tenth of a second


@pytest.mark.parametrize(
    "words", [("-R", "0"), ("-R", "x"), ("-T", "5"), ("-R", "5", "-i", "100"), ("-P", "http", "-f"), ("-P", "gopher")]
)
def test_what_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    done = kvload("-P", "redis", "-p", "1", *words)
    assert done.returncode == 2
    assert done.stderr
