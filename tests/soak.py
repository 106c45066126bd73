"""Hours of work in one process, on machines that are not there and on a guest: `make soak`.

Nothing may grow: memory, descriptors, threads, processes, folders; on the guest cgroups and swap devices, too.
``python tests/soak.py [fake] [guest]`` does one of them only; SOAK_S is how long each of them lasts.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from damoos.dispatch.local import LocalDispatcher
from damoos.machines.guest import GuestSession
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.sweep import Sweep
from damoos.testing.fleet import BUSY, plugin
from tests.conftest import hot_cold, open_guest, prcl, shell

Counts = Mapping[str, int]
# Memory of a process moves by what its allocator keeps; everything else is a number that has to stay.
MEMORY_SHARE, MEMORY_SLACK_KIB = 0.03, 1024
SAY_S = 60.0


def say(text: str) -> None:
    print(f"soak: {text}", flush=True)


def of_process(pid: int | str = "self") -> dict[str, int]:
    """What a process of this machine holds; of this one, what the collector would not free."""
    gc.collect()
    place = Path(f"/proc/{pid}")
    return {
        "rss_kib": int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024,
        "descriptors": len(list((place / "fd").iterdir())),
        "threads": len(list((place / "task").iterdir())),
        "children": sum(len((task / "children").read_text().split()) for task in (place / "task").iterdir()),
    }


def soak(name: str, for_s: float, work: Callable[[], None], count: Callable[[], Counts]) -> None:
    """Repeat some work, and end this program where something grows from the second quarter of the times to the last.

    Parameters
    ----------
    work : callable
        After it, nothing of what it needed may be left.
    count : callable
        What there is now.
    """
    begun, said, counts = time.monotonic(), 0.0, []
    while (passed_s := time.monotonic() - begun) < for_s:
        work()
        counts.append(count())
        if passed_s >= said:
            say(f"{name}: {passed_s:.0f} s, {len(counts)} times: {counts[-1]}")
            said = passed_s + SAY_S
    quarter = len(counts) // 4
    if quarter < 5:
        raise SystemExit(f"soak: {name}: {len(counts)} times in {for_s:g} s are too few to say anything")
    early, late = counts[quarter : 2 * quarter], counts[-quarter:]
    grown = []
    for key in early[0]:
        before, now = (statistics.median(one[key] for one in part) for part in (early, late))
        allowed = before * MEMORY_SHARE + MEMORY_SLACK_KIB if key.endswith("_kib") else 0
        say(f"{name}: {key}: {before:g} in the second quarter of the times, {now:g} in the last")
        grown += [key] if now > before + allowed else []
    if grown:
        raise SystemExit(f"soak: {name}: NOT TRUE that nothing grows: {', '.join(grown)}")
    say(f"{name}: {len(counts)} times in {for_s:g} s, and nothing grows")


def fake(place: Path) -> None:
    """Sweeps of 3 machines of which one in a hundred runs loses its machine, one after the other."""
    os.environ.update(plugin(place / "plugin", losses=0.01))

    def work() -> None:
        with tempfile.TemporaryDirectory(dir=place) as results:
            words = {"nr_samples": 10, "repeats": 2, "candidates": 1}
            config = SweepConfig(["synthetic/hot-cold"], ["fake:a", "fake:b", "fake:c"], words)
            dispatcher = LocalDispatcher()
            drive(Sweep.create(Path(results), config), dispatcher, lambda kind, about: None, steady_s=0)
            dispatcher.close()
        BUSY.clear()  # the fake fleet's own list

    def count() -> Counts:
        return {**of_process(), "files": sum(1 for _ in place.rglob("*"))}

    soak("fake", float(os.environ.get("SOAK_S", 3600)), work, count)


# Of the agent, the largest Python of the guest, and of all that damoos makes on a machine.
GUEST_COUNTS = """
pid=$(tr -d '[" ' < /run/damoos/lock | cut -d, -f2)
echo rss_kib $(awk '/^VmRSS/ {print $2}' /proc/$pid/status)
echo descriptors $(ls /proc/$pid/fd | wc -l)
echo threads $(ls /proc/$pid/task | wc -l)
echo processes $(ls -d /proc/[0-9]* | wc -l)
echo cgroups $(find /sys/fs/cgroup -type d | wc -l)
echo zram $(ls -d /sys/block/zram* | wc -l)
echo swaps $(wc -l < /proc/swaps)
echo kdamonds $(cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds)
echo tracers $(ls /sys/kernel/tracing/instances 2>/dev/null | wc -l)
echo folders $(find /run/damoos /var/lib/damoos /tmp -mindepth 1 | wc -l)
"""


def guest(place: Path) -> None:
    """Runs with and without a scheme, windows on a process that lives on, and a scheme in service, on one guest."""
    session = open_guest()
    try:
        pid = int(shell(session, "nohup sleep 1000000 >/dev/null 2>&1 & echo $!"))
        for_s = float(os.environ.get("SOAK_S", 1200))
        soak("guest", for_s, lambda: on_guest(session, pid), lambda: in_guest(session))
    finally:
        session.close()


def on_guest(session: GuestSession, pid: int) -> None:
    """All kinds of calls that leave something to undo."""
    call = session.agent.call
    run = {"argv": hot_cold(session), "env": {}, "limit_s": 60, "sample_s": 0.5, "drop_caches": True, "abort_s": 1.0}
    for context in (None, prcl("100ms")):
        call("run", **run, context=context)
    window = {"pid": pid, "settle_s": 0.1, "window_s": 0.5, "sample_s": 0.2, "metrics": []}
    for context in (prcl("100ms"), None):
        call("observe", **window, context=context)
    call("apply", argv=["sleep", "60"], env={}, context=prcl("100ms"))
    call("stop")


def in_guest(session: GuestSession) -> Counts:
    """What the agent and its changes take there, and what this process holds."""
    pairs = (line.split() for line in shell(session, GUEST_COUNTS).splitlines())
    return {**{f"controller_{key}": value for key, value in of_process().items()}, **{k: int(v) for k, v in pairs}}


def main() -> None:
    parts = {part.__name__: part for part in (fake, guest)}
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory(prefix="damoos-soak-") as place:
            say(f"{name}: {parts[name].__doc__}")
            parts[name](Path(place))


if __name__ == "__main__":
    main()
