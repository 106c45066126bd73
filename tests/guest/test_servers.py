"""Another user of the machine, while servers that come with damoos run there: each is tried, none lets the user in."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from damoos.machines import catalog as machines
from damoos.machines.guest import GuestSession
from damoos.workloads import catalog
from damoos.workloads.catalog import Place
from tests.conftest import shell

PACKAGES = (
    "mariadb-server", "memcached", "nginx-light", "postgresql-15", "redis-server", "redis-tools", "sysbench",
)  # fmt: skip
PORTS = (3306, 5432, 6379, 8080, 11211)
DATA = "/var/lib/damoos"
# Holds a socket and a port that are open to all: what follows is no proof unless the intruder gets at these.
CONTROL = """
import os, socket, time
there = socket.socket(socket.AF_UNIX), socket.socket()
there[0].bind("/tmp/open.sock")
os.chmod("/tmp/open.sock", 0o777)
there[1].bind(("127.0.0.1", 4711))
for each in there:
    each.listen()
open("/tmp/open.ready", "w").close()
time.sleep(1000000)
"""
# Tries all sockets that the kernel shows, ports that servers are known for, and the folders and files that it is given;
# prints what it gets at.
INTRUDER = """
import json, os, socket, sys
folders, ports = json.loads(sys.argv[1])
targets = [("127.0.0.1", port) for port in ports]
for table in filter(lambda table: os.path.exists("/proc/net/" + table), ("tcp", "tcp6")):
    for line in open("/proc/net/" + table).readlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            targets.append(("127.0.0.1", int(words[1].split(":")[1], 16)))
for line in open("/proc/net/unix").readlines()[1:]:
    words = line.split(maxsplit=7)
    if len(words) > 7:
        path = words[7].strip().replace("@", chr(0))
        targets += [os.path.join(folder, path) for folder in folders] if path[0] not in "/\\0" else [path]
reached = []
for target in targets:
    try:
        with socket.socket(socket.AF_UNIX if isinstance(target, str) else socket.AF_INET) as line:
            line.connect(target)
        reached.append(str(target))
    except OSError:
        pass
for folder in [*folders, *sys.argv[2:]]:
    try:
        os.listdir(folder) if os.path.isdir(folder) else open(folder).read(1)
        reached.append(folder)
    except OSError:
        pass
print(json.dumps(sorted(set(reached))))
"""
# The load waits until it has been tried to get in.
WAITS = 'touch up; until test -e tried; do sleep 0.2; done; exec "$@"'
AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"


@pytest.fixture(scope="module")
def servers(guest_image: None) -> Iterator[GuestSession]:
    """A guest with all servers, and one of the tests' own that is open to all."""
    machine = machines.machine("guest")
    machine.provide(PACKAGES, ())
    session = machine.open()
    assert isinstance(session, GuestSession)
    try:
        shell(session, f"nohup python3 -c {shlex.quote(CONTROL)} >/dev/null 2>&1 &")
        shell(session, "until test -e /tmp/open.ready; do sleep 0.1; done")
        yield session
    finally:
        session.close()


class Intruder:
    """A user of the machine who is no other process's user, and root's eyes to say where to look."""

    def __init__(self, session: GuestSession) -> None:
        self._session = session

    def reached(self, *more: str) -> list[str]:
        """What the user gets at: sockets, ports, folders of runs, and files or folders that are named."""
        folders = shell(self._session, f"ls -d {DATA}/*/ 2>/dev/null || true").split()
        words = [json.dumps([folders, PORTS]), DATA, *more]
        argv = f"{AS_NOBODY} python3 -S -c {shlex.quote(INTRUDER)} {shlex.join(words)}"
        return json.loads(shell(self._session, argv))

    def refused(self, command: str) -> str:
        """What a command says that the user is refused."""
        return shell(self._session, f"cd /; {AS_NOBODY} {command} 2>&1 && echo LET IN || true")


def folder_of(session: GuestSession, over: threading.Event) -> str:
    """The run's folder, once its load waits."""
    while not over.is_set():
        if found := shell(session, f"ls {DATA}/*/up 2>/dev/null || true").split():
            return found[0].removesuffix("/up")
        time.sleep(0.4)
    raise AssertionError("the run ended before its load began")


