"""Which clock an emulated guest gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from damoos.errors import UnsupportedError
from damoos.machines.base import Conditions, Swap
from damoos.machines.catalog import machine
from damoos.machines.clock import KEEPS_STEP, PACED, Clock
from damoos.machines.guest import GuestMachine
from damoos.machines.guest.kernels import Kernel
from damoos.machines.guest.qemu import Accelerator
from damoos.study.run_config import RunConfig

TCG, KVM = Accelerator("tcg", emulated=True), Accelerator("kvm", emulated=False)
PLAIN = Conditions()
ON_FILE = Conditions(swap=Swap(kind="file", size="64M"))
SLOW = Conditions(swap=Swap(kind="null_blk", size="64M", latency="1ms"))


def kernel(**told: Any) -> Kernel:
    return Kernel("k", Path("/nowhere"), "6.12", flush_tlb=True, **{"pmem": True, **told})


def clock(boots: Kernel, *, paced: bool = True, accelerator: Accelerator = TCG, **told: Any) -> Clock:
    machine = GuestMachine("m", "", 1, 1 << 30, kernel="debian", **told)
    machine.suit(paced=paced)
    return machine._clock(accelerator, boots)


def test_programs_that_mostly_wait_get_a_fast_cpu_and_others_one_that_the_host_can_emulate() -> None:
    assert clock(kernel()) == PACED
    assert clock(kernel(), conditions=SLOW) == PACED
    assert clock(kernel(), paced=False) == KEEPS_STEP


def test_a_cpu_that_waits_for_slow_swap_does_not_wait_for_the_host() -> None:
    assert clock(kernel(), paced=False, conditions=SLOW) == Clock(500, "skip")
    assert clock(kernel(pmem=False), conditions=SLOW) == Clock(500, "poll")
    served = GuestMachine("m", "", 1, 1 << 30, SLOW, kernel="debian")
    assert served._clock(TCG, kernel()) == Clock(500, "poll")


@pytest.mark.parametrize(
    ("boots", "conditions"),
    [(kernel(architecture="arm64"), PLAIN), (kernel(pmem=False), PLAIN), (kernel(), ON_FILE)],
)
def test_where_idle_time_cannot_be_skipped_it_passes_unless_the_file_asks_for_it(
    boots: Kernel, conditions: Conditions
) -> None:
    assert clock(boots, conditions=conditions) == KEEPS_STEP
    with pytest.raises(UnsupportedError, match='idle = "skip" is not for'):
        clock(boots, conditions=conditions, clock=PACED)
    assert clock(boots, conditions=conditions, clock=PACED, accelerator=KVM) == PACED  # which has no use for it


def test_guests_of_the_paper_are_as_fast_as_their_hosts_among_each_other() -> None:
    """Table 2: 3.0, 3.1 and 4.0 GHz."""
    assert clock(kernel(), speed=4 / 3) == Clock(5333, "skip")
    assert clock(kernel(), speed=4 / 3, paced=False) == Clock(667, "skip")
    assert clock(kernel(), speed=4 / 3, paced=False, conditions=ON_FILE) == KEEPS_STEP
    hosts = {name: machine(name) for name in ("i3", "m5d", "z1d")}
    assert {host._clock(TCG, kernel()) for host in hosts.values()} == {KEEPS_STEP}  # for what is done step by step
    for host in hosts.values():
        host.suit(paced=True)
    assert [host._clock(TCG, kernel()).mips for host in hosts.values()] == [4000, 4133, 5333]


def test_what_a_machine_file_says_stays() -> None:
    asked = Clock(1000, "poll")
    assert clock(kernel(), clock=asked) == asked
    assert clock(kernel(), clock=PACED, paced=False) == PACED


@pytest.mark.parametrize(
    ("workload", "paced"),
    [("redis/idle", True), ("synthetic/idle", True), ("redis/peak", False), ("parsec3/raytrace", True)],
)
def test_a_workload_says_whether_it_mostly_waits(workload: str, paced: bool) -> None:
    config = RunConfig(workload=workload, machine="guest")
    assert config.machine_for()._suits_paced == paced  # type: ignore[attr-defined]
    assert not config.machine_for(from_beginning_to_end=False)._suits_paced  # type: ignore[attr-defined]


def test_a_command_or_a_process_may_compute_all_the_time() -> None:
    for config in (RunConfig(command="true", machine="guest"), RunConfig(pid=7, machine="guest")):
        assert not config.machine_for()._suits_paced  # type: ignore[attr-defined]
