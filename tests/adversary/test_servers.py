"""Servers that workloads bring: no other user of the machine gets in, and no other server is taken for one of them."""

from __future__ import annotations

import ast
import os
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.agent import accounts, cgroup, folders
from damoos.agent.folders import Folders
from damoos.agent.run import Run
from damoos.agent.undo import UndoLog
from damoos.errors import WorkloadError
from tests.adversary.conftest import ATTACKER, PYTHON, needs_two_users

SPEC = {"env": {}, "limit_s": 60, "sample_s": 0.1, "drop_caches": False, "context": None}
# No machine has this account, so the agent takes a free user id.
NOBODYS = "damoos-test"
# Binds where it is told to, like a server that goes on without its port, and touches "up".
SERVER = """
import os, pathlib, socket, sys, time
server = socket.socket(socket.AF_UNIX if sys.argv[1].startswith("/") else socket.AF_INET)
where = sys.argv[1] if sys.argv[1].startswith("/") else ("127.0.0.1", int(sys.argv[1]))
try:
    server.bind(where)
    server.listen()
    if server.family == socket.AF_UNIX:
        os.chmod(where, 0o777)
except OSError as error:
    print(error, file=sys.stderr)
pathlib.Path("up").touch()
time.sleep(600)
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    line.sendall(b"SET key value")
"""
# Says which of the paths or ports it gets at.
INTRUDER = """
import os, socket, sys
for what in sys.argv[1:]:
    try:
        if what.isdigit():
            socket.create_connection(("127.0.0.1", int(what))).close()
        elif what.endswith(".sock"):
            socket.socket(socket.AF_UNIX).connect(what)
        else:
            os.listdir(what)
    except OSError:
        continue
    print(what)
"""

Meanwhile = Callable[[Path], None]
RunWith = Callable[..., dict[str, Any]]


def python(code: str, *words: str | int) -> list[str]:
    return ["/usr/bin/python3", "-S", "-c", code, *map(str, words)]


def intrude(*targets: Path | int) -> list[str]:
    """The targets that another user of this machine gets at."""
    argv = [PYTHON, "-S", "-c", INTRUDER, *map(str, targets)]
    done = subprocess.run(
        argv, user=ATTACKER, group=ATTACKER, extra_groups=[], cwd="/", capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWith:
    """Runs a program or server in this process; ``meanwhile`` is called once its folder has a file "up"."""
    data = home / "data"
    data.mkdir()
    data.chmod(0o711)  # as /var/lib/damoos
    monkeypatch.setattr(folders, "data_folder", lambda: data)
    monkeypatch.setattr(cgroup, "usable", lambda: False)
    log = UndoLog(tmp_path / "undo.json")

    def run(meanwhile: Meanwhile | None = None, **spec: Any) -> dict[str, Any]:
        todo = [meanwhile] if meanwhile else []

        def interrupted() -> bool:
            if todo and (up := next(data.glob("*/up"), None)):
                todo.pop()(up.parent)
            return False

        raw = Run({**SPEC, **spec}, log, Folders(log), None, interrupted, lambda _: None)()
        assert not todo
        return raw

    return run


@pytest.fixture
def foreign() -> Iterator[socket.socket]:
    """A server of this machine that has nothing to do with a run."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def asked(server: socket.socket) -> bool:
    """Whether anything has ever connected to it."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("has_address", [True, False], ids=["address", "no address"])
def test_nothing_is_sent_to_a_server_that_holds_the_port(
    run: RunWith, foreign: socket.socket, has_address: bool
) -> None:
    """The workload's own server cannot bind and goes on; another one answers in its place."""
    port = foreign.getsockname()[1]
    load = {"ready": ["test", "-e", "up"], "warm_up": [python(CLIENT, port)], "argv": python(CLIENT, port)}
    if has_address:
        load |= {"ready": python(CLIENT, port), "address": f"127.0.0.1:{port}"}
    with pytest.raises(WorkloadError) as told:
        run(argv=python(SERVER, port), load=load)
    assert not asked(foreign)
    who = f"127.0.0.1:{port} is served by process {os.getpid()} (" if has_address else "listens on no socket"
    assert who in str(told.value)


def test_nothing_is_sent_to_another_server_once_ours_has_ended(run: RunWith, foreign: socket.socket) -> None:
    port = foreign.getsockname()[1]
    ended = python("import os, pathlib; pathlib.Path('up').touch()")
    load = {"ready": ["test", "-e", "up"], "warm_up": [python(CLIENT, port)], "argv": python(CLIENT, port)}
    with pytest.raises(WorkloadError, match="the server ended"):
        run(argv=ended, load=load)
    assert not asked(foreign)


@needs_two_users
def test_another_user_gets_at_no_socket_and_no_folder(run: RunWith, home: Path) -> None:
    """A socket of mode 0777 in a folder of the run's own; the one that lies elsewhere shows that the attack works."""
    open_to_all = home / "open.sock"
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(open_to_all))
        open_to_all.chmod(0o777)
        control.listen()
        reached: list[list[str]] = []

        def meanwhile(folder: Path) -> None:
            reached.append(intrude(open_to_all, home, folder, folder / "own.sock"))

        server = ["sh", "-c", 'exec /usr/bin/python3 -S -c "$0" "$PWD/own.sock"', SERVER]
        load = {"address": "own.sock", "ready": [], "warm_up": [], "argv": ["sleep", "2"]}
        run(meanwhile, argv=server, load=load, user=NOBODYS)
    assert reached == [[str(open_to_all), str(home)]]


