"""Policies in service on a real kernel: groups, restarts, several at once, pauses, and whoever else changes things."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.errors import MachineBusy, MachineError, UnsupportedError
from damoos.machines.guest import GuestSession
from damoos.policies.catalog import parse
from damoos.service.journal import Journal
from damoos.service.kept import Kept, adaptation_of, guard_of
from damoos.workloads.catalog import reading
from tests.conftest import MIB, hot_cold, prcl, shell, until

KDAMOND = "/sys/kernel/mm/damon/admin/kdamonds/0"
SWAPPINESS = "/proc/sys/vm/swappiness"
GROUP = "/sys/fs/cgroup/servers/redis"


@pytest.fixture(autouse=True)
def clean(guest: GuestSession) -> Iterator[None]:
    """Each test leaves the guest as it found it."""
    yield
    for name in ("redis", "nginx"):
        guest.agent.call("stop", service=name)
    shell(guest, f"[ ! -e {GROUP} ] || echo 1 > {GROUP}/cgroup.kill")
    assert shell(guest, "cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds") == "0"


def start_server(guest: GuestSession) -> int:
    """A program in a cgroup of its own, as a service manager starts it: the group is made anew each time."""
    argv = " ".join(hot_cold(guest, repeats=1000))
    made = f"mkdir -p {GROUP}; echo +memory > /sys/fs/cgroup/servers/cgroup.subtree_control"
    shell(guest, f"echo +memory > /sys/fs/cgroup/cgroup.subtree_control; {made}")
    pid = int(shell(guest, f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec {argv}' > /dev/null 2>&1 & echo $!"))
    shell(guest, f"until [ $(readlink /proc/{pid}/exe) = {argv.split()[0]} ]; do sleep 0.05; done")
    return pid


def end_server(guest: GuestSession) -> None:
    shell(guest, f"echo 1 > {GROUP}/cgroup.kill; until rmdir {GROUP}; do sleep 0.1; done 2>/dev/null")


def apply(guest: GuestSession, name: str, on: dict[str, Any], **spec: Any) -> dict[str, Any]:
    result: dict[str, Any] = guest.agent.call("apply", service=name, on=on, **{"context": None, **spec})
    return result


def status(guest: GuestSession, name: str = "redis") -> dict[str, Any]:
    result: dict[str, Any] = guest.agent.call("status", service=name)
    return result


ON_GROUP = {"kind": "cgroup", "path": "/servers/redis"}


def test_a_group_is_followed_through_restarts(guest: GuestSession) -> None:
    """The service's group is removed with its last process, and made anew; so is the limit that was set in it."""
    begun = apply(guest, "redis", ON_GROUP, context=prcl("1s"), memory_limits={"memory.high": 1 << 30})
    assert begun["pid"] == 0
    assert not status(guest)["in_force"]
    for restarts in (1, 2):
        pid = start_server(guest)
        now = status(guest)
        assert (now["in_force"], now["restarts"], now["pid"]) == (True, restarts, pid)
        assert now["reading"]["is_group"]
        assert shell(guest, f"cat {GROUP}/memory.high {KDAMOND}/contexts/0/targets/0/pid_target").split() == [
            str(1 << 30), str(pid),
        ]  # fmt: skip
        end_server(guest)
        now = status(guest)
        assert (now["in_force"], now["alive"], now["nr_processes"]) == (False, True, 0)
    start_server(guest)
    assert status(guest)["in_force"]
    guest.agent.call("stop", service="redis")
    assert shell(guest, f"cat {GROUP}/memory.high") == "max"


def test_several_are_kept_at_once_and_taken_off_one_by_one(guest: GuestSession) -> None:
    start_server(guest)
    sleeper = int(shell(guest, "setsid sleep 1000 > /dev/null 2>&1 & echo $!"))
    try:
        apply(guest, "redis", ON_GROUP, **parse("senpai:interval=500ms").spec())
        apply(guest, "nginx", {"kind": "pid", "pid": sleeper}, context=prcl("1s"))
        with pytest.raises(MachineBusy, match="'nginx' has DAMON on this machine"):
            apply(guest, "third", {"kind": "pid", "pid": sleeper}, context=prcl("1s"))
        until(lambda: status(guest)["rule"].get("current_bytes", 0) > 50 * MIB)
        guest.agent.call("stop", service="redis")
        assert shell(guest, f"cat {KDAMOND}/state") == "on"
        assert status(guest, "nginx")["in_force"]
    finally:
        shell(guest, f"kill {sleeper}")
    until(lambda: not status(guest, "nginx")["alive"])


