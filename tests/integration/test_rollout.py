"""A rollout over a real Ray cluster, on machines that are not there: what the keepers of its nodes outlive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.service.journal import Journal
from damoos.testing.fleet import plugin
from tests.conftest import DAMOOS, damoos, proven_study, until
from tests.integration.test_fleet import named, state

MACHINES = ("fake:a", "fake:b")
WORDS = ["--on", "cgroup:/servers/redis", "--steps", "1,2", "--window", "1s", "--bake", "60s", "--tolerance", "100%"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**plugin(tmp_path / "plugin"), "DAMOOS_CACHE": str(tmp_path / "cache")}


@pytest.fixture
def cluster(env: dict[str, str]) -> Iterator[None]:
    """Nodes that come and go; none is left."""
    yield
    damoos("cluster", "down", env=env)


def keepers(results: Path) -> list[int]:
    return [Journal.of(results, machine).keeper_pid for machine in MACHINES]


def test_keepers_outlive_their_worker_their_driver_and_ray(env: dict[str, str], cluster: None, tmp_path: Path) -> None:
    results = tmp_path / "results"
    study = proven_study(results, scheme="4K max  min min  MIN_AGE max  pageout", tune=["min_age=1s:2s"])
    begin = ["rollout", study, "--machines", ",".join(MACHINES), *WORDS, "--ray", "auto", "--results", results]
    up = ["cluster", "up", "--local", ",".join(MACHINES)]
    refused = damoos(*begin, env=env)
    assert refused.returncode == 2
    assert "'damoos cluster up --local i3' starts one here" in refused.stderr
    assert damoos(*up, env=env).returncode == 0
    refused = damoos(*begin, "--machines", "fake:a,fake:c", env=env)
    assert refused.returncode == 2
    assert refused.stderr.startswith("damoos: no node of the cluster offers machine 'fake:c'; did you mean 'fake:")

    driver = subprocess.Popen([DAMOOS, *map(str, begin)], env=env, stderr=subprocess.PIPE, text=True)
    assert driver.stderr
    try:
        assert "watched, beside" in driver.stderr.readline()
        until(lambda: all(Journal.of(results, machine).states() for machine in MACHINES))
        former = keepers(results)
        assert all(former)
        workers = named(state(env)["pid"], "_Actor")
        assert len(workers) == 2
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        said = [driver.stderr.readline(), driver.stderr.readline()]
        assert ["no node answers for" in said[0], "again" in said[1]] == [True, True], said
    finally:
        driver.kill()
        driver.wait()
    assert keepers(results) == former
    assert damoos("cluster", "down", env=env).returncode == 0
    assert keepers(results) == former

    refused = damoos("stop", "rollout-1", "--results", results, env=env)
    assert refused.returncode == 2, "nobody can be told while there is no cluster"
    assert damoos(*up, env=env).returncode == 0
    stopped = damoos("stop", "rollout-1", "--results", results, "--format", "json", env=env)
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout)["state"] == "undone"
    assert "damoos: the policy is off all machines\n" in stopped.stderr
    until(lambda: keepers(results) == [0, 0])