def run_and_try(session: GuestSession, name: str, tries: Any) -> dict[str, float]:
    """Run a server with its load; ``tries`` is called with the run's folder while the load waits. Returns metrics."""
    workload = catalog.workload(name, Place(lambda program: program))
    spec = workload.spec(session.copy, 1, session.facts["arch"])
    spec["load"]["argv"] = ["sh", "-c", WAITS, "sh", *spec["load"]["argv"]]
    spec["setup"] = [_smaller(words) for words in spec["setup"]]
    over = threading.Event()

    def attack() -> None:
        folder = folder_of(session, over)
        try:
            tries(folder)
        finally:
            shell(session, f"touch {folder}/tried")

    with ThreadPoolExecutor(1) as pool:
        tried = pool.submit(attack)
        try:
            raw = session.agent.call("run", limit_s=900, sample_s=0.5, drop_caches=False, context=None, **spec)
        finally:
            over.set()
        tried.result()
    assert raw["exit_status"] == 0, raw["stderr"]
    return workload.metrics(raw)


def _smaller(words: Sequence[str]) -> list[str]:
    """Fewer rows than a run is measured with."""
    return ["1000" if word == "60000" else word for word in words]


@pytest.mark.parametrize(
    "name", ["redis/idle:test", "redis/snapshots:test", "memcached/idle:test", "nginx/static:test"]
)
def test_another_user_gets_at_no_server(servers: GuestSession, name: str) -> None:
    intruder = Intruder(servers)
    before = intruder.reached()
    assert {"/tmp/open.sock", "('127.0.0.1', 4711)"} <= set(before)

    def tries(folder: str) -> None:
        file = catalog.find(name)[1].real[0]
        owner = shell(servers, f"stat -c '%U %a' {folder}")
        assert owner == f"{file.user} 700"
        address = file.load.address if file.load else ""
        assert intruder.reached(f"{folder}/{address}") == before

    assert run_and_try(servers, name, tries)["ops_per_s"] > 0


def test_another_user_writes_no_file_by_mariadb(servers: GuestSession) -> None:
    """The socket cannot be reached; and if it could, only the server's own user can log in."""
    intruder = Intruder(servers)
    before = intruder.reached()

    def tries(folder: str) -> None:
        assert intruder.reached(f"{folder}/mariadb.sock") == before
        writes = f"mariadb --no-defaults --socket={folder}/mariadb.sock -e \"SELECT 1 INTO OUTFILE '/tmp/written'\""
        assert "Can't connect" in intruder.refused(writes)
        shell(servers, f"chmod 711 {folder}; chmod 777 {folder}/mariadb.sock")
        for user in ("root", "mysql", "nobody"):
            assert "Access denied" in intruder.refused(f"{writes} --user={user}")
        # Not even the server's own user writes a file elsewhere.
        own = f"setpriv --reuid mysql --clear-groups {writes} 2>&1 || true"
        assert "--secure-file-priv" in shell(servers, own)

    assert run_and_try(servers, "mariadb/sysbench:test", tries)["ops_per_s"] > 0
    assert shell(servers, "ls /tmp/written 2>&1 || true").endswith("No such file or directory")


def test_another_user_runs_no_program_by_postgresql(servers: GuestSession) -> None:
    """The socket cannot be reached; and if it could, only the server's own user can log in."""
    intruder = Intruder(servers)
    before = intruder.reached()

    def tries(folder: str) -> None:
        socket = f"{folder}/socket"
        assert intruder.reached(f"{socket}/.s.PGSQL.5432") == before
        runs = f"psql -h {socket} -U postgres -c \"COPY (SELECT 1) TO PROGRAM 'touch /tmp/written'\" postgres"
        assert "Permission denied" in intruder.refused(runs)
        shell(servers, f"chmod 711 {folder} {socket}; chmod 777 {socket}/.s.PGSQL.5432")
        assert "Peer authentication failed" in intruder.refused(runs)

    assert run_and_try(servers, "postgres/pgbench:test", tries)["ops_per_s"] > 0
    assert shell(servers, "ls /tmp/written 2>&1 || true").endswith("No such file or directory")
