"""The same agent on this machine, as a child process; no scheme, so nothing of the host's is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from damoos.dispatch.run import run_once
from damoos.doctor.noise import Noise
from damoos.errors import MachineLost, MeasurementError, UnsupportedError, WorkloadError
from damoos.machines.catalog import machine
from damoos.model.metrics import EVERYWHERE, METRICS
from damoos.model.trial import Measurement
from damoos.policies.base import NonePolicy
from damoos.scorers import scorer
from damoos.workloads.base import LiveWorkload, Load, Program, ProgramWorkload, Tuning
from damoos.workloads.catalog import reading
from damoos.workloads.metrics import Metric
from tests.conftest import the_only_agent

PLACE = machine("local")


@pytest.fixture
def session():
    with the_only_agent():
        opened = PLACE.open()
        yield opened
        opened.close()


def program(*argv: str) -> ProgramWorkload:
    return ProgramWorkload("program", Program(argv), Tuning())


def test_a_run_is_measured(session) -> None:
    measurement, samples = run_once(session, PLACE, program("sleep", "0.7"), NonePolicy(), 10)
    assert measurement.metric("runtime_s") >= 0.7
    assert measurement.metric("rss_avg_bytes") > 100_000
    assert measurement.damos == ()
    assert len(samples.rows) >= 2
    assert measurement.provenance["kernel"] == os.uname().release


def test_failures_are_told(session) -> None:
    with pytest.raises(WorkloadError, match="exit status 3: why"):
        run_once(session, PLACE, program("sh", "-c", "echo why >&2; exit 3"), NonePolicy(), 10)
    with pytest.raises(WorkloadError, match="past its limit"):
        run_once(session, PLACE, program("sleep", "60"), NonePolicy(), 0.5)
    with pytest.raises(UnsupportedError, match="no THP mode 'sometimes'"):
        session.agent.call("prepare", thp="sometimes")


def test_a_hopeless_run_is_stopped_and_not_given_a_runtime(session) -> None:
    loop = program("sh", "-c", "while :; do :; done")
    measurement, samples = run_once(session, PLACE, loop, NonePolicy(), 30, abort_s=1.0)
    assert measurement.censored
    assert measurement.metric("elapsed_s") >= 1.0
    assert 0 < measurement.metric("elapsed_user_s") <= measurement.metric("elapsed_s") * 1.2
    with pytest.raises(MeasurementError):
        measurement.metric("runtime_s")
    assert Measurement.from_json(measurement.to_json()) == measurement
    assert len(samples.rows) >= 2
    whole, _ = run_once(session, PLACE, program("sleep", "0.3"), NonePolicy(), 30, abort_s=5.0)
    assert not whole.censored


def test_what_a_machine_says_it_measures_is_measured(session) -> None:
    measurement, _ = run_once(session, PLACE, program("sleep", "0.3"), NonePolicy(), 10)
    assert {*EVERYWHERE, *session.facts["metrics"]} == set(measurement.metrics) <= set(METRICS)
    for name in measurement.metrics:
        sla = scorer("sla", {"minimize": name, "limits": [f"{name}>=0"]})
        assert sla.score(measurement, measurement, []).value == measurement.metrics[name]


def test_nothing_is_left_running(session, tmp_path: Path) -> None:
    run_once(session, PLACE, program("sh", "-c", "sleep 27.1828 & exit 0"), NonePolicy(), 10)
    time.sleep(0.2)
    left = subprocess.run(["pgrep", "-f", "sleep 27.1828"], capture_output=True, check=False)
    assert left.returncode == 1


def server(load: list[str], setup: tuple = (), ready: tuple = (), warm_up: tuple = ()) -> ProgramWorkload:
    """A server of 20 MB that waits, and what asks it."""
    holds = "memory = b'x' * (20 << 20); open('ready', 'w').close(); import time; time.sleep(60)"
    return ProgramWorkload(
        "server",
        Program((sys.executable, "-c", holds), setup=setup, load=Load(tuple(load), ready, warm_up, "none")),
        Tuning(),
    )


def test_a_server_is_measured_while_its_load_runs(session) -> None:
    """The load's memory and the warm-up are no part of it; the load's end is the end."""
    hungry = "memory = b'x' * (200 << 20); import time; time.sleep(1)"
    one = server([sys.executable, "-c", hungry], ready=("test", "-e", "ready"), warm_up=(("sleep", "0.5"),))
    begun = time.monotonic()
    measurement, _ = run_once(session, PLACE, one, NonePolicy(), 30)
    assert 1.0 <= measurement.metric("runtime_s") < time.monotonic() - begun - 0.4
    assert 20 << 20 <= measurement.metric("rss_avg_bytes") < 100 << 20


@pytest.mark.parametrize(
    ("load", "parts", "message"),
    [
        (["sh", "-c", "echo lost >&2; exit 7"], {}, "server: the load ended with exit status 7: lost"),
        (["sleep", "9"], {"warm_up": (("sh", "-c", "echo cold; exit 2"),)}, r"warm-up: .* ended with 2: cold"),
        (["sleep", "9"], {"setup": (("sh", "-c", "echo full >&2; exit 1"),)}, r"set-up: .* ended with 1: full"),
        (["no-such-load"], {}, "cannot start 'no-such-load'"),
    ],
)
def test_what_fails_around_a_server_is_told(session, load: list[str], parts: dict, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run_once(session, PLACE, server(load, **parts), NonePolicy(), 30)


def test_a_server_that_ends_under_its_load_is_told(session) -> None:
    short = ProgramWorkload("server", Program(("sh", "-c", "echo bye; exit 0"), load=Load(("sleep", "9"))), Tuning())
    with pytest.raises(WorkloadError, match="the server ended before its load began: bye"):
        run_once(session, PLACE, short, NonePolicy(), 30)


def test_each_run_finds_what_its_setup_made_once(session, tmp_path: Path) -> None:
    """What one run changes, the next one does not see; the machine has nothing of it in the end."""
    counter = tmp_path / "times"
    setup = (("sh", "-c", f"echo once >> {counter}; echo fresh > state"),)
    looks = ("sh", "-c", "cat; cat state; echo used > state; pwd >&2")
    one = ProgramWorkload("looks", Program(looks, setup=setup, stdin="state"), Tuning())
    spec = {**one.spec(session.copy), "limit_s": 9, "sample_s": 0.5, "drop_caches": False, "context": None}
    runs = [session.agent.call("run", **spec) for _ in range(2)]
    assert [run["stdout"].split() for run in runs] == [["fresh", "fresh"]] * 2
    assert counter.read_text() == "once\n"
    folders = [Path(run["stderr"].strip()) for run in runs]
    assert folders[0] != folders[1]
    session.close()
    assert not any(folder.exists() for folder in folders)


def test_files_that_a_run_leaves_are_read(session) -> None:
    metric = Metric(better="lower", values="latency.*", column=1, percentile=50, scale=0.001)
    leaves = Program(("sh", "-c", "printf '1 1000\\n2 3000\\n3 9000\\n' > latency.7"), metrics={"p50_ms": metric})
    measurement, _ = run_once(session, PLACE, ProgramWorkload("leaves", leaves, Tuning()), NonePolicy(), 10)
    assert measurement.metric("p50_ms") == 3


def test_a_program_is_pinned(session) -> None:
    spec = {"env": {}, "limit_s": 9, "sample_s": 0.5, "drop_caches": False, "context": None}
    raw = session.agent.call("run", argv=["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], cpus=[0], **spec)
    assert raw["stdout"].split()[-1] == "0"
    with pytest.raises(WorkloadError, match="are there CPUs"):
        session.agent.call("run", argv=["true"], cpus=[4095], **spec)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    program = "import time; m = b'x' * (20 << 20); print(flush=True); time.sleep(600)"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert running.stdout
    running.stdout.readline()  # it has its memory
    yield running
    running.kill()
    running.wait()


def test_a_running_process_is_measured_by_what_its_owner_says(session, process, tmp_path: Path) -> None:
    """Windows without a scheme, so nothing of this host's DAMON is touched."""
    (tmp_path / "number").write_text("about 7.5 a second\n")
    sources = (
        "in_file=file:" + str(tmp_path / "number"),
        "printed=cmd:echo 3",
    )
    one = LiveWorkload(process.pid, [reading(text) for text in sources], 0.2, Tuning(unit_work_s=1.0))
    measurement, samples = run_once(session, PLACE, one, NonePolicy(), 10)
    assert measurement.metric("in_file") == 7.5
    assert measurement.metric("printed") == 3
    assert measurement.metric("runtime_s") >= 1.0
    assert measurement.metric("rss_avg_bytes") > 20 << 20
    assert len(samples.rows) >= 2
    assert process.poll() is None


