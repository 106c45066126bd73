"""Rollouts on four guests with redis under a steady open-loop load: `make test-rollout`. Half an hour on two cores."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from invoke.exceptions import UnexpectedExit
from paramiko import SSHException

from damoos.machines.guest import GuestSession
from damoos.machines.guest.qemu import QemuProcess
from damoos.testing.hosts import guest_hosts
from damoos.workloads.tools import tool
from tests.conftest import DAMOOS, damoos, proven_study, shell, until

# Each command below has a time limit of its own.
pytestmark = pytest.mark.timeout(0)

GROUP = "/sys/fs/cgroup/servers/redis"
KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"
ACTION = f"cat {KDAMONDS}/0/contexts/0/schemes/0/action 2>/dev/null || true"
BOOT = "cat /proc/sys/kernel/random/boot_id"
HOSTS = tuple(f"web{nth}" for nth in range(1, 5))
# 40 MiB of values, nine tenths of which are never asked for.
INPUT = "-r 40000 -h 4000"
REQUESTS_PER_S = 200
ON = ["--on", "cgroup:/servers/redis", "--steps", "1,50%,100%", "--window", "2s", "--bake", "2m"]
# What reclaim costs one emulated CPU is not in question: half a percent of the time is far more than a good one does.
LIMITS = ["--guard", "memory_pressure<=1%", "--tolerance", "50%"]
GOOD, BROKEN = "4K max  min min  MIN_AGE max  pageout", "4K max  min max  MIN_AGE max  pageout"


def serve(guest: GuestSession) -> None:
    """Start redis in a group of its own, with all of its values, and its load."""
    shell(guest, f"mkdir -p {GROUP} && echo +memory > /sys/fs/cgroup/cgroup.subtree_control")
    shell(guest, "echo +memory > /sys/fs/cgroup/servers/cgroup.subtree_control")
    server = "redis-server --port 0 --unixsocket /run/redis.sock --save '' --appendonly no"
    shell(guest, f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec {server}' > /dev/null 2>&1 &")
    shell(guest, "until redis-cli -s /run/redis.sock ping; do sleep 0.2; done > /dev/null 2>&1")
    shell(guest, f"/srv/kvload -P redis -s /run/redis.sock -f {INPUT}")
    ask = f"/srv/kvload -P redis -s /run/redis.sock -R {REQUESTS_PER_S} {INPUT} -n 1000000000"
    shell(guest, f"setsid {ask} > /dev/null 2>&1 < /dev/null &")


def reboot(guest: GuestSession) -> None:
    """Boot a guest again, and start what a service manager would start."""
    former = shell(guest, BOOT)
    shell(guest, "sync; setsid sh -c 'sleep 0.5; busybox reboot -f' > /dev/null 2>&1 < /dev/null &")

    def has_booted() -> bool:
        guest.connection.close()
        try:
            return shell(guest, BOOT) != former
        except (OSError, EOFError, SSHException, UnexpectedExit):
            return False

    until(has_booted)
    serve(guest)


@pytest.fixture(scope="module")
def hosts(guest_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, GuestSession]]:
    """Four guests by their machine files, reached as any host is; each has a redis in a group of its own."""
    start = QemuProcess._started
    patch = pytest.MonkeyPatch()
    patch.setattr(
        QemuProcess, "_started", lambda self, argv: start(self, [word for word in argv if word != "-no-reboot"])
    )
    folder, packages = tmp_path_factory.mktemp("hosts"), ("redis-server", "redis-tools")
    try:
        with guest_hosts(HOSTS, folder, packages, "damoos") as opened:
            for guest in opened.values():
                load = guest.copy(tool("kvload", guest.facts.get("arch", "")))
                shell(guest, f"mkdir -p /srv && cp {load} /srv/kvload")
                serve(guest)
            yield opened
    finally:
        patch.undo()


@pytest.fixture
def rollout(tmp_path: Path, hosts: dict[str, GuestSession]) -> Iterator[Callable[..., list[str]]]:
    """The words that begin a rollout of a scheme; what it leaves is undone."""
    results = tmp_path / "results"

    def words(scheme: str, min_age: str) -> list[str]:
        study = proven_study(results, scheme=scheme, tune=[f"min_age={min_age}"])
        return ["rollout", study, "--machines", ",".join(hosts), *ON, *LIMITS, "--results", str(results)]

    yield words
    damoos("stop", "rollout-1", "--results", results, timeout=900)
    assert {shell(guest, f"cat {KDAMONDS}/nr_kdamonds") for guest in hosts.values()} == {"0"}


def told(words: list[str]) -> dict[str, Any]:
    done = damoos("status", "rollout-1", "--results", words[-1], "--format", "json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def audit(words: list[str]) -> str:
    file = Path(words[-1]) / "rollout-1/audit.log"
    return file.read_text() if file.exists() else ""


def test_a_good_scheme_is_proven_step_by_step(
    hosts: dict[str, GuestSession], rollout: Callable[..., list[str]]
) -> None:
    words = rollout(GOOD, "2s:3s")
    done = damoos(*words, timeout=3000)
    print(audit(words))
    assert done.returncode == 0, done.stderr
    end = told(words)
    assert (end["state"], len(end["machines"]), len(end["findings"])) == ("done", 4, 3)
    assert {one["standing"] for of_step in end["findings"] for one in of_step} == {"shown"}
    assert {shell(guest, ACTION) for guest in hosts.values()} == {"pageout"}


def test_a_broken_one_is_withdrawn_before_the_second_step(
    hosts: dict[str, GuestSession], rollout: Callable[..., list[str]]
) -> None:
    """It pages out all memory all the time, also what redis needs for each request."""
    words = rollout(BROKEN, "0s:1ms")
    done = damoos(*words, timeout=3000)
    print(audit(words))
    assert done.returncode == 4, done.stderr
    end = told(words)
    assert (end["state"], end["machines"], end["step"]) == ("undone", [], 0)
    assert "memory_pressure" in end["why"]
    assert {shell(guest, f"cat {KDAMONDS}/nr_kdamonds") for guest in hosts.values()} == {"0"}


def test_a_driver_that_is_killed_anywhere_leaves_each_host_in_one_state(
    hosts: dict[str, GuestSession], rollout: Callable[..., list[str]]
) -> None:
    words = rollout(GOOD, "2s:3s")
    chance = random.Random(0)
    command = [str(DAMOOS), *words]
    for _ in range(6):
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(3, 60))
        driver.kill()
        driver.wait()
        with_policy = set(told(words)["machines"]) if audit(words) else set()
        until(lambda wanted=with_policy: all(_is_as_wanted(hosts[name], name in wanted) for name in hosts))
        if audit(words):
            command = [str(DAMOOS), "resume", "rollout-1", "--results", words[-1]]
    resumed = damoos("resume", "rollout-1", "--results", words[-1], timeout=3000)
    print(audit(words))
    assert resumed.returncode == 0, resumed.stderr
    assert len(told(words)["machines"]) == 4


def _is_as_wanted(guest: GuestSession, has_policy: bool) -> bool:
    """Whole: the scheme is in force as it is, or there is no kdamond."""
    return shell(guest, f"cat {KDAMONDS}/nr_kdamonds; {ACTION}").split() == (["1", "pageout"] if has_policy else ["0"])


@contextmanager
def first_has_it(words: list[str], hosts: dict[str, GuestSession]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """While a driver is at work whose first host has the policy: the driver, and that host."""
    driver = subprocess.Popen([str(DAMOOS), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: "the policy goes on" in audit(words), lambda: audit(words))
        (first,) = told(words)["machines"]
        until(lambda: shell(hosts[first], ACTION) == "pageout")
        yield driver, first
    finally:
        driver.kill()
        driver.wait()


def test_a_host_that_is_rebooted_in_the_middle_gets_back_what_it_had(
    hosts: dict[str, GuestSession], rollout: Callable[..., list[str]]
) -> None:
    words = rollout(GOOD, "2s:3s")
    with first_has_it(words, hosts) as (driver, first):
        reboot(hosts[first])
        until(lambda: shell(hosts[first], ACTION) == "pageout", lambda: audit(words))
        driver.wait(3000)
    print(audit(words))
    assert driver.returncode == 0
    assert len(told(words)["machines"]) == 4
    assert {shell(guest, ACTION) for guest in hosts.values()} == {"pageout"}


@pytest.fixture
def cluster(hosts: dict[str, GuestSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The words that start a cluster with a node for each host; none is left in the end."""
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    yield ["cluster", "up", "--local", ",".join(hosts)]
    damoos("cluster", "down")


