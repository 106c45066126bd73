"""What guests swap to: a device with a latency, in a guest whose CPU never halts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.damon.scheme import Context
from damoos.machines.base import Session
from damoos.machines.catalog import machine
from damoos.machines.guest import GuestSession
from damoos.policies import catalog
from damoos.policies.base import DamosPolicy, limited
from damoos.workloads.base import PatternWorkload, Tuning
from tests.conftest import MIB, open_guest, shell

LATENCY_US = 470
# 32 MiB are reclaimed from the program's own group, and some of their pages are read, one at a time.
FAULTS = """
import json, mmap, os, random, time
PAGES = 8192
memory = mmap.mmap(-1, PAGES * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(PAGES):
    memory[page * 4096] = 1
open("/proc/sys/vm/page-cluster", "w").write("0")
group = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().split("::")[1].strip()
while int(open(group + "/memory.swap.current").read()) < PAGES * 2048:
    try:
        open(group + "/memory.reclaim", "w").write("8M")
    except OSError:
        pass  # less than that could be reclaimed this time
took_us = []
for page in random.Random(0).sample(range(PAGES), 400):
    swapped_in = int(open("/proc/vmstat").read().split("pswpin ")[1].split()[0])
    begun = time.monotonic_ns()
    memory[page * 4096]
    took = time.monotonic_ns() - begun
    if int(open("/proc/vmstat").read().split("pswpin ")[1].split()[0]) > swapped_in:
        took_us.append(took / 1000)
print(json.dumps(sorted(took_us)))
"""


@pytest.fixture(scope="module")
def slow(guest_image: None) -> Iterator[GuestSession]:
    chosen = machine("guest-ssd-fast")
    session = chosen.open()
    assert isinstance(session, GuestSession)
    session.agent.call("prepare", **chosen.conditions.wanted())
    yield session
    session.close()


def python(session: Session, program: str) -> str:
    spec = {"env": {}, "limit_s": 600, "sample_s": 0.5, "drop_caches": True, "context": None}
    raw = session.agent.call("run", argv=["python3", "-c", program], **spec)
    assert raw["exit_status"] == 0, raw["stderr"]
    return str(raw["stdout"])


def test_the_cpu_never_halts(slow: GuestSession) -> None:
    """The kernel's idle time stands still while everything waits, but for the moments until the program has the CPU."""
    assert slow.facts["clock"] == "emulated CPU of 500 MIPS, never idle"
    fields = shell(slow, "head -1 /proc/stat; sleep 1; head -1 /proc/stat").splitlines()
    before, after = ([int(word) for word in line.split()[1:]] for line in fields)
    assert after[3] - before[3] <= 0.1 * (sum(after[:8]) - sum(before[:8]))


def test_a_fault_takes_as_long_as_the_device(slow: GuestSession) -> None:
    took_us = json.loads(python(slow, FAULTS))
    assert len(took_us) > 100
    # Where the program's own memory came back in between, an access to a page that was there counts as well.
    assert took_us[len(took_us) // 10] >= LATENCY_US
    assert took_us[len(took_us) // 2] < 2 * LATENCY_US


# It writes to all of its memory again and again, 2 MiB every 20 ms.
THRASH = """
import mmap, sys, time
PAGES, memory = 12288, mmap.mmap(-1, 12288 * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
begun, at = time.monotonic(), 0
while time.monotonic() < begun + float(sys.argv[1]):
    for page in range(512):
        memory[(at + page) % PAGES * 4096] = 1 + at % 7
    at += 512
    time.sleep(0.02)
"""
BYTES_PER_S = 2 << 20
REGULATED = {
    "senpai": catalog.parse("senpai:interval=200ms:ratio=5%:most=5%:pressure=90%:io_pressure=90%"),
    "pageout": DamosPolicy(Context.parse("4K max  min min  0 max  pageout")),
}


@pytest.mark.parametrize("name", REGULATED)
def test_writes_to_swap_stay_at_their_limit_under_any_policy(slow: GuestSession, name: str) -> None:
    """TMO's Figure 14: a pattern that thrashes writes far more than the limit without it, and as much as it with it."""

    def written_per_s(limit: int, seconds: int) -> float:
        policy = limited(REGULATED[name], {}, 0.0, limit)
        spec = {"env": {}, "limit_s": 600, "sample_s": 0.5, "drop_caches": True, **policy.spec()}
        raw = slow.agent.call("run", argv=["python3", "-c", THRASH, str(seconds)], **spec)
        assert raw["exit_status"] == 0, raw["stderr"]
        assert ("swap_write_limit" in raw) == bool(limit)
        return float(raw["counters"]["swap_written_bytes"] / raw["runtime_s"])

    seconds = 8
    # A full bucket (2 MiB) and the last reclaim (2 MiB) may go beyond the limit.
    most = BYTES_PER_S + 4 * MIB / seconds
    assert written_per_s(0, 3) > 1.5 * most
    assert 0.5 * BYTES_PER_S < written_per_s(BYTES_PER_S, seconds) < 1.1 * most


def test_the_device_is_gone_after_the_lease(slow: GuestSession) -> None:
    """The last one: it ends the agent's work."""
    assert "/dev/damoos-" in shell(slow, "cat /proc/swaps")
    assert slow.agent.call("bye") == []
    assert "damoos" not in shell(slow, "cat /proc/swaps; ls /sys/block")
    assert "configfs" not in shell(slow, "cat /proc/mounts")


def test_memory_compresses_by_the_factor_of_its_pattern(guest_image: None, tmp_path: Path) -> None:
    """On zram with lz4: what the pages held, by what is left of them."""
    pattern = tmp_path / "fill.pattern"
    pattern.write_text("#regions\na, 16M\n\nfill\n100\na, 0, 4096, 1, wo\n\nrest\n3000000\na, 0, 8, 1, ro\n")
    workload = PatternWorkload("fill", pattern, 64, 1, 1, Tuning(), paced=True, compression=2.5)
    session = open_guest()
    try:
        argv = " ".join(workload.spec(session.copy)["argv"])
        program = f"{argv} & echo $! > /tmp/pid; until grep -q VmSwap.....1[0-9][0-9][0-9][0-9] /proc/$!/status; do "
        reclaim = (
            "group=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); echo 4M > $group/memory.reclaim; sleep 0.1; done"
        )
        spec = {"env": {}, "limit_s": 600, "sample_s": 0.5, "drop_caches": True, "context": None}
        words = f"{program} {reclaim}; cat /sys/block/zram0/mm_stat; kill $!"
        raw = session.agent.call("run", argv=["sh", "-c", words], **spec)
        original, compressed = map(int, raw["stdout"].split()[:2])
    finally:
        session.close()
    assert original > 8 * MIB, raw
    assert original / compressed == pytest.approx(2.5, rel=0.15)
