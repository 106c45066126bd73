"""A policy goes on two hosts, one after the other; its driver is killed in between, and in the end it is undone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.api.service import load_rollout
from damoos.machines.guest import GuestSession
from damoos.testing.hosts import guest_hosts
from tests.conftest import DAMOOS, HOT_COLD_RATE, damoos, hot_cold, proven_study, shell, until

GROUP = "/sys/fs/cgroup/servers/redis"
IN_FORCE = "cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"
# The monitoring of so small a program takes some of the one emulated CPU; what it costs is not this test's question.
WORDS = ["--on", "cgroup:/servers/redis", "--steps", "1,2", "--window", "1s", "--bake", "60s", "--tolerance", "100%"]


@pytest.fixture
def study(tmp_path: Path) -> str:
    """Its policy is what goes on the hosts; monitored seldom, which costs less."""
    scheme = "attrs  sample=20ms aggr=200ms\n4K max  min min  MIN_AGE max  pageout"
    return proven_study(tmp_path / "results", scheme=scheme, tune=["min_age=1s:2s"])


@pytest.fixture
def hosts(guest_image: None, tmp_path: Path) -> Iterator[dict[str, GuestSession]]:
    """Two guests with the same server, reached as any host is."""
    with guest_hosts(["web1", "web2"], tmp_path) as opened:
        for guest in opened.values():
            argv = " ".join(hot_cold(guest, repeats=1000, rate=HOT_COLD_RATE // 4))  # as seldom as it is looked at
            made = f"mkdir -p {GROUP}; echo +memory > /sys/fs/cgroup/servers/cgroup.subtree_control"
            shell(guest, f"echo +memory > /sys/fs/cgroup/cgroup.subtree_control; {made}")
            shell(guest, f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec {argv}' > /dev/null 2>&1 &")
        yield opened


def test_a_rollout_survives_its_driver_and_is_undone(
    study: str, hosts: dict[str, GuestSession], tmp_path: Path
) -> None:
    results = tmp_path / "results"

    def told() -> dict:
        done = damoos("status", "rollout-1", "--results", results, "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    argv = [DAMOOS, "rollout", study, "--machines", ",".join(hosts), *WORDS, "--results", results]
    driver = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert driver.stderr
    try:
        said = []
        for line in driver.stderr:
            said.append(line)
            if "the policy goes on" in line:
                break
        assert ["the policy goes on" in line for line in said] == [False, True], said
        (first,) = told()["machines"]
        assert said[1] == f"damoos: step 1: the policy goes on {first}\n"
        (second,) = set(hosts) - {first}
    finally:
        driver.kill()
        driver.wait()
    until(lambda: shell(hosts[first], IN_FORCE) == "1")
    assert shell(hosts[second], IN_FORCE) == "0"
    assert not told()["driven"]

    found = load_rollout("rollout-1", results=results)
    assert set(hosts) < set(found.plot().table["series"])

    resumed = subprocess.Popen(
        [DAMOOS, "resume", "rollout-1", "--results", results, "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: told()["driven"])
        stopped = damoos("stop", "rollout-1", "--results", results, timeout=600)
        assert stopped.returncode == 0, stopped.stderr
        assert "undone: somebody has asked for it" in stopped.stdout
        end = json.loads(resumed.communicate(timeout=600)[0])
        assert (end["state"], end["machines"]) == ("undone", [])
    finally:
        resumed.kill()
        resumed.wait()
    assert {shell(guest, IN_FORCE) for guest in hosts.values()} == {"0"}
    assert damoos("status", "--results", results).stdout.startswith("rollout-1: ")