def test_what_is_paused_changes_nothing_and_keeps_watching(guest: GuestSession) -> None:
    start_server(guest)
    action = f"cat {KDAMOND}/state {KDAMOND}/contexts/0/schemes/0/action {KDAMOND}/pid {GROUP}/memory.high {SWAPPINESS}"
    former = shell(guest, f"cat {SWAPPINESS}")
    apply(
        guest, "redis", ON_GROUP, context=prcl("1s"), memory_limits={"memory.high": 1 << 30}, settings={SWAPPINESS: "7"}
    )
    on, does, kdamond, high, swappiness = shell(guest, action).split()
    assert (on, does, high, swappiness) == ("on", "pageout", str(1 << 30), "7")
    guest.agent.call("pause", service="redis")
    assert shell(guest, action).split() == ["on", "stat", kdamond, "max", former]
    paused = status(guest)
    assert (paused["paused"], paused["in_force"], paused["changed"]) == (True, True, [])
    guest.agent.call("resume", service="redis")
    assert shell(guest, action).split() == ["on", "pageout", kdamond, str(1 << 30), "7"]
    assert status(guest)["changed"] == []


def test_an_admin_has_the_last_word_on_a_setting(guest: GuestSession) -> None:
    start_server(guest)
    former = shell(guest, f"cat {SWAPPINESS}")
    apply(guest, "redis", ON_GROUP, memory_limits={"memory.high": 1 << 30}, settings={SWAPPINESS: "7"})
    assert status(guest)["in_force"]
    shell(guest, f"echo 33 > {SWAPPINESS}")
    for _ in range(2):
        now = status(guest)
        assert now["changed"] == [f"{SWAPPINESS} is '33', which damoos had set to '7'"]
        assert not now["in_force"]
    assert shell(guest, f"cat {SWAPPINESS} {GROUP}/memory.high").split() == ["33", "max"]
    guest.agent.call("stop", service="redis")
    assert shell(guest, f"cat {SWAPPINESS}") == "33"
    shell(guest, f"echo {former} > {SWAPPINESS}")


def test_an_admin_has_the_last_word_on_a_scheme(guest: GuestSession) -> None:
    start_server(guest)
    apply(guest, "redis", ON_GROUP, context=prcl("1s"))
    shell(guest, f"echo off > {KDAMOND}/state")
    assert status(guest)["changed"] == ["the kdamond was switched off"]
    assert shell(guest, "cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds") == "0"
    guest.agent.call("stop", service="redis")

    apply(guest, "redis", ON_GROUP, context=prcl("1s"))
    shell(guest, f"echo 99 > {KDAMOND}/contexts/0/schemes/0/access_pattern/age/min; echo commit > {KDAMOND}/state")
    (changed,) = status(guest)["changed"]
    assert re.search(r"schemes/0/access_pattern/age/min: the kernel holds '99' where '\d+' was written", changed)
    guest.agent.call("stop", service="redis")
    assert shell(guest, f"cat {KDAMOND}/state") == "on"  # it is the admin's by now
    shell(guest, f"echo off > {KDAMOND}/state; echo 0 > /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")


def test_a_whole_machine_takes_schemes_on_all_of_its_memory(guest: GuestSession) -> None:
    start_server(guest)
    with pytest.raises(UnsupportedError, match="cannot be put on a whole machine"):
        apply(guest, "redis", {"kind": "machine"}, context=prcl("1s"))
    with pytest.raises(UnsupportedError, match="what the policy is put on is not one cgroup, and this policy steers"):
        apply(guest, "redis", {"kind": "machine"}, **parse("senpai").spec())
    scheme = Context.parse("attrs operations=paddr\n4K max min min 1s max pageout")
    apply(guest, "redis", {"kind": "machine"}, context=context_to_json(scheme))
    until(lambda: status(guest)["damos"][0]["sz_tried_bytes"] >= 50 * MIB)


