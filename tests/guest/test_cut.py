"""The connection is cut right after each message that changes a machine: soon the machine is as it was before."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, Scheme
from damoos.errors import MachineLost
from damoos.machines.base import Conditions, Swap
from damoos.machines.guest import GuestSession
from damoos.machines.login import log_out
from damoos.machines.ssh import SshSession
from tests.conftest import nr_agents, open_guest, prcl, shell, until

CONDITIONS = Conditions(swap=Swap(size="64M"), thp="always", swappiness=7, aslr=False)
RUN = {"argv": ["sleep", "300"], "env": {}, "limit_s": 200, "sample_s": 0.5, "drop_caches": True}
WINDOW = {"settle_s": 0.5, "window_s": 100, "sample_s": 0.5, "metrics": []}
CALLS: dict[str, dict[str, Any]] = {
    "features": {},
    "prepare": CONDITIONS.wanted(),
    "tryout": {"operations": "vaddr", "actions": ["pageout", "hugepage"]},
    "seen_accesses": {},
    "steadiness": {"for_s": 100, "cpus": []},
    "swap_cost": {},
    "run under a scheme": {**RUN, "context": prcl("200ms"), "thp": "never", "setup": [["touch", "file"]]},
    "run recorded": {**RUN, "context": context_to_json(Context((Scheme("stat"),))), "record": {"sz_bytes": 1 << 20}},
    "run with the kernel's objects": {
        **RUN,
        "context": context_to_json(Context((), "paddr")),
        "record": {"sz_bytes": 1 << 20, "objects": True},
    },
    "observe": {**WINDOW, "context": prcl("200ms")},
    "apply": {"argv": ["sleep", "300"], "env": {}, "context": prcl("200ms")},
}
LOOK = """
cat /proc/swaps /sys/kernel/mm/transparent_hugepage/enabled /proc/sys/vm/swappiness
cat /proc/sys/kernel/randomize_va_space /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
cat /sys/fs/cgroup/cgroup.subtree_control
cat /sys/kernel/tracing/dynamic_events
ls /sys/block /sys/fs/cgroup /var/lib/damoos /sys/kernel/tracing/instances | grep -v '^loop'
ps -eo stat=,ppid=,comm= | awk '$1 !~ /^Z/ && $2 != 2 && $3 !~ /^(ps|sh|awk|sort)$/ {print $3}' | sort
pgrep -xf 'sleep 300' | wc -l
"""


# Of what damoos's own kernel, which costs half as much under emulation, cannot do: measure the lives of objects.
DEBIANS = {"run with the kernel's objects"}


@pytest.fixture(params=["damoos", "debian"])
def host(request: pytest.FixtureRequest, guest_image: None) -> Iterator[GuestSession]:
    """A host whose own agent has gone, and on which a process runs."""
    session = open_guest(request.param)
    session.agent.close()
    shell(session, "nohup sleep 3000 >/dev/null 2>&1 &")
    until(lambda: not nr_agents(session))
    yield session
    session.close()


def test_whenever_the_connection_is_cut_the_machine_is_as_before(host: GuestSession) -> None:
    before = shell(host, LOOK)
    pid = int(shell(host, "pgrep -xf 'sleep 3000'"))
    for number, (name, args) in enumerate(CALLS.items()):
        if (name in DEBIANS) != (host.facts["kernel_name"] == "debian"):
            continue
        with host.qemu.reserved.busy():  # a guest that shares its CPU may be too slow for a login
            session = SshSession(host.expose())
        if name != "prepare":
            session.agent.call("prepare", **CONDITIONS.wanted())
        words = {**args, "pid": pid} if name == "observe" else args
        call = threading.Thread(target=_lost, args=(session, name.split()[0], words))
        call.start()
        time.sleep(0.15 * (number % 4))  # at different points of what it does
        log_out(session.connection)
        call.join()
        until(lambda: not nr_agents(host))
        after = shell(host, LOOK)
        assert after == before, json.dumps({"after": name, "before": before, "now": after}, indent=1)


def _lost(session: SshSession, name: str, args: dict[str, Any]) -> None:
    try:
        session.agent.call(name, **args)
    except MachineLost:
        session.agent.hang_up()
