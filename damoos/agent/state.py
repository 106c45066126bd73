"""What a machine is like right now, beside the facts that stay as they are. Reads only, and needs no root."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, proc
from damoos.agent.nodes import nodes
from damoos.agent.swap import used_bytes
from damoos.damon.files import kernel_lines


def state() -> dict[str, Any]:
    """Privileges, memory, swap, what a run could be measured by, and the clocks.

    Returns
    -------
    dict
        ``uid`` (int), ``mem_available_bytes``, ``swaps`` (devices in use), ``cgroup_v2`` (is there), ``cgroups``
        (can be made), ``psi``, ``emulated`` (whether an emulator executes it, so that time may be virtual),
        ``clocksource``, ``nodes`` (of memory, see `damoos.agent.nodes.nodes`), ``wall_s`` (since the epoch),
        ``boot_s`` (since boot, with what it slept).
    """
    return {
        "uid": os.geteuid(),
        "mem_available_bytes": proc.meminfo()["MemAvailable"],
        "swaps": list(used_bytes()),
        "cgroup_v2": (cgroup.CGROUPS / "cgroup.controllers").exists(),
        "cgroups": cgroup.usable(),
        "psi": "some" in cgroup.pressure(None),
        "emulated": proc.emulated(),
        "clocksource": "".join(_lines(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"))),
        "nodes": nodes(),
        "wall_s": time.time(),
        "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME),
    }


def _lines(path: Path) -> list[str]:
    try:
        return kernel_lines(path)
    except OSError:
        return []
