"""The load generator for key-value servers, against small servers of the test's own; guests run it on the real ones."""

from __future__ import annotations

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
