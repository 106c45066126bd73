"""Sweeps on a real Ray cluster of machines that are not there; kills; the command line; stores that others open."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.testing.fleet import SETTINGS, plugin
from tests.conftest import DAMOOS
from tests.servers import free_port, postgresql

MACHINES = "fake:a,fake:b,fake:c"
SWEEP = ["sweep", "--workloads", "synthetic/hot-cold,synthetic/idle", "--machines", MACHINES, "--trials", "3"]
SHORT = [*SWEEP, "--repeats", "2", "--candidates", "1", "--format", "jsonl"]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The fleet, made known to the processes that the tests start, with a cache of their own."""
    place = tmp_path_factory.mktemp("fleet")
    return {**plugin(place, latency_s=0.1), "DAMOOS_CACHE": str(place / "cache")}


@pytest.fixture(scope="module")
def cluster(env: dict[str, str]) -> Iterator[str]:
    """A cluster of a node for each machine."""
    up = subprocess.run([DAMOOS, "cluster", "up", "--local", MACHINES], env=env, capture_output=True, text=True)
    assert up.returncode == 0, up.stderr
    keeper = state(env)["pid"]
    yield up.stdout
    subprocess.run([DAMOOS, "cluster", "down"], env=env, check=True, capture_output=True)
    assert not lives(keeper)


def lives(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty of one that nobody has waited for
    except OSError:
        return False


def state(env: dict[str, str]) -> dict:
    return json.loads((Path(env["DAMOOS_CACHE"]) / f"ray-{os.geteuid()}/cluster.json").read_text())


def sweep(env: dict[str, str], results: Path, *words: str) -> subprocess.Popen[str]:
    argv = [DAMOOS, *SHORT, "--results", results, *words]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> list[dict]:
    """Events of a sweep that has to end well."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def whole(results: Path) -> dict:
    """Everything of a finished sweep but times and hosts."""
    parts = ("trials", "recommended", "validation", "verdict", "baselines")
    found = {one.parent.name: json.loads(one.read_text()) for one in results.glob("sweep-1-*/result.json")}
    assert len(found) == 6
    return {name: {part: one[part] for part in parts} for name, one in found.items()}


@pytest.fixture(scope="module")
def unbroken(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The same sweep without Ray, and undisturbed."""
    results = tmp_path_factory.mktemp("unbroken")
    events = ended(sweep(env, results))
    assert events[-1]["event"] == "end"
    assert {one["event"] for one in events} == {"sweep", "machine", "study", "run", "end"}
    return whole(results)


def test_a_sweep_on_a_cluster_is_the_sweep_without_one(cluster, env, unbroken, tmp_path: Path) -> None:
    events = ended(sweep(env, tmp_path, "--ray", "auto"))
    assert whole(tmp_path) == unbroken
    runs = [(one["study"], one["run"]) for one in events if one["event"] == "run"]
    assert len(runs) == len(set(runs))
    assert events[-1]["failures"] == []


def test_ray_listens_on_loopback_only(cluster, env) -> None:
    keeper = state(env)["pid"]
    inodes = {inode for pid in family(keeper) for inode in sockets(pid)}
    listening = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
    ]
    ours = {row[1].split(":")[0] for row in listening if row[3] == "0A" and row[9] in inodes}
    assert ours <= {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}, ours
    assert ours


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [one for child in task.read_text().split() for one in family(int(child))]
    return found


def sockets(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def named(keeper: int, name: str) -> list[int]:
    """Processes of a cluster whose first word ends so."""
    found = []
    for pid in family(keeper):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].decode().endswith(name):
            found.append(pid)
    return found


def after(process: subprocess.Popen[str], runs: int) -> list[dict]:
    """Events until some runs have ended."""
    assert process.stdout
    seen: list[dict] = []
    while sum(one["event"] == "run" for one in seen) < runs:
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        seen.append(json.loads(line))
    return seen


def killed(keeper: int, name: str, skip: int = 0) -> None:
    """Kill a process of a cluster; a worker has its task's name only while it does one."""
    deadline = time.monotonic() + 300
    while not (victims := named(keeper, name)[skip:]):
        assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_bytes()[:60] for pid in family(keeper)]
    os.kill(victims[0], signal.SIGKILL)


