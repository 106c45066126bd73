"""Memory nodes of this machine, and the tiers that its kernel makes of them. Reads only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
        for node in _numbers((tier / "nodelist").read_text())
    }
    found = []
    for place in sorted(places.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        number, sz_bytes = int(place.name[4:]), _total_bytes((place / "meminfo").read_text())
        if sz_bytes:
            has_cpus = bool(_numbers((place / "cpulist").read_text()))
            found.append({"node": number, "sz_bytes": sz_bytes, "has_cpus": has_cpus, "tier": tier_of.get(number)})
    return found


def _total_bytes(meminfo: str) -> int:
    words = next((line.split() for line in meminfo.splitlines() if "MemTotal:" in line), ["0", "kB"])
    return int(words[-2]) << 10


def _numbers(spans: str) -> list[int]:
    """Of a list such as ``0-1,3``."""
    ends = [span.split("-") for span in spans.strip().split(",") if span]
    return [number for span in ends for number in range(int(span[0]), int(span[-1]) + 1)]