def test_a_guard_takes_a_scheme_off_that_thrashes(guest: GuestSession, tmp_path: Path) -> None:
    """All of the memory is paged out again and again, whoever uses it; real pressure tells, and the program lives."""
    pid = start_server(guest)
    thrash = context_to_json(Context.parse("4K max min max 0s max pageout"))
    applied = {"context": thrash, "on": ON_GROUP, "metrics": []}
    watched = guard_of({"arm": "tuned", "metrics": [], "guards": ["memory_pressure<=0.5%"], "window_s": 2.0})
    journal = Journal(tmp_path)
    kept = Kept("redis", guest.agent.call, applied, {"scheme": "thrash", "on": "/servers/redis"}, watched, journal)
    kept.begin()
    deadline = time.monotonic() + 300
    while kept.look() and time.monotonic() < deadline:
        time.sleep(0.5)
    audit = (tmp_path / "audit.log").read_text()
    print(audit)
    *turns, ended = re.findall(r"guard: pause.*|guard: resume.*|no longer in force.*", audit)
    assert len(turns) >= 6  # it is paused three times at least before so few windows show that they are its doing
    for paused, resumed in zip(turns[::2], turns[1::2], strict=True):
        assert re.match(
            r"guard: pause: far: memory_pressure is 0\.\d+ in a window of 2 s, limit memory_pressure<=0.5%", paused
        )
        assert resumed == "guard: resume: calm: all limits are kept while the policy is paused"
    assert re.match(r"no longer in force: its guard has taken it off: far-again: memory_pressure is .*", ended)
    assert shell(guest, f"ls -d /proc/{pid} | wc -l") == "1"


def test_a_scheme_that_adapts_backs_off_and_stays_in_force(guest: GuestSession, tmp_path: Path) -> None:
    """Far beyond a limit it comes back more careful than it was; beyond it, by an online commit of the same kdamond."""
    start_server(guest)
    shell(guest, "echo 5 > /run/p99")
    p99 = reading("p99_ms=file:/run/p99")
    policy = {"context": prcl("1s"), "metrics": [[p99.name, p99.source, list(p99.argv), p99.key]]}
    spec = {"arm": "tuned", "guards": ["p99_ms<=20"], "window_s": 2.0, "proven_us": 1_000_000, "policy": policy}
    watched = guard_of({**spec, "metrics": policy["metrics"]})
    journal, about = Journal(tmp_path), {"scheme": "prcl", "on": "/servers/redis"}
    applied = {**policy, "on": ON_GROUP}
    kept = Kept("redis", guest.agent.call, applied, about, watched, journal, adaptation_of(spec, watched))
    kept.begin()

    def in_force() -> list[str]:
        scheme = f"{KDAMOND}/contexts/0/schemes/0"
        return shell(guest, f"cat {scheme}/action {scheme}/access_pattern/age/min {KDAMOND}/pid").split()

    def looked_until(*wanted: str) -> None:
        until(lambda: kept.look() and tuple(in_force()[: len(wanted)]) == wanted, lambda: audit.read_text())

    audit = tmp_path / "audit.log"
    looked_until("pageout", "10")
    kdamond = in_force()[2]
    shell(guest, "echo 100 > /run/p99")
    looked_until("stat")
    shell(guest, "echo 5 > /run/p99")
    looked_until("pageout", "20")
    shell(guest, "echo 30 > /run/p99")
    looked_until("pageout", "40")
    assert in_force()[2] == kdamond
    assert status(guest)["changed"] == []
    print(audit.read_text())
    assert re.findall(r"adapt: min_age (\d+)s", audit.read_text()) == ["2", "4"]


def test_what_is_not_there_is_one_line(guest: GuestSession) -> None:
    with pytest.raises(UnsupportedError, match="systemd does not run on this machine"):
        apply(guest, "redis", {"kind": "unit", "name": "redis.service"})
    with pytest.raises(MachineError, match=r"/run/none\.pid holds no process id"):
        apply(guest, "redis", {"kind": "pid_file", "path": "/run/none.pid"})
    assert guest.agent.call("status", service="redis") == {"in_service": False, "alive": False}
