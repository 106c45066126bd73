"""The commands on a real kernel, through what goes wrong at night: kills, crashes, interruptions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from damoos.api import service as api
from damoos.machines.catalog import KERNEL
from damoos.machines.guest import GuestSession, kernels
from damoos.service.listing import listed
from damoos.testing.hosts import host_file
from tests.conftest import DAMOOS, damoos, nr_agents, proven_study, shell, short_workload, until

KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"
HOST_KDAMONDS = Path("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A workload file of a user's own."""
    return short_workload(tmp_path, manual_min_age="10s")


def qemus_of(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid), "qemu"], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def start_tune(short: Path, results: Path) -> subprocess.Popen[str]:
    argv = [
        DAMOOS,
        "tune",
        "--workload",
        short,
        "--trials",
        "4",
        "--repeats",
        "2",
        "--candidates",
        "1",
        # So short a run cannot keep the paper's 10 %: a limit that it keeps.
        "--score",
        "sla",
        "--limit",
        "slowdown<=1",
        "--results",
        results,
        "--format",
        "json",
    ]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"'{text}' was never said; exit {process.wait()}")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_tune_survives_everything_and_its_result_holds_together(short: Path, tmp_path: Path, guest_image: None) -> None:
    """One study: SIGKILL of damoos, SIGTERM, SIGKILL of QEMU; then its JSON, its files, apply and stop."""
    host_kdamonds = HOST_KDAMONDS.read_text() if HOST_KDAMONDS.exists() else None
    results = tmp_path / "results"

    killed = start_tune(short, results)
    wait_for_line(killed, "trial-000")
    (qemu,) = qemus_of(killed.pid)
    killed.kill()
    killed.wait()
    assert gone(qemu), "QEMU outlived a damoos that was killed"

    interrupted = start_tune(short, results)
    assert "done already" in wait_for_line(interrupted, "runs, ")
    wait_for_line(interrupted, "trial-001")
    (qemu,) = qemus_of(interrupted.pid)
    interrupted.send_signal(signal.SIGTERM)
    _, stderr = interrupted.communicate(timeout=300)
    assert interrupted.returncode == 130, stderr
    assert "resume" in stderr
    assert gone(qemu)

    (study,) = json.loads(damoos("studies", "--results", results, "--format", "json").stdout)
    assert study["state"] == "unfinished"
    assert study["trials"] >= 2

    argv = [DAMOOS, "resume", study["study"], "--results", results, "--format", "json"]
    resumed = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_line(resumed, "runs, ")
    (qemu,) = qemus_of(resumed.pid)
    os.kill(qemu, signal.SIGKILL)
    wait_for_line(resumed, "lost")
    stdout, stderr = resumed.communicate(timeout=900)
    assert resumed.returncode == 0, stderr
    check_result(json.loads(stdout), results)
    short.write_text(short.read_text() + "repeats = 1000\n")  # in service it is to run until it is stopped
    check_apply_and_stop(json.loads(stdout), results)
    assert host_kdamonds == (HOST_KDAMONDS.read_text() if HOST_KDAMONDS.exists() else None)


def check_result(result: dict, results: Path) -> None:
    assert result["variant"] == "real"
    assert result["machine"]["kernel"] == kernels.kernel(os.environ[KERNEL]).release
    assert result["machine"]["accel"] in ("kvm", "tcg")
    assert [trial["number"] for trial in result["trials"]] == [0, 1, 2]  # the recording was the first of four
    assert len(result["baselines"]) == 3
    assert max(trial["damos"]["sz_applied_bytes"] for trial in result["trials"]) > 1 << 20
    for trial in result["trials"]:
        if trial["state"] == "censored":
            assert trial["metrics"]["elapsed_s"] > 1
            assert "runtime_s" not in trial["metrics"]
            continue
        assert trial["metrics"]["runtime_s"] > 1
        assert trial["metrics"]["rss_avg_bytes"] > 1 << 20
    arms = result["validation"]
    assert set(arms) == {"baseline", "manual", "tuned"}
    assert all(arm["repeats"] == 2 for arm in arms.values())
    if result["verdict"] in arms:
        best = arms[result["verdict"]]
        assert best["feasible"]
        assert all(best["score"] >= arm["score"] for arm in arms.values() if arm["feasible"])
    folder = results / result["study"]
    kept = {path.stem for path in folder.glob("*.parquet")}
    assert {"baseline-000", "record-000", "trial-002", "validation-001-candidate-1"} <= kept
    assert (folder / "winner.damos").exists() == (result["verdict"] in ("tuned", "manual"))
    damo = json.loads((folder / "recommended.json").read_text())
    assert damo["kdamonds"][0]["contexts"][0]["schemes"][0]["action"] == "pageout"