def test_a_cluster_s_nodes_keep_their_hosts_while_it_is_away(
    hosts: dict[str, GuestSession], cluster: list[str], rollout: Callable[..., list[str]]
) -> None:
    words = rollout(GOOD, "2s:3s")
    assert damoos(*cluster).returncode == 0
    with first_has_it([words[0], "--ray", "auto", *words[1:]], hosts) as (_, first):
        pass
    assert damoos("cluster", "down").returncode == 0
    assert shell(hosts[first], ACTION) == "pageout"
    assert damoos(*cluster).returncode == 0
    resumed = damoos("resume", "rollout-1", "--results", words[-1], timeout=3000)
    print(audit(words))
    assert resumed.returncode == 0, resumed.stderr
    assert len(told(words)["machines"]) == 4
    assert {shell(guest, ACTION) for guest in hosts.values()} == {"pageout"}


def test_an_admin_s_change_makes_it_stand_down(
    hosts: dict[str, GuestSession], rollout: Callable[..., list[str]]
) -> None:
    words = rollout(GOOD, "2s:3s")
    with first_has_it(words, hosts) as (driver, first):
        commit = f"echo stat > {KDAMONDS}/0/contexts/0/schemes/0/action && echo commit > {KDAMONDS}/0/state"
        shell(hosts[first], commit)
        until(lambda: driver.poll() is not None, lambda: audit(words))
    print(audit(words))
    assert driver.returncode == 1
    end = told(words)
    assert (end["state"], list(end["left"])) == ("held", [first])
    assert "somebody else has changed it" in end["why"]
    assert shell(hosts[first], ACTION) == "stat"  # theirs stays, and is theirs to take off
    shell(hosts[first], f"echo off > {KDAMONDS}/0/state; echo 0 > {KDAMONDS}/nr_kdamonds")
