"""Memory nodes of this machine, and the tiers that its kernel makes of them. Reads only."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from damoos.agent import proc
from damoos.damon.files import kernel_lines, kernel_text
from damoos.errors import UnsupportedError

# Counters of pages that have moved between nodes: up, down by reclaim of each kind, and all of them.
MOVES = ("pgpromote_success", "pgdemote_kswapd", "pgdemote_direct", "pgdemote_proactive", "pgmigrate_success")
_NODES = Path("/sys/devices/system/node")
# Since Linux 6.1; the smaller the number, the faster the memory.
_TIERS = Path("/sys/devices/virtual/memory_tiering")


def nodes(places: Path = _NODES, tiers: Path = _TIERS) -> list[dict[str, Any]]:
    """Each node that has memory.

    Returns
    -------
    list of dict
        ``node`` (its number), ``sz_bytes``, ``has_cpus``, ``tier`` (the kernel's number, None where it makes no tiers).
    """
    tier_of = {
        node: int(tier.name[len("memory_tier") :])
        for tier in tiers.glob("memory_tier[0-9]*")
        for node in _numbers(kernel_text(tier / "nodelist"))
    }
    found = []
    for place in sorted(places.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        number, sz_bytes = int(place.name[4:]), _total_bytes(kernel_text(place / "meminfo"))
        if sz_bytes:
            has_cpus = bool(_numbers(kernel_text(place / "cpulist")))
            found.append({"node": number, "sz_bytes": sz_bytes, "has_cpus": has_cpus, "tier": tier_of.get(number)})
    return found


def moved_pages() -> dict[str, int]:
    """`MOVES` of this machine since boot; empty where it has one node."""
    return proc.vmstat(MOVES) if _has_several() else {}


@cache
def _has_several() -> bool:
    return len(nodes()) > 1


def tiers() -> list[list[int]]:
    """Numbers of the nodes of each tier, the fastest first; one list where the kernel makes no tiers."""
    by_tier: dict[int, list[int]] = {}
    for node in nodes():
        by_tier.setdefault(node["tier"] or 0, []).append(node["node"])
    return [by_tier[tier] for tier in sorted(by_tier)]


def nodes_of(which: str) -> list[int]:
    """Numbers of the nodes that a policy for tiers means.

    Parameters
    ----------
    which : {"fast", "slow", "all"}
        Those of the fastest tier, of all other tiers, or of both.

    Raises
    ------
    UnsupportedError : this machine has one tier
    """
    found = tiers()
    if len(found) < 2:
        raise UnsupportedError(
            "this machine's memory is of one tier, so there is nothing to place; damoos doctor shows tiers, and the"
            " machine tiers-1-4 has two"
        )
    fast, slow = found[0], [node for tier in found[1:] for node in tier]
    return {"fast": fast, "slow": slow, "all": sorted(fast + slow)}[which]


def span(node: int, zones: Path = Path("/proc/zoneinfo")) -> tuple[int, int]:
    """The first physical address of a node's memory, and the first one behind it.

    Raises
    ------
    UnsupportedError : this machine has no such node, or it has no memory
    """
    of_node = False
    spans = []
    spanned = 0
    for line in kernel_lines(zones):
        if match := re.match(r"Node (\d+), zone", line):
            of_node, spanned = int(match[1]) == node, 0
        elif of_node and (match := re.match(r"\s+spanned\s+(\d+)", line)):
            spanned = int(match[1])
        elif of_node and (match := re.match(r"\s+start_pfn:\s+(\d+)", line)) and spanned:
            spans.append((int(match[1]), int(match[1]) + spanned))
    if not spans:
        raise UnsupportedError(f"this machine has no memory node {node}")
    return min(start for start, _ in spans) * proc.PAGE, max(end for _, end in spans) * proc.PAGE


def _total_bytes(meminfo: str) -> int:
    words = next((line.split() for line in meminfo.splitlines() if "MemTotal:" in line), ["0", "kB"])
    return int(words[-2]) << 10


def _numbers(spans: str) -> list[int]:
    """Numbers of a kernel's list such as ``0-1,3``."""
    ends = [span.split("-") for span in spans.strip().split(",") if span]
    return [number for span in ends for number in range(int(span[0]), int(span[-1]) + 1)]
