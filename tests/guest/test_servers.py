"""Servers that come with damoos, in one guest: they run under schemes, and let no other user of the machine in."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from damoos.damon.scheme import Context, Scheme
from damoos.dispatch.run import run_once
from damoos.machines import catalog as machines
from damoos.machines.guest import GuestSession
from damoos.policies.base import DamosPolicy, NonePolicy
from damoos.workloads import catalog
from damoos.workloads.catalog import Place
from tests.conftest import shell

PACKAGES = (
    "mariadb-server", "memcached", "nginx-light", "postgresql-15", "redis-server", "redis-tools", "sysbench",
)  # fmt: skip
REPORTS = ("ops_per_s", "p50_ms", "p95_ms", "p99_ms")
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
for target in set(targets):  # each connection that nobody has taken is one more line of the socket's
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
# The load waits until the intruder has tried.
WAITS = 'touch up; until test -e tried; do sleep 0.5; done; exec "$@"'
# Less than a run is measured with: rows of MariaDB; files of nginx, its requests of the warm-up, its hot files; values
# of redis and memcached, their hot ones, requests.
LESS = {"60000": "1000", "3000": "100", "6000": "100", "300": "10", "20000": "1000", "2000": "100", "1500": "100"}
AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"


@pytest.fixture(scope="module")
def servers(guest_image: None) -> Iterator[GuestSession]:
    """A guest with all servers, and one of the tests' own that is open to all."""
    machine = machines.machine("guest")
    machine.provide(PACKAGES, ())
    session = machine.open()
    assert isinstance(session, GuestSession)
    try:
        session.agent.call("prepare", **machine.conditions.wanted())
        shell(session, f"nohup python3 -c {shlex.quote(CONTROL)} >/dev/null 2>&1 &")
        shell(session, "until test -e /tmp/open.ready; do sleep 0.1; done")
        yield session
    finally:
        session.close()


class Intruder:
    """A user of the machine who is no other process's user, and root's eyes to say where to look.

    ``before`` is what the user gets at while no server of damoos's runs.
    """

    def __init__(self, session: GuestSession) -> None:
        self._session = session
        self.before = self.reached()

    def reached(self, *more: str) -> list[str]:
        """What the user gets at: sockets, ports, folders of runs, and files or folders that are named."""
        folders = shell(self._session, f"ls -d {DATA}/*/ 2>/dev/null || true").split()
        words = [json.dumps([folders, PORTS]), DATA, *more]
        argv = f"{AS_NOBODY} python3 -S -c {shlex.quote(INTRUDER)} {shlex.join(words)}"
        return json.loads(shell(self._session, argv))

    def refused(self, command: str) -> str:
        """What a command says that the user is refused."""
        return shell(self._session, f"cd /; {AS_NOBODY} {command} 2>&1 && echo LET IN || true")


@pytest.fixture(scope="module")
def intruder(servers: GuestSession) -> Intruder:
    """One who gets at what is open to all."""
    intruder = Intruder(servers)
    assert {"/tmp/open.sock", "('127.0.0.1', 4711)"} <= set(intruder.before)
    return intruder


def folder_of(session: GuestSession, over: threading.Event) -> str:
    """The run's folder, once its load waits."""
    while not over.is_set():
        if found := shell(session, f"ls {DATA}/*/up 2>/dev/null || true").split():
            return found[0].removesuffix("/up")
        time.sleep(0.4)
    raise AssertionError("the run ended before its load began")


def run_and_try(session: GuestSession, name: str, tries: Callable[[str], None]) -> None:
    """Run a server with its load; ``tries`` is called with the run's folder while the load waits."""
    workload = catalog.workload(name, Place(lambda program: program))
    spec = workload.spec(session.copy, 1, session.facts["arch"])
    load = spec["load"]
    load["argv"] = ["sh", "-c", WAITS, "sh", *less(load["argv"])]
    load["warm_up"] = [less(words) for words in load["warm_up"]]
    spec["setup"] = [less(words) for words in spec["setup"]]
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
            raw = session.agent.call("run", limit_s=900, sample_s=2.0, drop_caches=False, context=None, **spec)
        finally:
            over.set()
        tried.result()
    assert raw["exit_status"] == 0, raw["stderr"]
    assert workload.metrics(raw)["ops_per_s"] > 0


