"""DAMON_STAT on a kernel that runs it from the start: it makes way, and is there again after every way out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.doctor import examine, fit
from damoos.errors import MachineLost
from damoos.machines.base import Conditions, Swap
from damoos.machines.guest import GuestMachine, GuestSession
from damoos.machines.ssh import SshMachine
from tests.conftest import shell

ENABLED = "cat /sys/module/damon_stat/parameters/enabled"


@pytest.fixture(scope="module")
def machine(guest_image: None) -> GuestMachine:
    conditions = Conditions(swap=Swap(size="128M"), thp="never")
    return GuestMachine("stat", "", 1, 512 << 20, conditions, kernel="debian-newest", cmdline="damon_stat.enabled=Y")


@pytest.fixture(scope="module")
def guest(machine: GuestMachine) -> Iterator[GuestSession]:
    session = machine.open()
    yield session
    session.close()


def host(guest: GuestSession) -> SshMachine:
    """The guest as a host that is there already."""
    return SshMachine("host", "", guest.expose())


def test_the_doctor_finds_the_machine_fit_and_it_runs_again_afterwards(
    machine: GuestMachine, guest: GuestSession
) -> None:
    guest.agent.call("prepare", **machine.conditions.wanted())
    assert shell(guest, ENABLED) == "N"
    findings = examine(guest.agent.call, "stat", machine.conditions, steady_s=0.5)
    assert fit([one for one in findings if one.name not in ("neighbours", "clock")]), findings
    (told,) = (one for one in findings if one.name == "DAMON_STAT")
    assert "of the memory was idle" in told.found
    assert guest.agent.call("bye") == []
    assert shell(guest, ENABLED) == "Y"


def test_a_host_can_be_looked_at_while_somebody_has_it(guest: GuestSession) -> None:
    session = host(guest).open()
    try:
        before = host(guest).look()
        assert before["damon_in_use"] == ""
        assert len(before["damon_stat"]["idle_ms_percentiles"]) == 101
        session.agent.call("prepare")
        seen = host(guest).look()
        assert (seen["has_damon_stat"], seen["damon_stat"]) == (True, None)
        assert shell(guest, ENABLED) == "N"
    finally:
        session.close()
    assert shell(guest, ENABLED) == "Y"


def test_it_runs_again_when_the_agent_is_killed(guest: GuestSession) -> None:
    session = host(guest).open()
    session.agent.call("prepare")
    assert shell(guest, ENABLED) == "N"
    shell(guest, "kill -KILL $(cut -d, -f2 /run/damoos/lock)")
    with pytest.raises(MachineLost):
        session.agent.call("state")
    after = host(guest).open()  # waits until the guardian of the killed one has undone everything
    try:
        assert shell(guest, ENABLED) == "Y"
        assert after.facts["damon_stat"]
    finally:
        after.close()
