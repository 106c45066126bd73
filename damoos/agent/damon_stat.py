"""DAMON_STAT: the kernel's own monitor of all memory, which many kernels since 6.17 run from the start.

It takes DAMON for itself, so nobody else can use DAMON while it runs. It is nobody's work: it is switched off for as
long as the agent has the machine, and on again after that. What it has seen of the machine is read before.

References
----------
mm/damon/stat.c
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text
from damoos.damon.kdamond import DAMON_STAT, damon_stat_runs


def readings(root: Path = Path("/")) -> dict[str, Any] | None:
    """What DAMON_STAT knows of this machine; None where it does not run, or where this user may not ask.

    Returns
    -------
    dict or None
        ``idle_ms_percentiles`` (101 ints, milliseconds: how long that share of memory has been idle; negative: how
        long it has been accessed, since 6.18), ``bandwidth_bytes_per_s``, ``aggr_us`` (None before 6.18).
    """
    if not damon_stat_runs(root):
        return None
    try:
        idle_ms = kernel_text(root / DAMON_STAT / "memory_idle_ms_percentiles")
        bandwidth = kernel_text(root / DAMON_STAT / "estimated_memory_bandwidth")
        aggr = root / DAMON_STAT / "aggr_interval_us"
        return {
            "idle_ms_percentiles": [int(word) for word in idle_ms.split(",")],
            "bandwidth_bytes_per_s": int(bandwidth),
            "aggr_us": int(kernel_text(aggr)) if aggr.exists() else None,
        }
    except OSError:
        return None


def switch_off(log: UndoLog, root: Path = Path("/")) -> None:
    """Switch it off, if it runs; the list of changes switches it on again."""
    if damon_stat_runs(root):
        log.set_file(root / DAMON_STAT / "enabled", "N")
