"""Guests whose CPU is as fast as a real one, and whose idle time is skipped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from damoos.bench.monitor import ToldWorkload
from damoos.dispatch.lease import Lease
from damoos.errors import MachineLost
from damoos.machines import catalog as machines
from damoos.machines.clock import Clock
from damoos.machines.guest import GuestMachine, GuestSession, kernels
from damoos.policies.base import RecordPolicy
from damoos.recordings.journal import Journal
from damoos.workloads.base import Tuning
from tests.conftest import HOT_COLD, HOT_COLD_RATE, until

FAST = Clock(4000, "skip")
FILE = 'description = "fast"\n[guest]\nmemory = "512M"\naccel = "tcg"\nmips = 4000\nidle = "skip"\n'
SPEC = {"env": {}, "limit_s": 7200, "drop_caches": False, "context": None}


def fast(kernel: str, vcpus: int = 1, cmdline: str = "") -> GuestMachine:
    if kernel in kernels.OURS and kernel not in kernels.names():
        pytest.skip(f"kernel '{kernel}' is not built here")
    return GuestMachine("fast", "", vcpus, 512 << 20, accel="tcg", kernel=kernel, cmdline=cmdline, clock=FAST)


def stopped(session: GuestSession) -> bool:
    return Path(f"/proc/{session.qemu.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


@pytest.fixture(scope="module")
def lease(guest_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lease]:
    file = tmp_path_factory.mktemp("machine") / "fast.toml"
    file.write_text(FILE)
    with Lease(machines.machine(str(file))) as opened:
        yield opened


def test_a_second_has_as_many_instructions_as_its_file_says(lease: Lease) -> None:
    assert lease.facts["clock"] == "emulated CPU of 4,000 MIPS, idle time skipped"
    assert lease.call("instruction_rate") == pytest.approx(4e9, rel=0.01)


def test_reading_its_disk_takes_what_a_copy_takes(lease: Lease) -> None:
    argv = ["dd", "if=/dev/pmem0", "of=/dev/null", "iflag=direct", "bs=4k", "count=2000"]
    measured = lease.call("run", argv=argv, sample_s=1, **SPEC)
    assert "8192000 bytes" in measured["stderr"], measured
    assert measured["runtime_s"] < 0.05  # of which 2000 reads and writes take 6 ms


def test_an_hour_of_its_time_passes_in_one_call_and_has_a_few_hundred_samples(lease: Lease) -> None:
    measured = lease.call("run", argv=["sleep", "3600"], sample_s=0.5, **SPEC)
    assert 3600 <= measured["runtime_s"] < 3601
    at_s = [row[0] for row in measured["samples"]]
    assert 200 < len(at_s) < 400
    assert max(after - before for before, after in pairwise(at_s)) < 0.02 * 3600 + 1


def test_what_damon_records_is_streamed_while_its_time_races(lease: Lease) -> None:
    workload = ToldWorkload("hot-cold", HOT_COLD, HOT_COLD_RATE, 1, 0, Tuning(), paced=True)
    policy = RecordPolicy()
    journal = Journal(policy.operations, policy.attrs)
    measured, _ = lease.run(workload, policy, 200.0, sink=journal)
    recording = journal.recording({})
    begin_s, end_s = recording.span_s
    assert end_s - begin_s > 0.9 * measured.metrics["runtime_s"]
    assert measured.provenance["record"]["lost_events"] == 0


@pytest.mark.parametrize(
    ("kernel", "vcpus"), [("debian", 1), ("debian-newest", 2), ("damoos", 2), ("damoos-6.1", 1)]
)  # fmt: skip
def test_each_kernel_sleeps_on_each_cpu_and_stands_still_between_calls(
    kernel: str, vcpus: int, guest_image: None
) -> None:
    session = fast(kernel, vcpus).open()
    try:
        until(lambda: stopped(session))
        for cpu in range(vcpus):
            slept = session.agent.call("run", argv=["taskset", "-c", str(cpu), "sleep", "5"], sample_s=1, **SPEC)
            assert 5 <= slept["runtime_s"] < 5.1
            until(lambda: stopped(session))
        assert session.agent.call("state")["clocksource"] == "tsc"
    finally:
        session.close()


CONTROLLER = """
import sys
from damoos.machines import link
from damoos.machines.catalog import machine

session = machine(sys.argv[1]).open()
link.SILENCE_S, link.PING_S = 10.0, 1.0
print("open", flush=True)
sys.stdin.readline()
measured = session.agent.call("run", argv=["sleep", "600"], sample_s=600, env={}, limit_s=7200, drop_caches=False,
                              context=None)
print(measured["runtime_s"], flush=True)
session.close()
"""


def test_a_controller_that_is_stopped_in_the_middle_of_a_call_gets_its_answer(
    guest_image: None, tmp_path: Path
) -> None:
    file = tmp_path / "fast.toml"
    file.write_text(FILE)
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", CONTROLLER, file]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as controller:
        assert controller.stdin
        assert controller.stdout
        try:
            assert controller.stdout.readline() == "open\n"
            controller.stdin.write("\n")
            controller.stdin.flush()
            os.kill(controller.pid, signal.SIGSTOP)
            time.sleep(12)  # longer than the silence that it bears
            os.kill(controller.pid, signal.SIGCONT)
            assert float(controller.stdout.readline()) == pytest.approx(600, abs=1)
            assert controller.wait() == 0
        finally:
            controller.kill()


def test_a_kernel_that_takes_its_cpu_for_another_one_is_refused(guest_image: None) -> None:
    said = r"clock cannot be set: the kernel takes its CPU for one of 3000000 kHz, and was told tsc_early_khz=4000000"
    with pytest.raises(MachineLost, match=said):
        fast("debian", cmdline="tsc_early_khz=3000000").open()
