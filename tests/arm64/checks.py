"""A guest of arm64, which this host emulates unless it is arm64 itself: `make test-arm64` runs this."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.machines.base import Session
from damoos.machines.catalog import machine
from damoos.testing.contracts import KernelInterfaceContract, MachineContract
from tests.conftest import damoos, short_workload

MACHINE = "guest-arm64"


class TestMachine(MachineContract):
    """The machine's contract."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls):
        return machine(MACHINE)


class TestKernelInterface(KernelInterfaceContract):
    """The contract of the kernel's interface."""

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls) -> Iterator[Session]:
        chosen = machine(MACHINE)
        opened = chosen.open()
        opened.agent.call("prepare", **chosen.conditions.wanted())
        yield opened
        opened.close()


def test_the_doctor_finds_it_fit() -> None:
    done = damoos("doctor", MACHINE, "--format", "json")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "aarch64" in findings["kernel"]["found"]
    unfit = [name for name, finding in findings.items() if finding["state"] == "unfit"]
    assert unfit in ([], ["neighbours"])  # the host may be busy
    assert findings["accessed bits"]["state"] == "ok"


def test_a_workload_is_recorded_and_tuned(tmp_path: Path) -> None:
    results = ("--machine", MACHINE, "--results", tmp_path / "results")
    done = damoos("record", "--workload", short_workload(tmp_path, "1s"), *results)
    assert done.returncode == 0, done.stderr
    words = ("--trials", "3", "--repeats", "2", "--candidates", "1", "--prior", "none", "--format", "json")
    done = damoos("tune", "--workload", short_workload(tmp_path, "1s"), *results, *words)
    assert done.returncode in (0, 4), done.stderr  # whether one of three points keeps the limit is not the point
    result = json.loads(done.stdout)
    assert result["machine"]["kernel"].endswith("-cloud-arm64")
    baseline = result["baselines"][0]["metrics"]["rss_avg_bytes"]
    assert min(trial["metrics"]["rss_avg_bytes"] for trial in result["trials"] if trial["metrics"]) < 0.8 * baseline
