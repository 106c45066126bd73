"""What is read of a process tree and of the machine while something is measured."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, proc
from damoos.agent.machine_setup import Swap

SAMPLE_COLUMNS = (
    "t_s", "rss_bytes", "pss_bytes", "cgroup_bytes", "zram_bytes", "nr_procs", "anon_huge_bytes",
    "psi_some_us", "psi_full_us",
)  # fmt: skip


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
        self._swap = swap
        self._samples: list[tuple[float, ...]] = []
        self._counters, self._pressure = proc.vmstat(), cgroup.pressure(group)
        self._cpu_s = cgroup.cpu_s(group) if group else None
        self._start = time.monotonic()

    @property
    def for_s(self) -> float:
        """Time since the meter was made."""
        return time.monotonic() - self._start

    def sample(self, pids: list[int]) -> None:
        """Look at the memory of a process tree now."""
        rss = sum(map(proc.rss_bytes, pids))
        if rss == 0 and self._samples:
            return  # it is exiting: its memory is gone, its end not yet announced, and 0 is not what it used
        current = self._group and self._group / "memory.current"
        in_cgroup = int(current.read_text()) if current and current.exists() else math.nan
        compressed = self._swap.compressed_bytes() if self._swap else 0
        mapped = list(map(proc.mapped_bytes, pids))
        pss, huge = (sum(one) for one in zip(*mapped, strict=True)) if mapped else (0, 0)
        pressure = cgroup.pressure(self._group)
        psi_us = (pressure.get(name, math.nan) - self._pressure.get(name, 0) for name in ("some", "full"))
        self._samples.append((self.for_s, rss, pss, in_cgroup, compressed, len(pids), huge, *psi_us))

    def read(self) -> dict[str, Any]:
        """What has come together so far; raw, nothing is averaged here."""
        runtime_s, counters, pressure = self.for_s, proc.vmstat(), cgroup.pressure(self._group)
        found: dict[str, Any] = {
            "began_s": self._start,
            "runtime_s": runtime_s,
            "counters": {name: counters[name] - self._counters[name] for name in counters},
            "psi_us": {name: us - self._pressure.get(name, 0) for name, us in pressure.items()},
            "sample_columns": SAMPLE_COLUMNS,
            "samples": self._samples,
        }
        if self._group and self._cpu_s:
            user_s, system_s = cgroup.cpu_s(self._group)
            found |= {"user_s": user_s - self._cpu_s[0], "system_s": system_s - self._cpu_s[1]}
        return found
