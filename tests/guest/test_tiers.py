"""Memory tiers on a real kernel: what the doctor says of them, and that reclaim demotes where it is told to."""

from __future__ import annotations

import time

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, Scheme
from damoos.doctor.tiers import tiers
from damoos.machines import catalog
from damoos.machines.guest import GuestMachine, GuestSession
from damoos.workloads.catalog import NO_PROGRAMS, workload

MIB = 1 << 20
DEMOTION, BALANCING = "/sys/kernel/mm/numa/demotion_enabled", "/proc/sys/kernel/numa_balancing"


def shell(session: GuestSession, command: str) -> str:
    return session.connection.run(command, hide=True).stdout.strip()


def demoted_pages(session: GuestSession) -> int:
    return sum(int(line.split()[1]) for line in shell(session, "grep ^pgdemote_ /proc/vmstat").splitlines())


def test_reclaim_demotes_to_the_slow_tier_and_the_machine_is_as_it_was(guest_image: None) -> None:
    machine = catalog.machine("tiers-1-4")
    assert isinstance(machine, GuestMachine)
    machine.conditions = machine.conditions.model_copy(update={"demotion": True, "numa_balancing": 2})
    session = machine.open()
    try:
        was = shell(session, f"cat {DEMOTION} {BALANCING}")
        session.agent.call("prepare", **machine.conditions.wanted())
        assert shell(session, f"cat {DEMOTION} {BALANCING}").split() == ["true", "2"]

        (found,) = tiers(session.agent.call("state")["nodes"], machine.conditions)
        assert (found.state, found.found.startswith("2: node 0 (")) == ("ok", True)

        argv = workload("synthetic/idle", NO_PROGRAMS).argv(session.copy)
        spec = {"argv": argv, "env": {}, "context": context_to_json(Context((Scheme("stat"),), "vaddr"))}
        pid = session.agent.call("apply", **spec)["pid"]
        group = "/sys/fs/cgroup" + shell(session, f"cat /proc/{pid}/cgroup").rpartition(":")[2]
        end = time.monotonic() + 120
        while int(shell(session, f"cat {group}/memory.current")) < 32 * MIB:
            assert time.monotonic() < end, "the workload has no memory"
        before = demoted_pages(session)
        shell(session, f"echo 16M > {group}/memory.reclaim || true")  # less than it could is an error
        assert demoted_pages(session) - before > 2048  # of 4096
        session.agent.close()
        assert shell(session, f"cat {DEMOTION} {BALANCING}") == was
    finally:
        session.close()
