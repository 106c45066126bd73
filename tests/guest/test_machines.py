"""Guests of the catalogue, and the machines' contract on real ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent.listeners import held_by, tcp_listeners
from damoos.damon.scheme import Context
from damoos.dispatch.lease import Lease
from damoos.doctor import examine, fit, why_unfit
from damoos.errors import MachineLost
from damoos.machines.base import Machine
from damoos.machines.catalog import machine as named
from damoos.machines.guest import GuestSession
from damoos.machines.ssh import SshMachine
from damoos.policies.base import DamosPolicy, NonePolicy
from damoos.testing.contracts import MachineContract
from damoos.workloads import catalog
from tests.adversary.conftest import ATTACKER, PYTHON, needs_two_users
from tests.conftest import open_guest, shell, short_workload

KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"


class TestPaperGuest(MachineContract):
    """i3's guest, a sixteenth of the paper's."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls, guest_image: None) -> Machine:
        return named("i3")

    def test_it_is_fit(self, machine: Machine, session) -> None:
        session.agent.call("prepare", **machine.conditions.wanted())
        findings = examine(session.agent.call, machine.name, machine.conditions, steady_s=3.0)
        assert fit(findings), why_unfit(findings)
        found = {one.name: one.found for one in findings}
        assert "/dev/zram0 (256 MiB); pageout on vaddr applied to" in found["swap"]
        assert "virtual" in found["clock"] or session.facts["accel"] == "kvm"
        assert session.agent.call("facts")["damon_in_use"] == ""

    def test_a_kdamond_of_somebody_else_makes_it_unfit_and_stays(self, machine: Machine, session) -> None:
        session.connection.run(f"echo 1 > {KDAMONDS}", hide=True, in_stream=False)
        try:
            findings = examine(session.agent.call, machine.name, machine.conditions, steady_s=0.1)
            assert "DAMON free: in use on this machine by another program" in why_unfit(findings)
            assert session.connection.run(f"cat {KDAMONDS}", hide=True, in_stream=False).stdout.strip() == "1"
        finally:
            session.connection.run(f"echo 0 > {KDAMONDS}", hide=True, in_stream=False)

    def test_its_size_is_the_papers_scaled(self, session) -> None:
        assert session.facts["vcpus"] == 1
        assert 0.9 * (2 << 30) < session.facts["mem_bytes"] <= 2 << 30


def test_one_workload_has_another_curve_on_a_faster_cpu(guest_image: None, tmp_path: Path) -> None:
    """Monitoring and paging take the same instructions, so they slow a program down less."""
    file = short_workload(tmp_path, manual_min_age="500ms", work_ms=1000, rate=20_000, paced=False)
    scheme = "attrs  sample=5ms aggr=50ms\n4K max  min min  {} max  pageout"
    runtimes, shares = {}, {}
    for name in ("i3", "z1d"):
        host = named(name)
        host.suit(paced=False)
        with Lease(host) as lease:
            program = catalog.workload(str(file), lease.place)
            policies = [
                NonePolicy(),
                *(DamosPolicy(Context.parse(scheme.format(age))) for age in ("0s", "100ms", "1h")),
            ]
            runs = [lease.run(program, policy, 120)[0] for policy in policies]
        runtimes[name] = [run.metric("runtime_s") for run in runs]
        shares[name] = [run.metric("kdamond_cpu_s") / run.metric("runtime_s") for run in runs[1:]]
    assert runtimes["z1d"][0] / runtimes["i3"][0] == pytest.approx(3 / 4, rel=0.05)
    assert shares["z1d"][-1] < 0.9 * shares["i3"][-1]


class TestSsh(MachineContract):
    """Any host by SSH; here it is a guest."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls, guest_image: None) -> Iterator[Machine]:
        guest = open_guest()
        guest.agent.close()
        yield SshMachine("there", "a host", guest.expose())
        guest.close()


class Running(threading.Thread):
    """A run in a guest, as another damoos would make it at the same time; `cancel` ends it."""

    def __init__(self, session: GuestSession) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.start()

    def run(self) -> None:
        # Longer than any host takes to start the others.
        spec = {"env": {}, "limit_s": 3600.0, "sample_s": 0.5, "drop_caches": False, "context": None}
        with contextlib.suppress(MachineLost):  # which is what the agent calls a run that was cancelled
            self.session.agent.call("run", argv=["sleep", "3600"], **spec)

    def cpus(self) -> frozenset[int]:
        """Those that it has reserved, once it has and runs on no other."""
        while not (cpus := self.session.qemu.reserved.cpus) or runs_on(self.session) != cpus:
            assert self.is_alive()
        return cpus

    def cancel(self) -> None:
        while self.is_alive():  # again, as the agent may not have begun yet
            self.session.agent.cancel()
            self.join(0.2)


def runs_on(session: GuestSession) -> set[int]:
    threads = os.listdir(f"/proc/{session.qemu.pid}/task")
    return set().union(*(os.sched_getaffinity(int(thread)) for thread in threads))


@pytest.fixture
def two_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host with two CPUs and no other guests."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("a host with one CPU")
    os.sched_setaffinity(0, sorted(before)[:2])
    yield
    os.sched_setaffinity(0, before)


def test_guests_at_work_have_a_cpu_each_and_one_too_many_waits(guest_image: None, two_cpus: None) -> None:
    sessions = [open_guest() for _ in range(3)]
    try:
        first, second = Running(sessions[0]), Running(sessions[1])
        theirs = first.cpus()
        assert second.cpus() == os.sched_getaffinity(0) - theirs
        third = Running(sessions[2])
        third.join(1.0)
        assert not sessions[2].qemu.reserved.cpus
        first.cancel()
        assert third.cpus() == theirs
        second.cancel()
        third.cancel()
    finally:
        for session in sessions:
            session.close()


# Connects to every port that a QEMU's command line names or that root opens on loopback, and holds all connections.
HOLDS = """
import pathlib, re, select, socket, sys
def ports():
    named = set()
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            named |= set(re.findall(rb"hostfwd=tcp:127.0.0.1:([0-9]+)-", file.read_bytes()))
        except OSError:
            pass
    rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
    opened = {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[7] == "0"}
    return set(map(int, named)) | opened
old, held = ports(), []
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for port in ports() - old:
        try:
            held += [socket.create_connection(("127.0.0.1", port), 1) for _ in range(20 if len(held) < 900 else 0)]
        except OSError:
            pass
print(len(held), flush=True)
"""


@needs_two_users
def test_another_user_who_holds_connections_keeps_no_guest_from_its_login(guest_image: None) -> None:
    """From its boot on, while it is logged in to, and afterwards."""
    argv = [PYTHON, "-S", "-c", HOLDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, user=ATTACKER, group=ATTACKER, extra_groups=[], cwd="/", **pipes) as attacker:
        assert attacker.stdout
        assert attacker.stdout.readline() == b"up\n"
        session = open_guest()
        try:
            assert shell(session, "echo here") == "here"
            inodes = held_by([session.qemu.pid])
            assert not [one for one in tcp_listeners(os.getpid()) if one.inode in inodes]
            held, _ = attacker.communicate()
            print(f"the attacker got {int(held)} connections through")
            waiting = int(shell(session, "pgrep -fc 'sshd: .*\\[(priv|accepted|net)' || true"))
            assert waiting < 50, held
        finally:
            session.close()