# Leaves a program that makes any user who executes it the account of this run, and something that only that one reads.
LEAVES = 'cp /usr/bin/cat "$0/left"; chmod 6755 "$0/left"; echo kept >"$0/own"; chmod 600 "$0/own"'


@needs_two_users
@pytest.mark.parametrize(("nr_ids", "gets"), [(100, ""), (1, "data")])
def test_a_set_id_file_of_an_earlier_run_opens_no_later_one(
    run: RunWith, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nr_ids: int, gets: str
) -> None:
    """On a machine with a single free id, which is given again, the attack works: that is how the test knows of it."""
    first = random.randrange(61300, 65400)  # other tests of this machine have their own
    monkeypatch.setattr(accounts, "state_folder", lambda: tmp_path)
    monkeypatch.setattr(accounts, "_FREE_IDS", range(first, first + nr_ids))
    monkeypatch.setattr(accounts, "_given", {})

    def read(file: Path) -> str:
        """What another user gets of a file by the program that was left."""
        argv = [str(home / "left"), str(file)]
        words: dict[str, Any] = {"user": ATTACKER, "group": ATTACKER, "extra_groups": [], "cwd": "/"}
        return subprocess.run(argv, **words, capture_output=True, text=True, check=False).stdout.strip()

    run(argv=["sh", "-c", LEAVES, str(home)], user=NOBODYS)
    assert read(home / "own") == "kept"
    monkeypatch.setattr(accounts, "_given", {})  # the agent of another study
    reached: list[str] = []
    server = ["sh", "-c", "echo data >data; touch up; exec sleep 600"]
    load = {"address": "none", "ready": ["test", "-e", "up"], "warm_up": [], "argv": ["sleep", "1"]}
    run(lambda folder: reached.append(read(folder / "data")), argv=server, load=load, user=NOBODYS)
    assert reached == [gets]


@needs_two_users
def test_a_network_of_its_own_is_reached_by_nobody_else(run: RunWith, foreign: socket.socket) -> None:
    """A server that holds the port outside is no hindrance, and is asked nothing; only it is there for others."""
    port, reached = foreign.getsockname()[1], []
    load = {"address": f"127.0.0.1:{port}", "ready": [], "warm_up": [python(CLIENT, port)], "argv": ["sleep", "2"]}

    def meanwhile(folder: Path) -> None:
        assert not asked(foreign)
        reached.extend(intrude(port))
        assert asked(foreign)  # it was this one

    run(meanwhile, argv=python(SERVER, port), load=load, user=NOBODYS, network="own")
    assert reached == [str(port)]
    assert not asked(foreign)


@needs_two_users
def test_a_program_has_no_right_of_the_agent_s(run: RunWith) -> None:
    """Set-up, program, warm-up and load are one user that no other process is; what they make is theirs only."""
    told = (
        "import os, sys; print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ['HOME'] == os.getcwd(),"
        " os.environ['USER'], os.stat('.').st_uid, oct(os.stat('.').st_mode & 0o777), file=open(sys.argv[1], 'w'))"
    )
    server = python(
        f"import socket, time\nline = socket.socket()\nline.listen()\n{told}\ntime.sleep(600)", "server.txt"
    )
    warm_up, argv = [python(told, "warm.txt")], python(told, "load.txt")
    load = {"ready": ["test", "-e", "server.txt"], "warm_up": warm_up, "argv": argv}
    raw = run(argv=server, setup=[python(told, "setup.txt")], user=NOBODYS, files={"x": "*.txt"}, load=load)
    lines = set(raw["files"].values())
    assert sorted(raw["files"]) == ["load.txt", "server.txt", "setup.txt", "warm.txt"]
    assert len(lines) == 1, raw["files"]
    line = lines.pop()
    uid = int(line[1:].split(",")[0])
    assert 61184 <= uid <= 65519
    assert line == f"({uid}, {uid}, {uid}) ({uid}, {uid}, {uid}) [] True {NOBODYS} {uid} 0o700\n"