def check_apply_and_stop(result: dict, results: Path) -> None:
    study = result["study"]
    applied = damoos("apply", study, "--arm", "manual", "--results", results, "--format", "json", timeout=600)
    assert applied.returncode == 0, applied.stderr
    state = json.loads(applied.stdout)
    again = damoos("apply", study, "--arm", "manual", "--results", results)
    assert (again.returncode, "in service already" in again.stderr) == (2, True)
    (line,) = damoos("status", "--results", results).stdout.splitlines()
    assert f"(study {study})" in line
    (qemu,) = qemus_of(state["keeper_pid"])
    stopped = damoos("stop", "--results", results, timeout=900)
    assert stopped.returncode == 0, stopped.stderr
    assert gone(state["keeper_pid"])
    assert gone(qemu)
    assert damoos("stop", "--results", results).returncode == 2


def test_a_scheme_is_kept_on_running_processes_under_a_guard(guest: GuestSession, tmp_path: Path) -> None:
    """``damoos apply --on`` on an SSH host: the guest of another lease, reached as any host is."""
    results = tmp_path / "results"
    scheme = "attrs  sample=20ms aggr=200ms\n4K max  min min  MIN_AGE max  pageout"
    study = proven_study(results, scheme=scheme, tune=["min_age=1s:2s"])

    guest.agent.close()  # its place is needed by the agent of the SSH machine
    host = host_file(tmp_path, "there", guest)
    pid = shell(guest, "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    shell(guest, "echo 5 > /run/p99")
    words = ["--arm", "manual", "--machine", host, "--results", results]
    guard = ["--metric", "p99_ms=file:/run/p99", "--guard", "p99_ms<=20", "--window", "1s"]
    on = ["--on", f"pid:{pid}", "--name", "sleeper"]
    applied = damoos("apply", study, *on, *guard, *words, "--format", "json")
    assert applied.returncode == 0, applied.stderr
    assert in_force(guest)[:2] == ["on", pid]
    kdamond = in_force(guest)[2]
    shell(guest, KILL_AGENT)
    assert_again_in_force(guest, pid, kdamond, results)
    twice = damoos("apply", study, *on, *words)
    assert (twice.returncode, "'sleeper' is in service already" in twice.stderr) == (2, True)

    action = f"cat {KDAMONDS}/0/contexts/0/schemes/0/action"
    hurts = f'while sleep 0.2; do [ "$({action})" = pageout ] && echo 100 > /run/p99 || echo 5 > /run/p99; done'
    harm = shell(guest, f"setsid sh -c '{hurts}' >/dev/null 2>&1 & echo $!")  # whenever the policy acts
    wait_until(results, lambda state: state.get("paused"))
    assert shell(guest, action) == "stat"
    saved = (results / "service").glob("*/metrics.prom")
    assert "damoos_watched{" in next(saved).read_text()
    wait_until(results, lambda state: "failed" in state)
    shell(guest, f"kill {harm}")
    failed = json.loads(damoos("status", "sleeper", "--results", results, "--format", "json").stdout)
    # The number is the mean of a window, which may have begun before.
    why = r"its guard has taken it off: far-again: p99_ms is [\d.]+ in a window of 1 s, limit p99_ms<=20; .*"
    assert re.fullmatch(why, failed["failed"])
    assert shell(guest, f"cat {KDAMONDS}/nr_kdamonds; ls -d /proc/{pid} | wc -l").split() == ["0", "1"]
    assert "is no longer on" in damoos("stop", "--results", results).stdout
    (audit,) = (results / "service").glob("*/audit.log")
    told = [line.split(": ")[1] for line in audit.read_text().splitlines()]
    assert told[0] == "put into force"
    guarded = [what for what in told if what.startswith(("guard", "no longer"))]
    turns = re.findall(r"guard: (\w+: [\w-]+)", audit.read_text())
    assert turns == ["pause: far", "resume: calm"] * (len(turns) // 2)  # it acted again after each pause
    assert guarded == ["guard"] * len(turns) + ["no longer in force"]
    assert len(turns) >= 6

    absent = damoos("apply", study, "--on", "pid:999999", *words)
    assert absent.returncode == 3
    assert "there is no process 999999" in absent.stderr

    for signum in (signal.SIGKILL, signal.SIGTERM):
        api.apply(
            study, on=f"pid:{pid}", name="sleeper", arm="manual", machine=str(host), on_exit="keep", results=results
        )
        assert_stays_without_its_keeper(guest, pid, results, signum)


def assert_stays_without_its_keeper(guest: GuestSession, pid: str, results: Path, signum: int) -> None:
    """Also when its agent and that one's guardian have ended; whoever stops it takes it off all the same."""
    kdamond = in_force(guest)
    os.kill(listed(results)["sleeper"]["keeper_pid"], signum)
    until(lambda: not nr_agents(guest))
    assert in_force(guest) == kdamond
    told = damoos("status", "sleeper", "--results", results).stdout
    assert "no keeper runs, so it has no guard" in told
    stopped = damoos("stop", "sleeper", "--results", results)
    assert stopped.returncode == 0, stopped.stderr
    assert shell(guest, f"cat {KDAMONDS}/nr_kdamonds; ls -d /proc/{pid} | wc -l").split() == ["0", "1"]


def wait_until(results: Path, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The state of what is in service, once it is so."""

    def state() -> dict[str, Any] | None:
        now = listed(results)["sleeper"]
        return now if holds(now) else None

    found: dict[str, Any] = until(state, lambda: said(results))
    return found


def said(results: Path) -> str:
    """What the keeper wrote."""
    return "\n".join(file.read_text() for file in sorted((results / "service").glob("*/*.*")) if file.is_file())


# Its lock says who it is: [token, pid, ticks].
KILL_AGENT = "kill -KILL $(cut -d, -f2 /run/damoos/lock)"
IN_FORCE = f"cd {KDAMONDS}/0 && cat state contexts/0/targets/0/pid_target pid || true"


def in_force(guest: GuestSession) -> list[str]:
    """State, target and process id of the kdamond.

    A file of DAMON's answers EBUSY while another of them is used, as the keeper does all the time, and is asked again.
    """
    deadline = time.monotonic() + 300
    while len(words := shell(guest, IN_FORCE).split()) < 3 and time.monotonic() < deadline:
        time.sleep(0.4)
    return words


def assert_again_in_force(guest: GuestSession, pid: str, former_kdamond: str, results: Path) -> None:
    """The keeper puts the scheme back, under a kdamond of another process id."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        state = in_force(guest)
        if state[:2] == ["on", pid] and state[2] != former_kdamond:
            return
        time.sleep(0.5)
    raise AssertionError(f"{state}; it was kdamond {former_kdamond}; the keeper's state and log:\n{said(results)}")


def test_failing_workloads_end_a_study_in_one_line(tmp_path: Path, guest_image: None) -> None:
    for command, message in (
        ("false", "without any scheme: false ended with exit status 1"),
        ("no-such", "cannot start"),
    ):
        done = damoos("tune", "--command", command, "--results", tmp_path, timeout=600)
        assert done.returncode == 5
        assert message in done.stderr.splitlines()[-1]


def test_a_model_is_refused_when_the_real_thing_is_required(tmp_path: Path, guest_image: None) -> None:
    done = damoos("tune", "--workload", "parsec3/raytrace", "--require-real", "--results", tmp_path, timeout=600)
    assert done.returncode == 3
    assert "parsec3/raytrace is not installed on the machine" in done.stderr.splitlines()[-1]