def test_a_number_is_fetched_over_http(session, process) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"qps": [{"now": 42}]}')

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/stats"
        tuning = Tuning(unit_work_s=0.6)
        there = LiveWorkload(process.pid, [reading(f"qps={url}#qps.0.now")], 0.0, tuning)
        assert run_once(session, PLACE, there, NonePolicy(), 10)[0].metric("qps") == 42
        absent = LiveWorkload(process.pid, [reading(f"qps={url}#qps.1.now")], 0.0, tuning)
        with pytest.raises(MeasurementError, match=r"no number at 'qps\.1\.now'"):
            run_once(session, PLACE, absent, NonePolicy(), 10)
        http.shutdown()


def test_a_process_or_a_metric_that_is_not_there_is_told(session, process) -> None:
    def live(pid: int, *texts: str) -> LiveWorkload:
        return LiveWorkload(pid, [reading(text) for text in texts], 0.0, Tuning(unit_work_s=0.5))

    with pytest.raises(WorkloadError, match="process 4194000 is not running"):
        run_once(session, PLACE, live(4194000), NonePolicy(), 10)
    for source, message in (
        ("qps=cmd:echo none", "^metric 'qps': 'echo none': no number in it: 'none'"),
        (f"qps=cmd:echo {'a' * 60} #/(a+)+b/", r"^metric 'qps': 'echo a{60}': '\(a\+\)\+b' takes more than 2 s"),
        ("qps=cmd:sh -c 'exit 3'", "ended with 3"),
        ("qps=file:/no/such", "No such file"),
    ):
        with pytest.raises(MeasurementError, match=message):
            run_once(session, PLACE, live(process.pid, source), NonePolicy(), 10)