@needs_two_users
def test_links_that_a_program_lays_lead_the_agent_nowhere(run: RunWith, home: Path) -> None:
    """Neither is written where they lead, nor told what is there."""
    secret = home / "secret"
    secret.write_text("kept")
    secret.chmod(0o600)
    lays = (
        f"for name in load.out load.err helper.out found.csv; do ln -sf {secret} $name; done; touch up; exec sleep 600"
    )
    load = {"address": "none", "ready": ["test", "-e", "up"], "warm_up": [["echo", "1"]], "argv": ["echo", "2"]}
    with pytest.raises(WorkloadError, match=r"found\.csv.* leads out of the run's folder"):
        run(argv=["sh", "-c", lays], load=load, user=NOBODYS, files={"p99_ms": "*.csv"})
    assert secret.read_text() == "kept"


@needs_two_users
def test_a_file_that_is_brought_is_for_the_run_s_user_only(run: RunWith, home: Path) -> None:
    """The controller brings it where only the agent reads; another user finds it in no folder."""
    private = home / "brought"
    private.mkdir(0o700)
    file = private / "words.sql"
    file.write_text("SELECT 1")
    reached: list[str] = []

    def meanwhile(folder: Path) -> None:
        (there,) = folder.glob("../*/words.sql")
        assert there.stat().st_mode & 0o077 == 0
        reached.extend(intrude(there.parent))

    raw = run(
        meanwhile,
        argv=["sh", "-c", 'touch up; cat "$1"; exec sleep 1', "sh", str(file)],
        brought=[str(file)],
        user=NOBODYS,
    )
    assert raw["stdout"] == "SELECT 1"
    assert reached == []


# Has sockets of these names listen.
NAMES = """
import socket, sys
kept = []
for name in sys.argv[1:]:
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].bind(bytes.fromhex(name))
    kept[-1].listen(1)
print("up", flush=True)
sys.stdin.read()
"""


@needs_two_users
def test_another_user_s_socket_whose_name_has_line_breaks_fails_no_run(run: RunWith) -> None:
    """The kernel writes the name into /proc/net/unix as it is, so that a part of it is a line there."""
    forged = b"\n0000000000000000: 00000002 00000000 00010000 0001 01 %5d own.sock"
    names = [b"\0x\nbad", b"\0\xff\n\n", b"\0\rbad", b"\0" + forged % 1]
    argv = [PYTHON, "-S", "-c", NAMES, *(name.hex() for name in names)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, user=ATTACKER, group=ATTACKER, extra_groups=[], cwd="/", **pipes) as attacker:
        assert attacker.stdout
        assert attacker.stdout.readline() == b"up\n"
        server = ["sh", "-c", 'exec /usr/bin/python3 -S -c "$0" "$PWD/own.sock"', SERVER]
        load = {"address": "own.sock", "ready": [], "warm_up": [], "argv": ["true"]}
        assert run(argv=server, load=load, user=NOBODYS)["exit_status"] == 0
        attacker.communicate()


def test_another_account_gets_nothing_of_the_agents_environment(run: RunWith, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where damoos runs on the measured machine, that is the user's own, with the password of a store, say.

    TMPDIR leads to the run's folder: in /tmp anybody makes files of names that are known beforehand, as fio's is.
    """
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    told = python("import os; print(dict(os.environ), os.getcwd(), sep='\\n')")
    said, folder = run(argv=told, user=NOBODYS)["stdout"].splitlines()
    environment = ast.literal_eval(said)
    agents_own = {"PATH", "LANG", "LANGUAGE", "TZ", "TERM", *(name for name in environment if name.startswith("LC_"))}
    assert environment.keys() - agents_own == {"HOME", "USER", "LOGNAME", "TMPDIR"}
    assert environment["TMPDIR"] == environment["HOME"] == folder
    assert "hunter2" in run(argv=told)["stdout"]
