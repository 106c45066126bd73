"""Whether memory has tiers where something is to move between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damoos.doctor.finding import OK, WARN, Finding
from damoos.machines.base import Conditions
from damoos.units import show_bytes

PROMOTES = 2  # the bit of kernel.numa_balancing


def tiers(nodes: Sequence[Mapping[str, Any]], conditions: Conditions) -> list[Finding]:
    """What there is to say of memory nodes; nothing of a machine with one node.

    Parameters
    ----------
    nodes : sequence of mapping
        As `damoos.agent.nodes.nodes` tells them.
    """
    if len(nodes) < 2:
        return []
    by_tier: dict[int | None, list[str]] = {}
    for node in nodes:
        said = f"node {node['node']} ({show_bytes(node['sz_bytes'])}{'' if node['has_cpus'] else ', no CPUs'})"
        by_tier.setdefault(node["tier"], []).append(said)
    shown = " before ".join(" and ".join(by_tier[tier]) for tier in sorted(by_tier, key=lambda tier: tier or 0))
    if len(by_tier) > 1:
        return [Finding("memory tiers", OK, f"{len(by_tier)}: {shown}")]
    wants = bool(conditions.demotion) or bool((conditions.numa_balancing or 0) & PROMOTES)
    return [
        Finding(
            "memory tiers",
            WARN if wants else OK,
            f"one, of {shown}: neither demotion nor promotion will do anything",
            "tell the kernel latencies: 'latency' of [[guest.nodes]], or a firmware with an HMAT" if wants else "",
        )
    ]