def test_killed_workers_cost_a_retry_each(cluster, env, unbroken, tmp_path: Path) -> None:
    process = sweep(env, tmp_path, "--ray", "auto")
    seen: list[dict] = []
    for _ in range(3):  # one may just have answered when it is hit
        seen += after(process, 8)
        killed(state(env)["pid"], "ray::_work")
    events = seen + ended(process)
    assert 1 <= sum(one["event"] == "retry" for one in events) <= 3
    assert_undisturbed(events, tmp_path, unbroken)


def test_a_killed_raylet_costs_a_retry_at_most(cluster, env, unbroken, tmp_path: Path) -> None:
    process = sweep(env, tmp_path, "--ray", "auto")
    seen = after(process, 15)
    killed(state(env)["pid"], "raylet", skip=1)  # the first one is the head's, which has no machine
    assert_undisturbed(seen + ended(process), tmp_path, unbroken)


def assert_undisturbed(events: list[dict], results: Path, unbroken: dict) -> None:
    """Nothing was run twice, and it all comes to the same."""
    runs = [(one["study"], one["run"]) for one in events if one["event"] == "run"]
    assert len(runs) == len(set(runs))
    assert events[-1]["failures"] == []
    assert whole(results) == unbroken


def test_a_killed_driver_is_resumed(cluster, env, unbroken, tmp_path: Path) -> None:
    process = sweep(env, tmp_path, "--ray", "auto")
    after(process, 10)
    process.kill()
    process.communicate()
    words = ["--results", tmp_path]
    status = subprocess.run([DAMOOS, "status", *words], env=env, capture_output=True, text=True, check=True).stdout
    assert "of 6 studies done; nobody drives it" in status
    assert "continue it with: damoos resume sweep-1" in status
    resumed = subprocess.run(
        [DAMOOS, "resume", "sweep-1", "--ray", "auto", *words, "--format", "json"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(resumed.stdout)
    assert set(found) == {"sweep", "studies", "machines", "failures", "retries", "cost"}
    assert len(found["studies"]) == 6
    assert found["studies"][0]["validation"]
    assert whole(tmp_path) == unbroken


def test_status_of_a_sweep_under_way(env, tmp_path: Path) -> None:
    slow = {**env, SETTINGS: json.dumps({"latency_s": 5.0})}  # far from its end when the status is asked
    process = sweep(slow, tmp_path)
    after(process, 6)
    words = [DAMOOS, "status", "sweep-1", "--results", tmp_path, "--format", "json"]

    def status() -> dict:
        return json.loads(subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout)

    said = status()
    while sum(row["runs"] for row in said["studies"]) < 6:  # it is written every other second
        assert process.poll() is None
        said = status()
    assert said["driven"]
    assert {row["state"] for row in said["studies"]} <= {"running", "waiting", "done"}
    process.terminate()
    process.communicate(timeout=900)


def test_interrupting_leaves_a_sweep_that_goes_on(env, unbroken, tmp_path: Path) -> None:
    process = sweep(env, tmp_path)
    after(process, 10)
    process.send_signal(signal.SIGTERM)  # as Ctrl-C, which a background job may have been told to ignore
    _, err = process.communicate(timeout=900)
    assert process.returncode == 130
    assert "goes on" in err
    ended(sweep(env, tmp_path))
    assert whole(tmp_path) == unbroken


def test_the_sqlite_store_opens_in_optunas_dashboard(env, unbroken, tmp_path: Path) -> None:
    ended(sweep(env, tmp_path))
    port = free_port()
    program = Path(sys.executable).with_name("optuna-dashboard")
    words = [program, f"sqlite:///{tmp_path}/damoos.sqlite", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listed = get(server, f"http://127.0.0.1:{port}/api/studies")["study_summaries"]
        assert len(listed) == 6
        one = get(server, f"http://127.0.0.1:{port}/api/studies/{listed[0]['study_id']}?after=0")
        assert len(one["trials"]) == 3
    finally:
        server.kill()
        server.wait()


def get(server: subprocess.Popen[bytes], url: str) -> dict:
    """What a server answers, once it listens."""
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
        assert server.poll() is None
        time.sleep(0.2)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql() as url:
        yield url


def test_a_sweep_in_postgresql(env, unbroken, database: str, tmp_path: Path) -> None:
    process = sweep(env, tmp_path, "--storage", database)
    after(process, 20)
    process.kill()
    process.communicate()
    ended(sweep(env, tmp_path, "--storage", database))
    assert whole(tmp_path) == unbroken
    assert not (tmp_path / "damoos.sqlite").exists()
    import optuna

    names = optuna.get_all_study_names(storage=database)
    assert len(names) == 6
    study = optuna.load_study(study_name=names[0], storage=database)
    assert len(study.trials) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workloads", "splash/*"], "--workloads: nothing matches 'splash/*'; did you mean 'splash2x/"),
        (["--machines", "i4"], "unknown machine 'i4'; did you mean 'i3'"),
        (["--machines", "lab:7"], "unknown machine 'lab'"),
        (["--searcher", "randon"], "did you mean 'random'"),
        (["--trials", "1"], "--trials 1: give 2 or more"),
        (["--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1"),
    ],
)
def test_wrong_words_of_a_sweep(env, tmp_path: Path, words: list[str], message: str) -> None:
    argv = [DAMOOS, *SHORT, "--results", tmp_path, *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("sweep-1-*"))


def test_what_a_sweep_would_take(tmp_path: Path) -> None:
    argv = [DAMOOS, "sweep", "--workloads", "parsec3/*", "--machines", "i3.metal,z1d.metal", "--results", tmp_path]
    done = subprocess.run([*argv, "--dry-run"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("i3.metal     13 studies, 130 trials, 247 runs, about ")
    assert lines[0].endswith("USD")
    assert lines[2].startswith("all          494 runs")
    assert not list(tmp_path.iterdir())


def test_a_second_cluster_is_refused_and_none_cannot_be_ended(cluster, env, tmp_path: Path) -> None:
    second = subprocess.run([DAMOOS, "cluster", "up", "--local", "fake:a"], env=env, capture_output=True, text=True)
    assert (second.returncode, "runs here already" in second.stderr) == (2, True)
    none = {**env, "DAMOOS_CACHE": str(tmp_path)}
    down = subprocess.run([DAMOOS, "cluster", "down"], env=none, capture_output=True, text=True)
    assert (down.returncode, "no damoos cluster runs here" in down.stderr) == (2, True)


def test_rays_dashboard_is_asked_for_and_named_beside_the_studies(cluster, env, monkeypatch) -> None:
    from damoos.dashboard import beside

    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    (line,) = beside()
    assert line.startswith(f"Ray's cluster at {state(env)['address']} (")
    assert line.endswith(" has no dashboard: it was started without --dashboard")


def test_a_machine_that_no_node_offers_is_given_up(cluster, env) -> None:
    script = (
        "from damoos.dispatch import ray as on_ray\n"
        "from damoos.dispatch.base import Order, Slot, job\n"
        "from damoos.dispatch.ray_address import RayCluster\n"
        "on_ray.APPEAR_S = 1.0\n"
        "dispatcher = on_ray.RayDispatcher(RayCluster('auto'), print)\n"
        "assert dispatcher.capacity('fake:d') == 1\n"
        "dispatcher.submit(Order(Slot('fake:d'), 'nobody', object, job(print)))\n"
        "while not (outcome := dispatcher.wait(0.2)):\n"
        "    pass\n"
        "print(repr(outcome.error))\n"
        "dispatcher.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.strip().splitlines()
    assert first.startswith("no node of the cluster offers machine 'fake:d' yet (there are: fake:a, fake:b, fake:c)")
    assert last.startswith("UnsupportedError(\"no node offers machine 'fake:d'; did you mean 'fake:")


def test_the_table_on_a_terminal(env, tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (40, 160))
    words = [one for one in SHORT if one not in ("--format", "jsonl")]
    argv = [DAMOOS, *words, "--results", tmp_path]
    # Its size is the terminal's, whatever the words of pytest's own processes say.
    env = {name: word for name, word in env.items() if name not in ("COLUMNS", "LINES")} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(argv, env=env, stdin=side, stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError:  # nobody has the other side any more
            break
    os.close(terminal)
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0, shown[-2000:]
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "running" in text
    assert re.search(r"synthetic/hot-cold +fake:a +done +3/3", text)
    assert out.splitlines()[0] == "sweep sweep-1"
