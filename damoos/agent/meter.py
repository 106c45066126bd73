"""What is read of a process tree and of the machine while something is measured.

Cheap counters are read with every sample. What takes a walk through page tables (7 ms for each GiB in pages of 4 KiB)
is read as often as `EXACT_SHARE` of one CPU allows, and holds until it is read again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, huge_pages, memcg, proc
from damoos.agent.access_counts import access_counts
from damoos.agent.nodes import moved_pages
from damoos.agent.swap import Swap, compressed_bytes, used_bytes, written_bytes

SAMPLE_COLUMNS = (
    "t_s", "rss_bytes", "pss_bytes", "cgroup_bytes", "zram_bytes", "nr_procs", "anon_huge_bytes",
    "psi_some_us", "psi_full_us", "net_bytes", "system_used_bytes", "swap_bytes",
    *(f"{kind}_bytes" for kind in memcg.KINDS), "major_faults",
)  # fmt: skip
"""Columns of a sample. ``net_bytes`` is all that the run takes: what is charged to its group, zswap's part replaced by
what compressed pages really take in zram and zswap; RSS and that where it has no group of its own. ``major_faults``
are those of the group so far; of the machine where it has none."""
# Of the machine, that tell what paging cost.
COUNTERS = ("pswpin", "pswpout", "pgmajfault")
# The part of one CPU that walks through page tables may take.
EXACT_SHARE = 0.01


class Meter:
    """Counts from the moment it is made.

    Parameters
    ----------
    group : Path or None
        The cgroup that is measured.
    swap : Swap or None
        The swap device to account for.
    """

    def __init__(self, group: Path | None, swap: Swap | None) -> None:
        self._group = group
        # Of the files of each sample, the names are made once.
        self._stat_file, self._current_file, self._swap_file, self._procs_file = (
            f"{group}/{name}" if group else None
            for name in ("memory.stat", "memory.current", "memory.swap.current", "cgroup.procs")
        )
        self._pressure_file = f"{group}/memory.pressure" if group else "/proc/pressure/memory"
        self._swap = swap
        self._samples: list[tuple[float, ...]] = []
        self._counters, self._pressure = self._count(), cgroup.pressures(group)
        self._major_faults = self._count_major_faults(self._stat())
        self._cpu_s = cgroup.cpu_s(group) if group else None
        self._oom_kills = proc.oom_kills()
        self._swap_bytes = used_bytes()
        self._swapped_to: dict[str, int] = {}
        self._mapped, self._next_walk_s = (0, 0), 0.0
        self._sampling_cpu_s = 0.0
        self._start = time.monotonic()

    @property
    def for_s(self) -> float:
        """Time since the meter was made."""
        return time.monotonic() - self._start

    def sample(self, pids: list[int]) -> None:
        """Look at the memory of a process tree now."""
        begun_s = time.thread_time()
        self._sample(pids)
        self._sampling_cpu_s += time.thread_time() - begun_s

    def _sample(self, pids: list[int]) -> None:
        rss = sum(map(proc.rss_bytes, pids))
        if rss == 0 and self._samples:
            return  # it is exiting: its memory is gone, its end not yet announced, and 0 is not what it used
        in_cgroup = memcg.number(self._current_file)
        stat = self._stat()
        used = used_bytes()
        for device, sz_bytes in used.items():
            more = sz_bytes - self._swap_bytes.get(device, 0)
            self._swapped_to[device] = max(self._swapped_to.get(device, 0), more)
        pss, huge = self._walk(pids)
        pressure = proc.pressure_us(self._pressure_file)
        psi_us = (pressure.get(name, math.nan) - self._pressure.get(name, 0) for name in ("some", "full"))
        compressed = compressed_bytes(pids, self._swap, used)
        is_alone = self._procs_file is not None and memcg.holds_only(self._procs_file, pids)
        resident = in_cgroup - stat.get("zswap", 0) if is_alone and math.isfinite(in_cgroup) else rss
        on_swap = memcg.number(self._swap_file)
        self._samples.append(
            (
                self.for_s, rss, pss, in_cgroup, compressed, len(pids), huge, *psi_us, resident + compressed,
                proc.used_bytes(), on_swap, *memcg.kinds(stat),
                self._count_major_faults(stat) - self._major_faults,
            )
        )  # fmt: skip

    def _stat(self) -> dict[str, int]:
        return memcg.numbers(self._stat_file) if self._stat_file else {}

    def _count_major_faults(self, stat: Mapping[str, int]) -> float:
        name = memcg.MAJOR_FAULTS
        return stat.get(name, math.nan) if self._group else proc.vmstat((name,)).get(name, math.nan)

    def _count(self) -> dict[str, int]:
        """Counters of the machine and of the group, as they are now."""
        counts = access_counts()
        return {
            **proc.vmstat(COUNTERS), **moved_pages(), **memcg.counts(self._group),
            "swap_written_bytes": written_bytes(), **(counts.read() if counts else {}),
        }  # fmt: skip

    def _walk(self, pids: list[int]) -> tuple[int, int]:
        """Proportional set size and memory in huge pages, as of now or of the last time that it was affordable."""
        if self.for_s >= self._next_walk_s:
            begun_s = time.thread_time()
            mapped = [proc.mapped_bytes(pid) for pid in pids]
            self._mapped = sum(pss for pss, _ in mapped), sum(huge for _, huge in mapped)
            self._next_walk_s = self.for_s + (time.thread_time() - begun_s) / EXACT_SHARE
        return self._mapped

    def read(self) -> dict[str, Any]:
        """What has come together so far; raw, nothing is averaged here."""
        runtime_s, counters, pressure = self.for_s, self._count(), cgroup.pressures(self._group)
        readings: dict[str, Any] = {
            "began_s": self._start,
            "runtime_s": runtime_s,
            "counters": {name: counters[name] - self._counters.get(name, 0) for name in counters},
            "psi_us": {name: us - self._pressure.get(name, 0) for name, us in pressure.items()},
            "sample_columns": SAMPLE_COLUMNS,
            "samples": self._samples,
            "sampling_cpu_s": self._sampling_cpu_s,
            "oom_kills": proc.oom_kills() - self._oom_kills,
            "peak_bytes": memcg.number(self._group and self._group / "memory.peak"),
            "placement": memcg.placement(self._group),
            "huge_pages": huge_pages.settings(),
            "swapped_to": {device: sz_bytes for device, sz_bytes in self._swapped_to.items() if sz_bytes > 0},
        }
        if self._group and self._cpu_s:
            user_s, system_s = cgroup.cpu_s(self._group)
            readings |= {"user_s": user_s - self._cpu_s[0], "system_s": system_s - self._cpu_s[1]}
        return readings
