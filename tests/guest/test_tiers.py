"""Memory tiers on a real kernel: what the doctor says of them, and that reclaim demotes where it is told to."""

from __future__ import annotations

from pathlib import Path

from damoos.doctor.tiers import tiers
from damoos.machines import catalog
from damoos.machines.guest import GuestMachine, GuestSession
from tests.conftest import shell

GROUP = Path("/sys/fs/cgroup/tiers")
DEMOTION, BALANCING = "/sys/kernel/mm/numa/demotion_enabled", "/proc/sys/kernel/numa_balancing"


def demoted_pages(session: GuestSession) -> int:
    return sum(int(line.split()[1]) for line in shell(session, "grep ^pgdemote_ /proc/vmstat").splitlines())


def test_reclaim_demotes_to_the_slow_tier_and_the_machine_is_as_it_was(guest_image: None) -> None:
    machine = catalog.machine("tiers-1-4", "debian")
    assert isinstance(machine, GuestMachine)
    machine.conditions = machine.conditions.model_copy(update={"demotion": True, "numa_balancing": 2})
    session = machine.open()
    try:
        was = shell(session, f"cat {DEMOTION} {BALANCING}")
        session.agent.call("prepare", **machine.conditions.wanted())
        assert shell(session, f"cat {DEMOTION} {BALANCING}").split() == ["true", "2"]

        (found,) = tiers(session.agent.call("state")["nodes"], machine.conditions)
        assert (found.state, found.found.startswith("2: node 0 (")) == ("ok", True)

        shell(session, f"echo +memory > {GROUP.parent}/cgroup.subtree_control; mkdir {GROUP}")
        shell(session, "mkdir -p /run/t && mount -t tmpfs none /run/t")
        shell(session, f"echo $$ > {GROUP}/cgroup.procs; dd if=/dev/zero of=/run/t/file bs=1M count=32 2>/dev/null")
        before = demoted_pages(session)
        shell(session, f"echo 16M > {GROUP}/memory.reclaim || true")  # less than it could is an error
        assert demoted_pages(session) - before > 2048  # of 4096
        shell(session, f"umount /run/t && rmdir {GROUP}")
        session.agent.close()
        assert shell(session, f"cat {DEMOTION} {BALANCING}") == was
    finally:
        session.close()