def test_the_same_work_is_repeated_and_timed(session) -> None:
    measured = session.agent.call("steadiness", for_s=1.5, cpus=[0])
    assert len(measured["a_s"]) == len(measured["b_s"]) >= 3
    assert 0 < sum(measured["a_s"] + measured["b_s"]) <= measured["elapsed_s"]
    assert measured["elapsed_s"] >= 1.5
    assert measured["steal_s"] >= 0
    noise = Noise.of(measured)
    assert noise.low <= noise.high
    assert 0 < noise.spread < 1
    with pytest.raises(UnsupportedError, match=r"CPUs \[4095\] do not exist here"):
        session.agent.call("steadiness", for_s=1.0, cpus=[4095])


def test_others_are_seen_beside_the_work(session) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        measured = session.agent.call("steadiness", for_s=2.0, cpus=[])
    finally:
        busy.kill()
        busy.wait()
    assert measured["others_cpu_s"] > 0.3 * measured["elapsed_s"]


def test_the_repeated_work_ends_when_it_is_cancelled(session) -> None:
    threading.Timer(0.7, session.agent.cancel).start()
    with pytest.raises(MachineLost, match="is gone"):
        session.agent.call("steadiness", for_s=60.0, cpus=[])
    assert session.agent.call("state")["boot_s"] > 0


def test_the_state_of_this_machine(session) -> None:
    clocks = (time.time, lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    before = [clock() for clock in clocks]
    state = session.agent.call("state")
    after = [clock() for clock in clocks]
    assert state["uid"] == os.geteuid()
    assert before[0] <= state["wall_s"] <= after[0]
    assert before[1] <= state["boot_s"] <= after[1]
    assert 0 < state["mem_available_bytes"] <= session.facts["mem_bytes"]
