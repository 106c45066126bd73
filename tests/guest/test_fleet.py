"""A sweep on a Ray cluster of three nodes on this computer, each with a guest of its own, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DAMOOS, short_workload

MACHINES = "i3,m5d,z1d"


@pytest.fixture
def cluster(guest_image: None, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a cluster whose state lies in a folder of the test's; the real cache stays in use."""
    cache = tmp_path / "cache"
    cache.mkdir()
    real = Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos")
    for one in real.iterdir():
        if not one.name.startswith("ray-"):
            (cache / one.name).symlink_to(one)
    env = {**os.environ, "DAMOOS_CACHE": str(cache)}
    subprocess.run([DAMOOS, "cluster", "up", "--local", MACHINES], env=env, check=True, capture_output=True)
    yield env
    subprocess.run([DAMOOS, "cluster", "down"], env=env, check=True, capture_output=True)


def test_a_sweep_on_three_machines_and_a_guest_that_is_killed(cluster: dict[str, str], tmp_path: Path) -> None:
    """Of one workload; several of them are in tests/integration/test_fleet.py, on machines that are not there."""
    workload = short_workload(tmp_path, "1s")
    results = tmp_path / "results"
    words = ["--trials", "2", "--repeats", "2", "--candidates", "1", "--results", results, "--format", "jsonl"]
    # Each study has to end with a scheme, and a slowdown of 0.3 s is more than a tenth of such a short workload's time.
    words += ["--score", "sla", "--minimize", "rss_avg_bytes", "--limit", "slowdown<=0.5"]
    argv = [DAMOOS, "sweep", "--workloads", workload, "--machines", MACHINES, *words, "--ray", "auto"]
    sweep = subprocess.Popen(argv, env=cluster, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert sweep.stdout
    events = []
    killed = None
    for line in sweep.stdout:
        events.append(json.loads(line))
        if killed is None and sum(one["event"] == "run" for one in events) == 10:
            killed = a_guest_of(cluster)
            os.kill(killed, signal.SIGKILL)
    assert sweep.wait() == 0, sweep.stderr.read() if sweep.stderr else ""
    found = events[-1]
    assert found["event"] == "end"
    assert found["failures"] == []
    rows = {row["machine"]: row for row in found["studies"]}
    assert set(rows) == set(MACHINES.split(","))
    assert all(row["state"] == "done" for row in rows.values())
    assert killed is not None
    assert len([one for one in events if one["event"] == "retry"]) == 1
    runs = [(one["study"], one["run"]) for one in events if one["event"] == "run"]
    assert len(runs) == len(set(runs)) == sum(row["runs"] for row in rows.values())
    assert {one["fit"] for one in found["machines"].values()} == {True}
    for row in rows.values():
        result = json.loads((results / row["study"] / "result.json").read_text())
        assert result["machine"]["name"] == row["machine"]
        assert result["machine"]["accel"] in ("kvm", "tcg")


def a_guest_of(cluster: dict[str, str]) -> int:
    """One of the QEMUs of a cluster's workers."""
    keeper = json.loads((Path(cluster["DAMOOS_CACHE"]) / f"ray-{os.geteuid()}/cluster.json").read_text())["pid"]
    found = [pid for pid in below(keeper) if b"qemu" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]
    assert found, "no guest below the cluster"
    return found[0]


def below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *below(int(child))]
    return found