def less(words: Sequence[str]) -> list[str]:
    """The words of a command that does less than when it is measured."""
    return [LESS.get(word, word) for word in words]


# PostgreSQL's memory is touched only as its load begins, so that in a run as short as this little of it gets old.
@pytest.mark.parametrize(
    ("name", "min_age", "saves"), [("memcached/idle:test", "200ms", True), ("postgres/idle:test", "0s", False)]
)
def test_a_server_runs_with_and_without_a_scheme(servers: GuestSession, name: str, min_age: str, saves: bool) -> None:
    machine = machines.machine("guest")
    workload = catalog.workload(name, Place(lambda program: program))
    assert workload.variant == "real"
    plain, _ = run_once(servers, machine, workload, NonePolicy(), 120)
    scheme = Scheme.parse(f"4K max  min min  {min_age} max  pageout")
    under, _ = run_once(servers, machine, workload, DamosPolicy(Context((scheme,))), 120)
    assert all(one.metric(report) > 0 for one in (plain, under) for report in REPORTS)
    assert under.damos[0].sz_tried_bytes > 0
    assert not saves or under.metric("rss_avg_bytes") < 0.9 * plain.metric("rss_avg_bytes")


@pytest.mark.parametrize(
    "name", ["redis/idle:test", "redis/snapshots:test", "memcached/idle:test", "nginx/static:test"]
)
def test_another_user_gets_at_no_server(servers: GuestSession, intruder: Intruder, name: str) -> None:
    def tries(folder: str) -> None:
        file = catalog.find(name)[1].real[0]
        owner = shell(servers, f"stat -c '%U %a' {folder}")
        assert owner == f"{file.user} 700"
        address = file.load.address if file.load else ""
        assert intruder.reached(f"{folder}/{address}") == intruder.before

    run_and_try(servers, name, tries)


def test_another_user_writes_no_file_by_mariadb(servers: GuestSession, intruder: Intruder) -> None:
    """The socket cannot be reached; and if it could, only the server's own user can log in."""

    def tries(folder: str) -> None:
        assert intruder.reached(f"{folder}/mariadb.sock") == intruder.before
        writes = f"mariadb --no-defaults --socket={folder}/mariadb.sock -e \"SELECT 1 INTO OUTFILE '/tmp/written'\""
        assert "Can't connect" in intruder.refused(writes)
        shell(servers, f"chmod 711 {folder}; chmod 777 {folder}/mariadb.sock")
        for user in ("root", "mysql", "nobody"):
            assert "Access denied" in intruder.refused(f"{writes} --user={user}")
        # Not even the server's own user writes a file elsewhere.
        own = f"setpriv --reuid mysql --clear-groups {writes} 2>&1 || true"
        assert "--secure-file-priv" in shell(servers, own)

    run_and_try(servers, "mariadb/sysbench:test", tries)
    assert shell(servers, "ls /tmp/written 2>&1 || true").endswith("No such file or directory")


def test_another_user_runs_no_program_by_postgresql(servers: GuestSession, intruder: Intruder) -> None:
    """The socket cannot be reached; and if it could, only the server's own user can log in."""

    def tries(folder: str) -> None:
        socket = f"{folder}/socket"
        assert intruder.reached(f"{socket}/.s.PGSQL.5432") == intruder.before
        runs = f"psql -h {socket} -U postgres -c \"COPY (SELECT 1) TO PROGRAM 'touch /tmp/written'\" postgres"
        assert "Permission denied" in intruder.refused(runs)
        shell(servers, f"chmod 711 {folder} {socket}; chmod 777 {socket}/.s.PGSQL.5432")
        assert "Peer authentication failed" in intruder.refused(runs)

    run_and_try(servers, "postgres/pgbench:test", tries)
    assert shell(servers, "ls /tmp/written 2>&1 || true").endswith("No such file or directory")
