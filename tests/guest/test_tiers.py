"""Memory tiers on a real kernel: accesses are counted, reclaim demotes, and each policy for tiers does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.common.compiled import PROGRAM_FLAGS, compiled
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.doctor.tiers import tiers
from damoos.errors import UnsupportedError
from damoos.machines import catalog
from damoos.machines.guest import GuestMachine, GuestSession
from damoos.testing.contracts import until
from damoos.testing.policy_contracts import spec, state
from damoos.workloads.catalog import NO_PROGRAMS, workload
from tests.conftest import MIB, require_kernel, shell

GROUP = Path("/sys/fs/cgroup/tiers")
DEMOTION, BALANCING = "/sys/kernel/mm/numa/demotion_enabled", "/proc/sys/kernel/numa_balancing"
RUN = {"env": {}, "limit_s": 120, "sample_s": 0.1, "drop_caches": False}
FILE = Path(__file__).parent / "known_accesses.c"
# Of policies that change settings of the kernel: the words, a file, and what it holds then.
SETS = {
    "naive": ("naive", BALANCING, "0"),
    "autonuma": ("autonuma:scan_period=200ms", BALANCING, "1"),
    "tpp": ("tpp:watermarks=50:promote_rate=1G:hot=500ms", "/proc/sys/vm/watermark_scale_factor", "50"),
}
# Of those that place a program's pages: the least and the greatest share of them on node 0.
PLACES = {
    "all-fast": ("all-fast", 1.0, 1.0),
    "all-slow": ("all-slow", 0.0, 0.0),
    "interleave": ("interleave", 0.45, 0.55),
    "interleave by weights": ("interleave:fast=3", 0.7, 0.8),
}


@pytest.fixture(scope="module")
def machine() -> GuestMachine:
    require_kernel("debian-newest")
    found = catalog.machine("tiers-1-4")
    assert isinstance(found, GuestMachine)
    found.conditions = found.conditions.model_copy(update={"numa_balancing": 2})
    return found


@pytest.fixture(scope="module")
def session(guest_image: None, machine: GuestMachine) -> Iterator[GuestSession]:
    opened = machine.open()
    opened.agent.call("prepare", **machine.conditions.wanted())
    yield opened
    opened.close()


def counts_file(session: GuestSession) -> str:
    shell(session, "for d in /sys/bus/pci/devices/*; do grep -q 0x1110 $d/device && echo 1 > $d/enable; done; true")
    return shell(session, "ls $(dirname $(grep -l 0x1110 /sys/bus/pci/devices/*/device))/resource2").strip()


@pytest.mark.parametrize("node", [0, 1])
def test_counts_are_those_of_a_program_whose_accesses_are_known(session: GuestSession, node: int) -> None:
    program = session.copy(compiled(FILE, PROGRAM_FLAGS))
    lines = shell(session, f"{program} {counts_file(session)} {node} 64").splitlines()
    pages = [line.split() for line in lines if not line.startswith("misses")]
    assert len(pages) == 64
    assert [made for _, made, _ in pages] == [str(2 * (100 + nth)) for nth in range(64)]
    assert [counted for *_, counted in pages] == [made for _, made, _ in pages]

    # 256 KiB fit into the modelled cache of 1 MiB, and 8 MiB do not.
    few = [int(line.split()[2]) for line in lines if line.startswith("misses")]
    assert few[0] >= 64 * 61  # it has touched three lines of each page before
    assert few[1] < 64
    many = shell(session, f"{program} {counts_file(session)} {node} 2048").splitlines()[-1]
    assert int(many.split()[2]) >= 2048 * 64


def demoted_pages(session: GuestSession) -> int:
    return sum(int(line.split()[1]) for line in shell(session, "grep ^pgdemote_ /proc/vmstat").splitlines())


def test_reclaim_demotes_to_the_slow_tier(session: GuestSession, machine: GuestMachine) -> None:
    assert shell(session, f"cat {DEMOTION} {BALANCING}").split() == ["false", "2"]
    (found,) = tiers(session.agent.call("state")["nodes"], machine.conditions)
    assert (found.state, found.found.startswith("2: node 0 (")) == ("ok", True)

    shell(session, f"echo +memory > {GROUP.parent}/cgroup.subtree_control; mkdir {GROUP}; echo 1 > {DEMOTION}")
    shell(session, "mkdir -p /run/t && mount -t tmpfs none /run/t")
    shell(session, f"echo $$ > {GROUP}/cgroup.procs; dd if=/dev/zero of=/run/t/file bs=1M count=32 2>/dev/null")
    before = demoted_pages(session)
    shell(session, f"echo 16M > {GROUP}/memory.reclaim || true")  # less than it could is an error
    assert demoted_pages(session) - before > 2048  # of 4096
    shell(session, f"umount /run/t && rmdir {GROUP}; echo 0 > {DEMOTION}")


@pytest.mark.parametrize("name", SETS)
def test_a_policy_sets_what_it_says_for_as_long_as_it_is_in_force(session: GuestSession, name: str) -> None:
    words, path, value = SETS[name]
    before = state(session)
    raw = session.agent.call("run", argv=["cat", path, DEMOTION], **RUN, **spec(words))
    assert raw["stdout"].split() == [value, "true" if name == "tpp" else "false"]
    assert state(session) == before


@pytest.mark.parametrize("name", PLACES)
def test_a_policy_places_the_pages_of_a_program(session: GuestSession, name: str) -> None:
    words, least, most = PLACES[name]
    before = state(session)
    argv = workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"])
    raw = session.agent.call("run", argv=[*argv[:-1], "-n", "1", argv[-1]], **RUN, **spec(words), abort_s=4.0)
    by_node = raw["placement"]["anon"]
    assert sum(by_node.values()) > 40 * MIB
    assert least <= by_node["N0"] / sum(by_node.values()) <= most
    assert state(session) == before

    counted = raw["counters"]
    assert counted["accesses_n0"] > counted["misses_n0"] > 0  # the kernel's own are there in any case
    if name != "all-fast":  # the page cache may be on node 1 in any case
        assert counted["misses_n1"] > 100_000
    assert {"modelled_s", "fast_hits", "misses_n1", "pgpromote_success"} <= set(session.facts["metrics"])


def test_nobody_counts_between_runs(session: GuestSession) -> None:
    file = counts_file(session)
    before = shell(session, f"head -c 4096 {file} | md5sum")
    assert shell(session, f"true; head -c 4096 {file} | md5sum") == before


def test_damos_moves_cold_memory_to_the_slow_node(session: GuestSession) -> None:
    """Until nine tenths of the fast node are free, which they never are."""
    before = state(session)
    # With the kernel's usual tuner the quota begins at a byte, and it is 12 s before a page can move.
    words = "damon-tiers:free=90%:cold_age=500ms:intervals=fixed:tuner=temporal"
    argv = workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"])
    session.agent.call("apply", argv=[*argv[:-1], "-n", "60", argv[-1]], env={}, **spec(words))
    try:
        status = until(session, lambda status: status["damos"][0]["sz_applied_bytes"] > MIB // 4, within_s=120)
    finally:
        session.agent.call("stop")
    assert status["damos"][0]["sz_applied_bytes"] > MIB // 4
    assert state(session) == before


def test_senpai_of_tiers_demotes_what_is_cold(session: GuestSession) -> None:
    """Nothing is swapped out, and what is charged stays; fast memory is what it takes."""
    before = state(session)
    words = "senpai-tiers:interval=500ms:ratio=10%:most=10%:pressure=10%:io_pressure=10%"
    program = "import time; held = bytearray(b'x') * (40 << 20); time.sleep(8)"
    raw = session.agent.call("run", argv=["python3", "-c", program], **RUN, **spec(words))
    assert raw["counters"]["pgdemote_proactive"] > 2048
    assert raw["counters"]["pswpout"] == 0
    rows = [dict(zip(raw["controller"]["columns"], row, strict=True)) for row in raw["controller"]["decisions"]]
    assert rows[-1]["fast_bytes"] < max(row["fast_bytes"] for row in rows) - 8 * MIB
    assert state(session) == before


def test_a_filter_by_node_is_one_of_its_addresses(session: GuestSession) -> None:
    text = "attrs operations=paddr\nmin max  min max  min max  stat  filters[0].type=addr  filters[0].nid=1"
    asked: dict[str, Any] = {"context": context_to_json(Context.parse(text))}
    accepted = session.agent.call("run", argv=["true"], **RUN, **asked)["accepted"]
    start, end = (int(next(text for name, text in accepted.items() if name.endswith(one))) for one in ("start", "end"))
    assert (start, end) == (256 * MIB, end)
    assert 1250 * MIB < end <= 1280 * MIB


def test_a_program_that_runs_keeps_its_own_way_to_place_pages(session: GuestSession) -> None:
    pid = int(shell(session, "setsid sleep 300 > /dev/null 2>&1 & echo $!"))
    try:
        with pytest.raises(UnsupportedError, match="interleaving is for programs that start under it"):
            session.agent.call("apply", on={"kind": "pid", "pid": pid}, **spec("interleave"))
    finally:
        shell(session, f"kill {pid}")


# Holds one file of 16 MiB open and closes another one like it.
FILES = """
import os, sys, time
def written(name):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x" * (16 << 20)); os.fsync(fd)
    return fd
held, closed = written("held"), written("closed")
os.close(closed)
time.sleep(3)
reopened = os.open("closed", os.O_RDONLY) if sys.argv[1:] else None
time.sleep(2)
"""


@pytest.mark.parametrize("again", [False, True])
def test_the_cache_of_a_closed_file_goes_to_slow_memory(session: GuestSession, again: bool) -> None:
    """And only that; it comes back when the file is opened again."""
    before = state(session)
    asked = {**RUN, **spec("kloc-files")}
    raw = session.agent.call("run", argv=["python3", "-c", FILES, *(["again"] if again else [])], **asked)
    assert raw["exit_status"] == 0, raw["stderr"]
    by_node = raw["placement"]["file"]
    assert by_node["N0"] > (28 if again else 14) * MIB
    assert (by_node.get("N1", 0) > 14 * MIB) != again
    told = raw["controller"]
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["decisions"]]
    assert sum(row["nr_demoted"] for row in rows) >= 1
    assert sum(row["moved_bytes"] for row in rows) >= (32 if again else 16) * MIB
    assert state(session) == before
